"""What changes a table beside its batches: small files put together, old snapshots let go."""
