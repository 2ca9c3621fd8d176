"""PyIceberg's PyArrow files, with one request for a small file on S3 instead of four."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from pyarrow import NativeFile
from pyarrow.fs import FileSystem
from pyiceberg.io import OutputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO


class _Counted:
    """A stream to a file; ``written`` is its length once the storage has all of it."""

    def __init__(self, stream: NativeFile) -> None:
        self._stream = stream
        self._bytes = 0
        self.written: int | None = None

    def write(self, data: bytes) -> int:
        """As the stream's."""
        count: int = self._stream.write(data)
        self._bytes += count
        return count

    def tell(self) -> int:
        """Bytes so far."""
        return self._bytes

    def flush(self) -> None:
        """As the stream's."""
        self._stream.flush()

    @property
    def closed(self) -> bool:
        """Whether nothing more can be written."""
        return bool(self._stream.closed)

    def close(self) -> None:
        """Wait until the storage has it; raises the storage's errors."""
        if not self.closed:
            self._stream.close()
            self.written = self._bytes

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _OutputFile(PyArrowFile):
    """A file that knows its length once written; PyIceberg would ask the storage for it."""

    _written: _Counted | None = None

    def create(self, overwrite: bool = False) -> OutputStream:
        self._written = _Counted(super().create(overwrite))
        return self._written

    def __len__(self) -> int:
        known = self._written.written if self._written else None
        return super().__len__() if known is None else known


class SmallFileIO(PyArrowFileIO):
    """Puts a file that fits into a buffer with one request; PyIceberg has no property for that.

    A commit of one small file writes four of them. Each would begin a multipart upload, send one part, end
    the upload, and ask for its length. A commit asks the storage whether a staged file has that length.
    """

    def new_output(self, location: str) -> PyArrowFile:
        """A file to write, whose length needs no request."""
        made = super().new_output(location)
        return _OutputFile(made.location, made._path, made._filesystem, made._buffer_size)

    def _initialize_s3_fs(self, netloc: str | None) -> FileSystem:
        made = super()._initialize_s3_fs(netloc)
        if "s3.retry-strategy-impl" in self.properties:  # the strategy object would be lost
            return made
        make, (options,) = made.__reduce__()[:2]  # PyArrow's own way to recreate it
        again: dict[str, Any] = {**options, "allow_delayed_open": True}
        return make(again)
