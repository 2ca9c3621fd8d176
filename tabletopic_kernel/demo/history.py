"""What the table tells of its own past: commits from its snapshots, schemas from its metadata."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pyiceberg.table.metadata import TableMetadata

from tabletopic_kernel.demo.proof import Ask
from tabletopic_kernel.formats.wire import SchemaKey
from tabletopic_kernel.model.progress.events import ControlEvent, SchemaEvolved
from tabletopic_kernel.table.history import snapshots
from tabletopic_kernel.table.schemas.registered import FittedSchema


@dataclass(frozen=True)
class Commit:
    """One snapshot. Times in ms since 1970, sizes in bytes.

    A commit without files is an owner's claim: it raises the epoch. ``oldest_ms`` and ``newest_ms`` are
    the record timestamps of its rows; None without rows.
    """

    snapshot_id: int
    at_ms: int
    epoch: int
    rows: int
    files: int
    bytes: int
    next_offsets: Mapping[int, int]
    oldest_ms: int | None = None
    newest_ms: int | None = None

    @property
    def next_offsets_sum(self) -> int:
        """How many records the table has read, over all partitions."""
        return sum(self.next_offsets.values())

    @property
    def waited_s(self) -> tuple[float, float] | None:
        """From being sent to being in the table: the shortest and the longest wait among its rows."""
        if self.oldest_ms is None or self.newest_ms is None:
            return None
        return (self.at_ms - self.newest_ms) / 1000, (self.at_ms - self.oldest_ms) / 1000


@dataclass(frozen=True)
class SchemaStep:
    """One schema of the table: what changed, and the registered schemas that it came to cover.

    ``fields`` counts those inside of structs too.
    """

    schema_id: int
    fields: int
    changes: tuple[str, ...]
    causes: tuple[str, ...]


def commits(metadata: TableMetadata) -> list[Commit]:
    """Every snapshot that carries a ledger, oldest first."""
    return [
        Commit(
            one.snapshot_id,
            one.at_ms,
            one.epoch,
            one.added_rows,
            one.added_files,
            one.added_bytes,
            one.next_offsets,
        )
        for one in reversed(snapshots(metadata))
        if one.epoch is not None and one.next_offsets is not None
    ]


def with_waits(ask: Ask, table: str, history: Sequence[Commit]) -> list[Commit]:
    """The commits with the timestamps of their rows, found by the offsets between two ledgers."""
    first = replace(history[0], next_offsets={}) if history else None
    ranges = [
        f"({number}, {partition}, {before.next_offsets.get(partition, 0)}, {end})"
        for number, (before, after) in enumerate(pairwise([first, *history] if first else []))
        for partition, end in after.next_offsets.items()
    ]
    if not ranges:
        return list(history)
    stamps = {
        number: (oldest, newest)
        for number, oldest, newest in ask(
            f"""\
WITH read AS (FROM (VALUES {", ".join(ranges)}) AS ranges (number, partition, start_offset, end_offset))
SELECT number, min(epoch_ms(_kafka_metadata."timestamp")), max(epoch_ms(_kafka_metadata."timestamp"))
FROM {table} JOIN read
  ON _kafka_metadata.partition = read.partition
 AND _kafka_metadata."offset" >= start_offset AND _kafka_metadata."offset" < end_offset
GROUP BY number"""
        )
    }
    return [
        replace(commit, oldest_ms=stamps[number][0], newest_ms=stamps[number][1])
        if number in stamps
        else commit
        for number, commit in enumerate(history)
    ]


def schemas(
    metadata: TableMetadata,
    registered_schemas: Mapping[SchemaKey, FittedSchema],
    events: Iterable[ControlEvent],
) -> list[SchemaStep]:
    """Every schema of the table, oldest first. Causes are the table's own note, changes the events'."""
    changes = {
        event.table_schema_id: tuple(event.changes) for event in events if isinstance(event, SchemaEvolved)
    }
    causes: dict[int, list[str]] = {}
    for one in sorted(registered_schemas.values(), key=lambda one: one.id):
        causes.setdefault(one.table_schema_id, []).append(
            f"{one.subject} version {one.version} (id {one.id})"
        )
    return [
        SchemaStep(
            schema.schema_id,
            len(schema.column_names),
            changes.get(schema.schema_id, ()),
            tuple(causes.get(schema.schema_id, ())),
        )
        for schema in metadata.schemas
    ]
