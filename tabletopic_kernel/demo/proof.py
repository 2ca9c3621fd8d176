"""The queries and checks of the demo: DuckDB, the table's metadata and the broker, compared with the truth.

The truth is the generator's count of the events that it made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from time import perf_counter
from typing import Any

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from tabletopic_kernel._datasets.clickstream.questions import QUESTIONS, Row
from tabletopic_kernel._datasets.clickstream.tallies import Tallies
from tabletopic_kernel.clients.storage.storage import live_files, manifests_of
from tabletopic_kernel.formats.wire import SchemaKey
from tabletopic_kernel.model.ledger import Offsets
from tabletopic_kernel.model.progress.events import ControlEvent, SchemaEvolved
from tabletopic_kernel.table.history import snapshots
from tabletopic_kernel.table.schemas.covered import CoveredSchema

Ask = Callable[[str], list[Row]]  # SQL in, rows out


@dataclass(frozen=True)
class Answer:
    """One question's rows beside the expected ones."""

    name: str
    title: str
    columns: tuple[str, ...]
    found: list[Row]
    expected: list[Row]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether they are the same rows in the same order."""
        return self.found == self.expected

    def differences(self) -> list[str]:
        """One line for each row that differs from the expected one."""
        pairs = enumerate(zip_longest(self.found, self.expected), start=1)
        return [
            f"row {number}: {_words(row)}, must be {_words(expected)}"
            for number, (row, expected) in pairs
            if row != expected
        ]


def _words(row: Row | None) -> str:
    return "no such row" if row is None else ", ".join(map(str, row))


@dataclass(frozen=True)
class Check:
    """One figure that must equal another."""

    name: str
    title: str
    found: Any
    expected: Any

    @property
    def ok(self) -> bool:
        """Whether they are equal."""
        return bool(self.found == self.expected)


@dataclass(frozen=True)
class Partition:
    """One partition of the topic beside its part of the table. Offsets are next to read."""

    partition: int
    end_offset: int
    ledger: int | None
    rows: int
    distinct: int

    @property
    def ok(self) -> bool:
        """Whether the table has read to the end and contains each record once."""
        return self.ledger == self.end_offset == self.rows == self.distinct


def answers(ask: Ask, table: str, tallies: Tallies) -> list[Answer]:
    """Ask every question of the data set."""
    results = []
    for question in QUESTIONS:
        began = perf_counter()
        rows = ask(question.on(table))
        seconds = round(perf_counter() - began, 3)
        expected = question.expected(tallies)
        results.append(Answer(question.name, question.title, question.columns, rows, expected, seconds))
    return results


def partitions(ask: Ask, table: str, ends: Offsets, ledger: Offsets) -> list[Partition]:
    """DuckDB's counts in each partition, beside the topic's end offsets and the table's ledger."""
    counts = {
        number: (rows, distinct)
        for number, rows, distinct in ask(
            f"""\
SELECT _kafka_metadata.partition AS number, count(*), count(DISTINCT _kafka_metadata."offset")
FROM {table}
GROUP BY number"""
        )
    }
    return [
        Partition(number, ends.get(number, 0), ledger.get(number), *counts.get(number, (0, 0)))
        for number in sorted({*ends, *ledger, *counts})
    ]


def files(table: Table) -> int:
    """The number of data files that any snapshot of the table reads, so also of those before compaction."""
    io = table.io
    manifests = manifests_of(io, table.metadata.snapshots).values()
    return len({path for _, paths in live_files(io, manifests) for path in paths})


