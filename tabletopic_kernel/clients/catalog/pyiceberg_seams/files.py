"""PyIceberg's files through PyArrow on every store: S3, Google's, Azure's, and folders.

For Azure, PyIceberg would use adlfs, which none of our dependencies installs and which does not list files
the way their removal needs; its own PyArrow support takes ``container@account.host`` for the container. To be
needless, PyIceberg would have to pass options on to PyArrow's file systems.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from pyarrow import BufferReader, NativeFile
from pyarrow.fs import FileSystem
from pyiceberg.catalog import Catalog
from pyiceberg.io import GCS_TOKEN, GCS_TOKEN_EXPIRES_AT_MS, FileIO, InputStream, OutputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO, _get_parquet_writer_kwargs
from pyiceberg.table import Table, Transaction

from tabletopic_kernel.clients.storage.azure import AZURE, azure_properties
from tabletopic_kernel.model.errors import SettingsError, Trouble

F = TypeVar("F", bound=PyArrowFile)
# By default, Google's client retries for 15 minutes, during which nobody would learn of an outage. `doctor`
# waits for 10 s.
_GCS_TRIES: Final = timedelta(seconds=8)
_READ_WHOLE_BYTES: Final = 32 * 1024**2
_METADATA: Final = (".metadata.json", ".avro")  # read whole, whatever their size


def files_at(catalog: Catalog, location: str) -> FileIO:
    """How a catalog opens files at a location that is no table's."""
    return catalog._load_file_io(location=location)


def staged_table(transaction: Transaction) -> Table:
    """The table of a transaction that creates one."""
    return transaction._table


def parquet_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """What a table's properties say of how Parquet is written, for PyArrow's writer."""
    return _get_parquet_writer_kwargs(dict(properties))


def _as(kind: type[F], file: PyArrowFile) -> F:
    return kind(file.location, file._path, file._filesystem, file._buffer_size)


class _Counted:
    """A stream to a file; ``written`` is its length once the storage has all of it."""

    def __init__(self, stream: NativeFile) -> None:
        self._stream = stream
        self.written: int | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, data: bytes) -> int:
        return self._stream.write(data)  # type: ignore[no-any-return]

    def close(self) -> None:
        """Wait until the storage has it; raises the storage's errors."""
        if not self._stream.closed:
            length = self._stream.tell()
            self._stream.close()
            self.written = length

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def native(stream: OutputStream) -> Any:
    """PyArrow's stream, to which its writers write without Python; ``stream`` is to be closed."""
    return stream._stream if isinstance(stream, _Counted) else stream


class _OutputFile(PyArrowFile):
    """A file that knows its length once written; PyIceberg would ask the storage for it."""

    _written: _Counted | None = None

    def create(self, overwrite: bool = False) -> OutputStream:
        self._written = _Counted(super().create(overwrite))
        return self._written

    def __len__(self) -> int:
        length = self._written.written if self._written else None
        return super().__len__() if length is None else length


class SmallFileIO(PyArrowFileIO):
    """Puts a file that fits into a buffer with one request; PyIceberg has no property for that.

    A commit of one small file writes four of them. Each would begin a multipart upload, send one part, end
    the upload, and ask for its length. A commit asks the storage whether a staged file has that length.
    """

    def new_output(self, location: str) -> PyArrowFile:
        """A file to write, whose length needs no request."""
        file = super().new_output(location)
        return _as(_OutputFile, file)

    def _initialize_s3_fs(self, netloc: str | None) -> FileSystem:
        file_system = super()._initialize_s3_fs(netloc)
        if "s3.retry-strategy-impl" in self.properties:  # the strategy object would be lost
            return file_system
        make, (options,) = file_system.__reduce__()[:2]  # PyArrow's own way to recreate it
        return make({**options, "allow_delayed_open": True})


class _GoogleFile(PyArrowFile):
    """A file that is read whole unless it is large.

    PyArrow sends the request for a seekable file when it first asks whether that is closed, and holds
    Python's global lock (GIL) until the storage answers: a silent storage would stop all of the process.
    """

    def open(self, seekable: bool = True) -> InputStream:
        if not seekable or not (self.location.endswith(_METADATA) or len(self) <= _READ_WHOLE_BYTES):
            return super().open(seekable)
        with super().open(seekable=False) as stream:
            whole: InputStream = BufferReader(stream.read())
            return whole


class TableFileIO(SmallFileIO):
    """Files on every store; on Azure, a location names its account. Opening one may raise SettingsError."""

    @staticmethod
    def parse_location(location: str, properties: Mapping[str, Any] = {}) -> tuple[str, str, str]:
        """Scheme, authority, and the path in PyArrow's form: ``container/folder/file`` for Azure.

        >>> TableFileIO.parse_location("abfss://lake@acme.dfs.core.windows.net/t/x")
        ('abfss', 'lake@acme.dfs.core.windows.net', 'lake/t/x')
        """
        scheme, netloc, path = PyArrowFileIO.parse_location(location, dict(properties))
        if scheme in AZURE and "@" in netloc:
            path = f"{netloc.partition('@')[0]}{path[len(netloc) :]}"
        return scheme, netloc, path

    def new_input(self, location: str) -> PyArrowFile:
        file = super().new_input(location)
        if file._filesystem.type_name != "gcs":
            return file
        return _as(_GoogleFile, file)

    def _initialize_fs(self, scheme: str, netloc: str | None = None) -> FileSystem:
        if scheme in AZURE:
            return PyArrowFileIO(azure_properties(self.properties, netloc or ""))._initialize_azure_fs()
        return super()._initialize_fs(scheme, netloc)

    def _initialize_gcs_fs(self) -> FileSystem:
        ends = str(self.properties.get(GCS_TOKEN_EXPIRES_AT_MS, ""))
        if not ends.isdecimal() and (ends or GCS_TOKEN in self.properties):
            raise SettingsError(
                Trouble(f"{GCS_TOKEN} needs {GCS_TOKEN_EXPIRES_AT_MS} beside it, in epoch milliseconds")
            )
        file_system = super()._initialize_gcs_fs()
        make, (options,) = file_system.__reduce__()[:2]  # PyArrow's own way to recreate it
        return make({**options, "retry_time_limit": _GCS_TRIES})
