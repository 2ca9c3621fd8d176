"""What the daemon has loaded costs a task nothing."""

from __future__ import annotations

import gc

from tabletopic_kernel.pipeline.worker.daemon import load


def test_what_the_daemon_loads_is_not_searched_for_garbage() -> None:
    """Spark's daemon collects after each task, which would take longer than a small batch."""
    try:
        load()
        assert gc.get_freeze_count() > 50_000
    finally:
        gc.unfreeze()
