"""Spark's Python daemon with everything a task needs preloaded: forked workers start at once.

Spark ends workers that are idle for a minute, and loading takes each 2 s on an idle machine: a quiet topic
would pay that with every batch.

On a cluster, it exits at once if its versions are not the host's (``clients/spark/versions.py``).
"""

from __future__ import annotations

import importlib
import os
import sys
from zipimport import zipimporter

from pyspark.daemon import manager

from tabletopic_kernel.clients.spark.versions import VARIABLE, check_versions


def read_archives_once() -> None:
    """Re-read the index of an archive on Python's path only if the archive has changed.

    A worker begins each task with ``importlib.invalidate_caches``, and Spark is on the path as archives:
    Python before 3.13 then reads all names in each again, once for every package that it loaded from it. That
    costs more than a small batch itself.
    """
    read = zipimporter.invalidate_caches
    known = {
        one.archive: _state(one) for one in sys.path_importer_cache.values() if isinstance(one, zipimporter)
    }

    def read_if_changed(importer: zipimporter) -> None:
        now = _state(importer)
        if now is None or known.get(importer.archive) != now:
            known[importer.archive] = now
            read(importer)

    zipimporter.invalidate_caches = read_if_changed  # type: ignore[method-assign, assignment]


def _state(importer: zipimporter) -> tuple[int, int] | None:
    try:
        found = os.stat(importer.archive)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def load() -> None:
    """Load what a task needs; with versions other than the host's this may fail."""
    if wanted := os.environ.get(VARIABLE):
        check_versions(wanted)
    importlib.import_module("tabletopic_kernel.pipeline.stage")
    importlib.import_module("tabletopic_kernel.local.crash_points").obey()


if __name__ == "__main__":
    load()
    read_archives_once()
    manager()  # type: ignore[no-untyped-call]
