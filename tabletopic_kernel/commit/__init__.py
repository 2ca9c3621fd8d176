"""The coordinator: commits, ledger, events."""
