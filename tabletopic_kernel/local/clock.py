"""This machine's clock."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds since 1970, as Kafka's timestamps and Iceberg's snapshots have them."""
    return time.time_ns() // 1_000_000
