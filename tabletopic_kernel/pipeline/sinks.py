"""Where staged records go: files of the table and its dead-letter table, memory, or a count."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
from pyiceberg.manifest import DataFile

from tabletopic_kernel.formats.arrays import Positions
from tabletopic_kernel.formats.rejection import Refused
from tabletopic_kernel.formats.wire import SchemaKey
from tabletopic_kernel.pipeline.arrange import ROWS_PER_FILE
from tabletopic_kernel.pipeline.conform import conform
from tabletopic_kernel.pipeline.plan import StageResult
from tabletopic_kernel.pipeline.write import DataFileWriter, KeysWriter

# Registries' ids are signed integers. A larger one comes from a damaged record; its message has it.
_MAX_ID: Final = 2**31 - 1
# Arrow bytes held before a file is written: bounds a task's memory whatever the batch.
_HELD_BYTES: Final = 128 * 1024**2
_FEW_FILES: Final = 100  # so many cost less than to stage a batch once more
Place = tuple[int, int]  # partition, offset


@dataclass(frozen=True)
class StagedRows:
    """Rows of the table, or values without a table, and the positions of their records in the batch."""

    positions: Positions
    schema_id: SchemaKey | None
    rows: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.positions)


@dataclass(frozen=True)
class Rejections:
    """Records of a batch that cannot become rows: positions, and a reason and message for each or for all."""

    positions: Positions
    schema_id: SchemaKey | None
    reasons: Sequence[str] | str
    messages: Sequence[str] | str

    def __len__(self) -> int:
        return len(self.positions)

    @classmethod
    def of(cls, refused: Sequence[Refused], among: Positions, schema_id: SchemaKey | None) -> Rejections:
        """The refused records, by their indexes in ``among``."""
        positions = among[[bad.index for bad in refused]]
        reasons, messages = [bad.reason for bad in refused], [bad.message for bad in refused]
        return cls(positions, schema_id, reasons, messages)

    def among(self, positions: Positions, schema_id: SchemaKey | None) -> Rejections:
        """Those of them at ``positions``, with another schema id."""
        chosen = np.flatnonzero(np.isin(self.positions, positions))

        def picked(texts: Sequence[str] | str) -> Sequence[str] | str:
            return texts if isinstance(texts, str) else [texts[index] for index in chosen.tolist()]

        reasons, messages = picked(self.reasons), picked(self.messages)
        return Rejections(self.positions[chosen], schema_id, reasons, messages)

    @property
    def known_id(self) -> int | None:
        """The schema id for a letter; None without one, and for a GUID, which the message has."""
        schema_id = self.schema_id
        return schema_id if isinstance(schema_id, int) and 0 <= schema_id <= _MAX_ID else None

    def reason(self, index: int) -> str:
        """Why record ``index`` (of these) is refused."""
        return self.reasons if isinstance(self.reasons, str) else self.reasons[index]

    def message(self, index: int) -> str:
        """What is wrong with record ``index`` (of these)."""
        return self.messages if isinstance(self.messages, str) else self.messages[index]


class Sink(Protocol):
    """Takes what became of the records of ``batch``, of the source's columns."""

    def rows(self, batch: pa.RecordBatch, rows: StagedRows) -> None:
        """Take rows."""

    def rejected(self, batch: pa.RecordBatch, rejected: Rejections) -> None:
        """Take records that cannot become rows."""

    def deletes(self, deletes: pa.Table) -> None:
        """Take keys to delete, of ``deletes_schema``."""


class Files:
    """Data files of the table and of its dead-letter table; a table without a writer gets none."""

    def __init__(
        self,
        topic: str,
        writer: DataFileWriter | None,
        dead_letter_writer: DataFileWriter | None,
        *,
        of_several: bool = False,
    ) -> None:
        """``of_several``: other tasks stage the batch, too; with scattered rows, ScatteredError is raised."""
        self._topic = topic
        self._rows = _FileBuffer(writer, may_scatter=not of_several) if writer else None
        self._letters = _FileBuffer(dead_letter_writer) if dead_letter_writer else None
        self._deletes = _FileBuffer(KeysWriter(writer.io, writer.folder)) if writer else None
        self._rejected: list[Rejections] = []  # of one batch
        self._batch: pa.RecordBatch | None = None

    def rows(self, batch: pa.RecordBatch, rows: StagedRows) -> None:
        if self._rows is not None:
            self._rows.add(rows.rows)

    def rejected(self, batch: pa.RecordBatch, rejected: Rejections) -> None:
        if self._letters is None:
            return
        if batch is not self._batch:
            self._make_letters()
            self._batch = batch
        self._rejected.append(rejected)

    def deletes(self, deletes: pa.Table) -> None:
        if self._deletes is not None:
            for batch in deletes.to_batches():
                self._deletes.add(batch)

    def _make_letters(self) -> None:
        """Make the letters of a batch at once: with garbage ids, there are as many rejections as records."""
        rejected, self._rejected = self._rejected, []
        if rejected and self._letters is not None:
            assert isinstance(self._letters.writer, DataFileWriter)
            target = self._letters.writer.target
            self._letters.add(dead_letters_of(self._topic, self._batch, rejected, datetime.now(UTC), target))

    def close(self, result: StageResult, *, is_void: bool) -> None:
        """Add the files to the result; what is buffered is written unless the result is void."""
        if not is_void:
            self._make_letters()
            for buffer in filter(None, (self._rows, self._letters, self._deletes)):
                buffer.flush()
        if self._rows is not None:
            result.files, result.rows = self._rows.files, self._rows.count
        if self._letters is not None:
            result.dead_letters = self._letters.files
        if self._deletes is not None:
            result.deletes = self._deletes.files


