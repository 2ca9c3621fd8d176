"""Spark's Python daemon with what a task needs already loaded: the workers that it forks begin at once.

Spark ends workers that were idle for a minute, and loading takes them 2 s each, on an idle machine: a quiet
topic would pay that with every batch.
"""

from __future__ import annotations

import os
import sys
from zipimport import zipimporter

from pyspark.daemon import manager

from tabletopic_kernel.local.crash_points import obey
from tabletopic_kernel.pipeline import stage  # noqa: F401 - that is what it is for


def read_archives_once() -> None:
    """Read the index of an archive on Python's path again only when the archive is another.

    A worker begins each task with ``importlib.invalidate_caches``, and Spark is on the path as archives:
    Python before 3.13 reads all names of each anew then, once for every package that it has loaded from it.
    That costs more than a small batch itself.
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


if __name__ == "__main__":
    obey()
    read_archives_once()
    manager()  # type: ignore[no-untyped-call]