def checks(
    ask: Ask, table: str, sent: int, parts: Sequence[Partition], files_of_table: int, files_on_disk: int
) -> list[Check]:
    """The proof: each record once, nothing unread, nothing left behind by the kill."""
    [(rows, records, event_ids)] = ask(
        f"""\
SELECT count(*),
       count(DISTINCT (_kafka_metadata.partition, _kafka_metadata."offset")),
       count(DISTINCT event_id)
FROM {table}"""
    )
    ledger = {part.partition: part.ledger for part in parts}
    ends = {part.partition: part.end_offset for part in parts}
    return [
        Check("rows", "Rows in the table = events sent", rows, sent),
        Check("records", "Distinct (partition, offset) = rows: no record twice", records, rows),
        Check("event_ids", "Distinct event ids = events sent: no event missing", event_ids, sent),
        Check("ledger", "Ledger of the table = end offsets of the topic", ledger, ends),
        Check("files", "Data files on disk = data files of the table", files_on_disk, files_of_table),
    ]


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
        """The number of records the table has read, over all partitions."""
        return sum(self.next_offsets.values())

    @property
    def waited_s(self) -> tuple[float, float] | None:
        """Seconds from sending to being in the table: the shortest and the longest among its rows."""
        if self.oldest_ms is None or self.newest_ms is None:
            return None
        return (self.at_ms - self.newest_ms) / 1000, (self.at_ms - self.oldest_ms) / 1000


@dataclass(frozen=True)
class SchemaStep:
    """One schema of the table: what changed, and the registered schemas that it now covers.

    ``fields`` also counts those inside structs.
    """

    schema_id: int
    fields: int
    changes: tuple[str, ...]
    causes: tuple[str, ...]


def commits(ask: Ask, table: str, metadata: TableMetadata) -> list[Commit]:
    """Every snapshot with a ledger, oldest first; the offsets lead to the timestamps of its rows."""
    history = reversed(snapshots(metadata))
    owned = [snapshot for snapshot in history if snapshot.epoch is not None and snapshot.next_offsets]
    starts: list[Mapping[int, int]] = [{}, *(snapshot.next_offsets or {} for snapshot in owned)]
    ranges = [
        f"({snapshot.snapshot_id}, {partition}, {start.get(partition, 0)}, {end})"
        for start, snapshot in zip(starts, owned, strict=False)
        for partition, end in (snapshot.next_offsets or {}).items()
    ]
    query = f"""\
WITH read AS (FROM (VALUES {", ".join(ranges)}) AS ranges (snapshot, partition, start_offset, end_offset))
SELECT snapshot, min(epoch_ms(_kafka_metadata."timestamp")), max(epoch_ms(_kafka_metadata."timestamp"))
FROM {table} JOIN read
  ON _kafka_metadata.partition = read.partition
 AND _kafka_metadata."offset" >= start_offset AND _kafka_metadata."offset" < end_offset
GROUP BY snapshot"""
    times = {row[0]: row[1:] for row in ask(query)} if ranges else {}
    return [
        Commit(
            snapshot.snapshot_id,
            snapshot.at_ms,
            snapshot.epoch or 0,
            snapshot.added_rows,
            snapshot.added_files,
            snapshot.added_bytes,
            snapshot.next_offsets or {},
            *times.get(snapshot.snapshot_id, ()),
        )
        for snapshot in owned
    ]


def schemas(
    metadata: TableMetadata,
    registered_schemas: Mapping[SchemaKey, CoveredSchema],
    events: Iterable[ControlEvent],
) -> list[SchemaStep]:
    """Every schema of the table, oldest first; causes are from the table, changes from the events."""
    changes = {
        event.table_schema_id: tuple(event.changes) for event in events if isinstance(event, SchemaEvolved)
    }
    causes: dict[int, list[str]] = {}
    for schema in sorted(registered_schemas.values(), key=lambda schema: schema.id):
        causes.setdefault(schema.table_schema_id, []).append(
            f"{schema.subject} version {schema.version} (id {schema.id})"
        )
    return [
        SchemaStep(
            table_schema.schema_id,
            len(table_schema.column_names),
            changes.get(table_schema.schema_id, ()),
            tuple(causes.get(table_schema.schema_id, ())),
        )
        for table_schema in metadata.schemas
    ]