class Count:
    """Counts rows, and notes the places of records that cannot become rows, with the reason."""

    def __init__(self) -> None:
        self.count = 0
        self.refused: dict[Place, str] = {}

    def rows(self, batch: pa.RecordBatch, rows: StagedRows) -> None:
        self.count += len(rows)

    def rejected(self, batch: pa.RecordBatch, rejected: Rejections) -> None:
        for index, place in enumerate(places_of(batch, rejected.positions)):
            self.refused[place] = rejected.reason(index)

    def deletes(self, deletes: pa.Table) -> None:
        """Nothing: nobody commits them here."""


@dataclass(frozen=True)
class Memory:
    """Keeps everything."""

    staged: list[StagedRows] = field(default_factory=list)
    refused: list[Rejections] = field(default_factory=list)
    deleted: list[pa.Table] = field(default_factory=list)

    def rows(self, batch: pa.RecordBatch, rows: StagedRows) -> None:
        self.staged.append(rows)

    def rejected(self, batch: pa.RecordBatch, rejected: Rejections) -> None:
        self.refused.append(rejected)

    def deletes(self, deletes: pa.Table) -> None:
        self.deleted.append(deletes)


class _FileBuffer:
    def __init__(self, writer: DataFileWriter | KeysWriter, *, may_scatter: bool = True) -> None:
        self.writer = writer
        self._may_scatter = may_scatter
        self.count = 0  # of all rows, held or written
        self.files: list[DataFile] = []
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0

    def add(self, rows: pa.RecordBatch) -> None:
        self._held.append(rows)
        self._bytes += rows.nbytes
        self.count += len(rows)
        if self._bytes >= min(self.writer.target_bytes, _HELD_BYTES):
            self.flush()

    def flush(self) -> None:
        if self._held:
            table = pa.Table.from_batches(self._held)
            self._held, self._bytes = [], 0
            most = math.inf if self._may_scatter else max(_FEW_FILES, len(table) // ROWS_PER_FILE)
            self.files += self.writer.write(table, most) if len(table) else []


def places_of(batch: pa.RecordBatch | pa.Table, positions: Positions | None = None) -> Iterable[Place]:
    """Partition and offset of all records, or of those at ``positions``."""
    columns = [np.asarray(batch.column(name)) for name in ("partition", "offset")]
    partitions, offsets = columns if positions is None else (column[positions] for column in columns)
    return zip(partitions.tolist(), offsets.tolist(), strict=True)


def dead_letters_of(
    topic: str, batch: pa.RecordBatch, rejected: Sequence[Rejections], at: datetime, target: pa.Schema
) -> pa.RecordBatch:
    """The letters of rejected records; ``at``: now, ``target``: the columns of ``model/dead_letter.py``."""
    count = sum(len(rejections) for rejections in rejected)
    source = batch
    if len(rejected) > 1 or count < len(batch):
        source = batch.take(pa.array(np.concatenate([rejections.positions for rejections in rejected])))
    names = [name for name in source.schema.names if name in target.names]
    columns = {name: source.column(name) for name in names} | {
        "topic": pa.repeat(pa.scalar(topic, pa.large_string()), count),
        "schema_id": pa.array([group.known_id for group in rejected for _ in range(len(group))], pa.int32()),
        "reason": _texts(rejected, lambda rejections: rejections.reasons),
        "message": _texts(rejected, lambda rejections: rejections.messages),
        "at": pa.repeat(pa.scalar(at, pa.timestamp("us", "UTC")), count),
    }
    return conform(columns, count, target)


def _texts(rejected: Sequence[Rejections], texts_of: Callable[[Rejections], Sequence[str] | str]) -> pa.Array:
    all_texts: list[str] = []
    for rejections in rejected:
        texts = texts_of(rejections)
        all_texts += [texts] * len(rejections) if isinstance(texts, str) else texts
    # A message may quote a record, and a Python string may contain what UTF-8 cannot encode.
    return pa.array([text.encode("utf-8", "replace") for text in all_texts], pa.large_binary()).cast(
        pa.large_string()
    )
