"""Spark's Python daemon with everything a task needs preloaded: forked workers start at once.

Spark ends workers that are idle for a minute, and each needs 2 s to load: a quiet topic would pay that with
every batch.

On a cluster, it exits at once if its versions are not the host's (``clients/spark/versions.py``).
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from zipimport import zipimporter

from pyspark.daemon import manager

from tabletopic_kernel.clients.spark.versions import VARIABLE, check_versions


def read_archives_once() -> None:
    """Re-read the index of an archive on Python's path only if the archive has changed.

    A worker begins each task with ``importlib.invalidate_caches``, and Spark is on the path as archives:
    Python before 3.13 then reads all names in each again, once for every package loaded from it. That costs
    more than a small batch.
    """
    read_index = zipimporter.invalidate_caches
    importers = sys.path_importer_cache.values()
    known = {zipped.archive: _state(zipped) for zipped in importers if isinstance(zipped, zipimporter)}

    def read_if_changed(importer: zipimporter) -> None:
        state = _state(importer)
        if state is None or known.get(importer.archive) != state:
            known[importer.archive] = state
            read_index(importer)

    zipimporter.invalidate_caches = read_if_changed  # type: ignore[method-assign, assignment]


def _state(importer: zipimporter) -> tuple[int, int] | None:
    try:
        status = os.stat(importer.archive)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def load() -> None:
    """Load what a task needs; with versions other than the host's this may fail."""
    if wanted := os.environ.get(VARIABLE):
        check_versions(wanted)
    importlib.import_module("tabletopic_kernel.pipeline.stage")
    importlib.import_module("tabletopic_kernel.local.crash_points").obey()
    gc.freeze()  # a worker collects garbage after each task, and what is loaded here is none (ADR 0036)


if __name__ == "__main__":
    load()
    read_archives_once()
    manager()  # type: ignore[no-untyped-call]
