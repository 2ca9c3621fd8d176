"""What the daemon has loaded costs a task nothing."""

from __future__ import annotations

import gc
import importlib
import sys
import zipfile
import zipimport
from pathlib import Path

import pytest

from tabletopic_kernel.pipeline.worker.daemon import load, read_archives_once


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive on the path, with a module."""
    path = tmp_path / "modules.zip"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("in_an_archive.py", "WHAT = 1\n")
    monkeypatch.syspath_prepend(str(path))
    monkeypatch.setattr(sys, "path_importer_cache", {})
    importer = zipimport.zipimporter
    monkeypatch.setattr(importer, "invalidate_caches", importer.invalidate_caches)
    return path


def test_an_archive_that_is_as_it_was_is_not_read_again(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often a task begins; one that changed, or comes later, is."""
    read: list[str] = []
    really = zipimport._read_directory  # type: ignore[attr-defined]
    monkeypatch.setattr(zipimport, "_read_directory", lambda path: (read.append(path), really(path))[1])
    for name in ("in_an_archive", "in_it_later"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert importlib.import_module("in_an_archive").WHAT == 1
    read_archives_once()
    read.clear()
    for _ in range(3):
        importlib.invalidate_caches()
    assert read == []
    with zipfile.ZipFile(archive, "a") as more:
        more.writestr("in_it_later.py", "WHAT = 2\n")
    importlib.invalidate_caches()
    assert read == [str(archive)]
    assert importlib.import_module("in_it_later").WHAT == 2
    importlib.invalidate_caches()
    assert read == [str(archive)]
    for name in ("in_an_archive", "in_it_later"):
        monkeypatch.delitem(sys.modules, name)


def test_what_the_daemon_loads_is_not_searched_for_garbage() -> None:
    """Spark's daemon collects after each task, which would take longer than a small batch."""
    try:
        load()
        assert gc.get_freeze_count() > 50_000
    finally:
        gc.unfreeze()
