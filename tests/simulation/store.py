"""A file system in memory, behind the FileIO that the product lists and deletes with.

One place has many spellings: ``file:/a``, ``file:///a``, ``file://localhost/a`` and ``/a``; ``s3``, ``s3a``
and ``s3n``. The store distinguishes places, not spellings, as real storage does.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import pyarrow.fs as pafs
from pyiceberg.io import InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO

STORE_PROPERTY = "simulation.store"
# How the warehouse, and what foreign writers add to it, may be spelt. The first is how it is made.
SPELLINGS = {
    "file": ("file:///lake", "file:/lake", "/lake", "file://localhost/lake", "file:////lake"),
    "s3": ("s3://lake/lake", "s3a://lake/lake", "s3n://lake/lake"),
}
_FILE = re.compile(r"^(?:file:(?://localhost)?)?/+")
_S3 = re.compile(r"^s3[an]?://")


def place(location: str) -> str:
    """The one name of a place, however it is spelt."""
    if _S3.match(location):
        return _S3.sub("s3:", location)
    return _FILE.sub("/", location)


def respelt(location: str, spelling: str) -> str:
    """The location below the warehouse in another spelling of the same place."""
    for known in SPELLINGS["file"] + SPELLINGS["s3"]:
        if location.startswith(known + "/"):
            return spelling + location[len(known) :]
    return location


class Store:
    """Files by place. ``call`` is called before each access, and may raise instead."""

    live: dict[str, Store] = {}  # noqa: RUF012 - by name: PyIceberg makes a FileIO of properties alone

    def __init__(self, name: str) -> None:
        self.name = name
        self.files: dict[str, bytes] = {}
        self.removals = 0  # that anybody made
        self.call: Callable[[str, Callable[[], Any]], Any] = lambda _, act: act()
        self.written: Callable[[str], None] = lambda _: None
        Store.live[name] = self

    def remove(self, name: str) -> bool:
        """A file goes; whether it was there."""
        self.removals += 1
        return self.files.pop(name, None) is not None

    def close(self) -> None:
        """Forget the files."""
        del Store.live[self.name]


class _Input(InputFile):
    def __init__(self, location: str, store: Store) -> None:
        super().__init__(location)
        self._store = store

    def _bytes(self) -> bytes:
        found = self._store.files.get(place(self.location))
        if found is None:
            raise FileNotFoundError(f"no such file: {self.location}")
        return found

    def __len__(self) -> int:
        return int(self._store.call("storage stat", lambda: len(self._bytes())))

    def exists(self) -> bool:
        return bool(self._store.call("storage stat", lambda: place(self.location) in self._store.files))

    def open(self, seekable: bool = True) -> Any:
        return self._store.call("storage read", lambda: io.BytesIO(self._bytes()))


class _Stream(io.BytesIO):
    """Becomes a file when closed, like an uploaded object."""

    def __init__(self, location: str, store: Store) -> None:
        super().__init__()
        self._location, self._store = location, store

    def close(self) -> None:
        if not self.closed:
            content = self.getvalue()
            super().close()
            self._store.call("storage write", lambda: self._put(content))

    def _put(self, content: bytes) -> None:
        name = place(self._location)
        self._store.files[name] = content
        self._store.written(name)


class _Output(OutputFile):
    def __init__(self, location: str, store: Store) -> None:
        super().__init__(location)
        self._store = store

    def __len__(self) -> int:
        return len(self.to_input_file())

    def exists(self) -> bool:
        return self.to_input_file().exists()

    def create(self, overwrite: bool = False) -> Any:
        return _Stream(self.location, self._store)

    def to_input_file(self) -> _Input:
        return _Input(self.location, self._store)


class MemoryIO(PyArrowFileIO):
    """PyIceberg's FileIO over a ``Store``; a subclass of PyArrow's, as only that can be listed."""

    def __init__(self, properties: dict[str, str] | None = None) -> None:
        super().__init__(properties or {})
        self.store = Store.live[self.properties[STORE_PROPERTY]]
        self.fs_by_scheme = lambda scheme, _: _Listing(self.store, scheme)  # type: ignore[assignment,return-value]

    def new_input(self, location: str) -> Any:
        """A file to read."""
        return _Input(location, self.store)

    def new_output(self, location: str) -> Any:
        """A file to write."""
        return _Output(location, self.store)

    def delete(self, location: Any) -> None:
        """Delete a file; raises FileNotFoundError where there is none."""
        name = location if isinstance(location, str) else location.location
        self.store.call("storage delete", lambda: self._remove(name))

    def _remove(self, location: str) -> None:
        if not self.store.remove(place(location)):
            raise FileNotFoundError(f"no such file: {location}")


class _Listing:
    """As much of ``pyarrow.fs.FileSystem`` as listing and asking for sizes takes."""

    def __init__(self, store: Store, scheme: str) -> None:
        self._store, self._scheme = store, scheme

    def get_file_info(self, asked: Any) -> Any:
        """What lies below a selector's folder, or what is at each path."""
        if isinstance(asked, pafs.FileSelector):
            return self._store.call("storage list", lambda: self._below(asked))
        if isinstance(asked, str):
            return self._store.call("storage stat", lambda: self._at(asked))
        return [self._store.call("storage stat", lambda path=path: self._at(path)) for path in asked]

    def _place(self, path: str) -> str:
        return f"s3:{path}" if self._scheme.startswith("s3") else place(path.removeprefix("localhost"))

    def _at(self, path: str) -> pafs.FileInfo:
        found = self._store.files.get(self._place(path))
        if found is None:
            return pafs.FileInfo(path, pafs.FileType.NotFound)
        return pafs.FileInfo(path, pafs.FileType.File, size=len(found))

    def _below(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        folder = self._place(selector.base_dir).rstrip("/") + "/"
        given = selector.base_dir.rstrip("/") + "/"
        found: dict[str, pafs.FileInfo] = {}
        for name in sorted(self._store.files):
            if name.startswith(folder):
                head, *rest = name[len(folder) :].split("/")
                if rest:
                    found[head] = pafs.FileInfo(given + head, pafs.FileType.Directory)
                if not rest or selector.recursive:
                    path = given + name[len(folder) :]
                    size = len(self._store.files[name])
                    found[path] = pafs.FileInfo(path, pafs.FileType.File, size=size)
        return list(found.values())
