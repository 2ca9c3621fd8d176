"""Google's and Azure's storage for DuckDB, through PyIceberg's client: it supports more logins than DuckDB's.

DuckDB itself would need another extension for Azure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import Any

import duckdb
from fsspec import AbstractFileSystem
from pyarrow import NativeFile
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFile
from pyiceberg.table import Table

from tabletopic_kernel.clients.catalog.catalog import reachable
from tabletopic_kernel.clients.outside_errors.rules import STORAGE
from tabletopic_kernel.clients.storage.azure import AZURE
from tabletopic_kernel.model.errors import SettingsError
from tabletopic_kernel.query.duckdb_connection import folders_of, scopes_of

SCHEMES = ("gs", "gcs", *AZURE)


class _Reader:
    """A file that reads no further than its end: there, Google's client raises an error."""

    def __init__(self, stream: NativeFile, remembered: Callable[[], AbstractContextManager[None]]) -> None:
        self._stream, self._remembered, self._at = stream, remembered, 0
        self.size: int = stream.size()

    def read(self, length: int = -1) -> bytes:
        left = max(self.size - self._at, 0)
        wanted = left if length < 0 else min(length, left)
        with self._remembered():
            content: bytes = self._stream.read_at(wanted, self._at) if wanted else b""
        self._at += len(content)
        return content

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self.size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        self._stream.close()

    def flush(self) -> None:
        """Nothing is written."""


class TableFiles(AbstractFileSystem):  # type: ignore[misc]
    """Reads each table's files with the client of its storage; files elsewhere, with the newest table's."""

    protocol = SCHEMES
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self._by_folder: dict[str, FileIO] = {}
        self._trouble: Exception | None = None

    def give(self, connection: duckdb.DuckDBPyConnection, table: Table) -> None:
        """Let DuckDB read a table if it is in such a store; its files may also be elsewhere."""
        scopes = scopes_of(folders_of(table.location(), table.properties, SCHEMES))
        self._by_folder |= dict.fromkeys(scopes, table.io)
        if scopes and SCHEMES[0] not in connection.list_filesystems():
            connection.register_filesystem(self)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path

    def _file(self, path: str) -> PyArrowFile:
        folder = max(filter(path.startswith, self._by_folder), key=len)
        file = self._by_folder[folder].new_input(path)
        if not isinstance(file, PyArrowFile):
            raise SettingsError("[catalog] py-io-impl cannot be passed to DuckDB")
        return file

    @contextmanager
    def _remembered(self) -> Iterator[None]:
        """Remember errors raised here: DuckDB turns them into text."""
        try:
            yield
        except Exception as error:
            self._trouble = error
            raise

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raise the storage's errors as such, not as mistakes in SQL; raises as ``reachable``."""
        self._trouble = None
        try:
            yield
        except duckdb.Error as error:
            if self._trouble is None:
                raise
            with reachable(STORAGE):
                raise self._trouble from error

    def _open(self, path: str, mode: str = "rb", **_: Any) -> _Reader:
        if mode != "rb":
            raise PermissionError(f"{path} is read-only here")
        with self._remembered():
            return _Reader(self._file(path).open(), self._remembered)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Name, type and bytes; raises FileNotFoundError."""
        with self._remembered():
            return {"name": path, "type": "file", "size": len(self._file(path))}

    def modified(self, path: str) -> datetime:
        """The same time for each file, as Iceberg changes none: so DuckDB keeps what it has read."""
        return datetime(1970, 1, 1, tzinfo=UTC)
