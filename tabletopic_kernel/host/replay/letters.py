"""Dead letters as a source of records, and staging them by a plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.table import FileScanTask

from tabletopic_kernel.model.columns.conditions import read_condition
from tabletopic_kernel.model.dead_letter import SCHEMA
from tabletopic_kernel.pipeline.decode import LoadedPlan
from tabletopic_kernel.pipeline.plan import StagePlan, StageResult
from tabletopic_kernel.pipeline.sinks import Count, Files, Place, Rejections
from tabletopic_kernel.pipeline.source import SOURCE_SCHEMA, Limits
from tabletopic_kernel.pipeline.stage import stage
from tabletopic_kernel.pipeline.write import DataFileWriter
from tabletopic_kernel.table.dead_letters import DeadLetters

_TAKE_RECORDS = 10_000


def dead_letters_where(where: str | None) -> BooleanExpression:
    """The letters that match ``where``; UsageError if it is no condition on a letter's columns."""
    hint = (
        "Write conditions on the dead letters' columns, for example reason = 'unknown_schema' and "
        "offset >= 100"
    )
    return read_condition(where, SCHEMA, hint) or AlwaysTrue()


class LetterSource:
    """The dead letters that match ``where``; see ``Source``. A position is the data files left to read."""

    def __init__(self, letters: DeadLetters, where: BooleanExpression) -> None:
        self._letters = letters
        self._where = where

    def files(self) -> frozenset[str]:
        """The position before all letters."""
        return frozenset(task.file.file_path for task in self._letters.tasks(self._where))

    def next(self, position: frozenset[str], limits: Limits) -> Sequence[FileScanTask] | None:
        """Some of the files, until they have ``limits.records``."""
        tasks: list[FileScanTask] = []
        count = 0
        for task in self._letters.tasks(self._where):
            if task.file.file_path in position and (limits.records is None or count < limits.records):
                tasks.append(task)
                count += task.file.record_count
        return tasks or None

    def read(self, batch: Sequence[FileScanTask]) -> Iterator[pa.RecordBatch]:
        """The letters as records of their topic."""
        for task in batch:
            yield from records_of(self._letters.read(task, self._where))


def records_of(letters: pa.Table) -> Iterator[pa.RecordBatch]:
    records = letters.select(SOURCE_SCHEMA.names)
    headers = records.schema.get_field_index("headers")
    target = records.schema.set(headers, SOURCE_SCHEMA.field("headers"))
    yield from records.cast(target).combine_chunks().to_batches(_TAKE_RECORDS)


class _Replayed(Files):
    """Files of the rows; dead letters that are refused again are only noted."""

    def __init__(self, topic: str, writer: DataFileWriter | None) -> None:
        super().__init__(topic, writer, None)
        self.stayed = Count()

    def rejected(self, batch: pa.RecordBatch, rejected: Rejections) -> None:
        self.stayed.rejected(batch, rejected)


def stage_dead_letters(letters: pa.Table, plan: StagePlan) -> tuple[StageResult, dict[Place, str]]:
    """Stage dead letters into files, in this process; with the places of those that stay, by reason."""
    loaded = LoadedPlan(plan.tolerant())
    files = _Replayed(plan.topic, loaded.writer)
    result = stage(loaded, records_of(letters), files)
    files.close(result, is_void=result.is_void(loaded.plan.settings))
    return result, files.stayed.refused
