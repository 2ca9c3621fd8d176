"""PyIceberg's files by PyArrow, with one request for a small file on S3 where it takes three."""

from __future__ import annotations

from typing import Any

from pyarrow.fs import FileSystem
from pyiceberg.io.pyarrow import PyArrowFileIO


class SmallFileIO(PyArrowFileIO):
    """Puts a file that fits into a buffer at once; PyIceberg has no property for that.

    A commit of one small file writes four of them; each began an upload in parts, sent one, and ended it.
    """

    def _initialize_s3_fs(self, netloc: str | None) -> FileSystem:
        made = super()._initialize_s3_fs(netloc)
        make, (options,) = made.__reduce__()[:2]  # PyArrow's own way to make it again elsewhere
        again: dict[str, Any] = {**options, "allow_delayed_open": True}
        return make(again)
