"""Spark's Python daemon with what a task needs already loaded: the workers that it forks begin at once.

Spark ends workers that were idle for a minute, and loading takes them 2 s each, on an idle machine: a quiet
topic would pay that with every batch.
"""

from __future__ import annotations

from pyspark.daemon import manager

from tabletopic_kernel.ingest import stage  # noqa: F401 - that is what it is for
from tabletopic_kernel.local.crash_points import obey

if __name__ == "__main__":
    obey()
    manager()  # type: ignore[no-untyped-call]
