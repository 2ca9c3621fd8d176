"""Rows on their way to a file."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.manifest import DataFile

from tabletopic_kernel.pipeline.write.data_files import DataFileWriter

# Arrow bytes held before a file is written: bounds the memory of a task whatever the batch.
_HELD_BYTES = 128 * 1024**2


class Held:
    """Rows of one table on their way to a file."""

    def __init__(self, writer: DataFileWriter | None) -> None:
        self._writer = writer
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0

    def add(self, rows: pa.RecordBatch) -> list[DataFile]:
        """Hold rows; the files that were written for it, mostly none."""
        assert self._writer is not None
        self._batches.append(rows)
        self._bytes += rows.nbytes
        return self.flush() if self._bytes >= min(self._writer.target_bytes, _HELD_BYTES) else []

    def flush(self) -> list[DataFile]:
        """Write what is held."""
        if not self._batches or self._writer is None:
            return []
        table = pa.Table.from_batches(self._batches)
        self._batches, self._bytes = [], 0
        return self._writer.write(table) if len(table) else []
