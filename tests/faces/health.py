"""A fake table health."""

from __future__ import annotations

from typing import Any

from tabletopic_kernel.table.health import TableHealth

_FIGURES: dict[str, Any] = {
    "rows": 1_000, "files": 4, "bytes": 100_000, "target_bytes": 128 * 1024**2, "small_files": 4,
    "partitions": 1, "sizes": [], "delete_files": 0, "deleted_rows": 0, "snapshots": 3,
    "oldest_snapshot_ms": 1_700_000_000_000, "reaches_back_to_ms": 1_700_000_000_000,
    "refs": ["branch main", "tag tabletopic"], "manifests": 2, "manifest_bytes": 9_000,
    "metadata_bytes": 12_000, "metadata_files": 5,
}  # fmt: skip


def health(topic: str, **figures: Any) -> TableHealth:
    """The health of a small table, with the given figures replaced."""
    return TableHealth(topic, f"default.{topic}", **{**_FIGURES, **figures})
