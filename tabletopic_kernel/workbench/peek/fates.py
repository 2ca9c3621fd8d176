"""What became of records: by the table's ledger and rows, its dead letters, and what they would become now.

All records are looked up together. The table is loaded before the dead letters, which are committed first
(I7): so a record behind the table's ledger is in one of them, or asked for no row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    In,
    LessThanOrEqual,
    Or,
)
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import Table
from pyiceberg.table.snapshots import ancestors_of
from pyiceberg.types import IntegerType, LongType, StringType

from tabletopic_kernel.clients.catalog.catalog import lends_keys, reachable
from tabletopic_kernel.clients.registry.registry import Registry
from tabletopic_kernel.model.columns.evolution import KEY, METADATA
from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.table_names import table_identifier
from tabletopic_kernel.pipeline.sinks import Memory, Place, places_of
from tabletopic_kernel.render.words import clock
from tabletopic_kernel.table.changes.ledger_history import ledger_of
from tabletopic_kernel.table.dead_letters import LetterTable
from tabletopic_kernel.table.draft import TopicDraft, try_records
from tabletopic_kernel.table.topic_table import TopicTable
from tabletopic_kernel.workbench.peek import Fate
from tabletopic_kernel.workbench.peek.search import Records
from tabletopic_kernel.workbench.topics.live import tolerant

MOST: Final = 1_000  # records of which one call says what became
_NOT_YET: Final = "not in the table yet"
_ROW: Final = "row"
_MOST_ROWS: Final = 2_000_000  # of a table kept by key, among which a key is looked for


@dataclass(frozen=True)
class Commit:
    """A snapshot with a ledger."""

    snapshot_id: int
    at_ms: int
    ledger: Ledger


@dataclass(frozen=True)
class Facts:
    """What is known of all records. ``rows``: those with a row, None if the table does not say.

    ``letters``: reason and message. ``tried``: what the others would become now: ``row``, or why none.
    ``newer``: of keys of an upsert table, the place of the row that the table has.
    """

    ledger: Ledger
    commits: Sequence[Commit]
    rows: set[Place] | None
    letters: Mapping[Place, tuple[str, str]] = field(default_factory=dict)
    tried: Mapping[Place, str] = field(default_factory=dict)
    newer: Mapping[Place, Place] | None = field(default_factory=dict)

    def fate(self, place: Place) -> Fate:
        """What became of one record."""
        partition, offset = place
        if offset >= (end := self.ledger.next_offsets.get(partition, 0)):
            return Fate("not_yet", f"{_NOT_YET}: it has partition {partition} up to offset {end:,}")
        index = self._first_behind(partition, offset)
        commit = self.commits[index] if index is not None else None
        if index == 0 and commit is not None and not commit.ledger.commits:
            first = commit.ledger.next_offsets[partition]
            return Fate("no_row", f"no row: the table begins at offset {first:,}", reason="start")
        if index == 0 and commit is not None and commit.ledger.commits > 1:
            commit = None  # an expired one may have read it
        of = "of an expired snapshot"
        read: dict[str, Any] = {}
        if commit is not None:
            of = f"of snapshot {commit.snapshot_id} (committed at {clock(commit.at_ms)})"
            read = {"snapshot_id": str(commit.snapshot_id), "at_ms": commit.at_ms}
        has_row = self.rows is not None and place in self.rows
        if has_row and not (place in self.letters and _is_reused(place, self.ledger)):
            is_replayed = len({commit.ledger.replay_id for commit in self.commits[index or 0 :]}) > 1
            other = ", or of a later replay" if is_replayed else ""
            other += ", or of an earlier log's record" if _is_reused(place, self.ledger) else ""
            return Fate("row", f"row {of}{other}", **read)
        if place in self.letters:
            reason, message = self.letters[place]
            return Fate("dead_letter", f"dead letter because {reason}: {message}", reason=reason, **read)
        if self.rows is None:
            return Fate("unknown", f"a record {of}; the table has no {METADATA} to find its row", **read)
        return self._without_row(place, read)

    def _first_behind(self, partition: int, offset: int) -> int | None:
        """The commit that moved the ledger behind a record: the last one, as a cut log sets it back."""
        first = None
        for index, commit in reversed([*enumerate(self.commits)]):
            if commit.ledger.next_offsets.get(partition, 0) <= offset:
                break
            first = index
        return first

    def _without_row(self, place: Place, read: Mapping[str, Any]) -> Fate:
        tried = self.tried.get(place, _ROW)
        if tried != _ROW:
            return Fate("no_row", f"no row: {tried}", reason=tried, **read)
        if self.newer is None:
            text = f"row replaced or deleted since: more than {_MOST_ROWS:,} rows may have its key"
            return Fate("unknown", text, **read)
        if place in self.newer:
            partition, offset = self.newer[place]
            other = f" of partition {partition}" if partition != place[0] else ""
            text = f"superseded by offset {offset:,}{other}"
            return Fate("superseded", text, partition=partition, offset=offset, **read)
        return Fate("deleted", "row deleted since, or dead letter dropped: by now it would be a row", **read)


def fates(
    records: pa.RecordBatch, topic: str, settings: TopicSettings, registry: Registry, catalog: Catalog
) -> list[Fate]:
    """The fate of each record of ``SOURCE_SCHEMA``; raises as the catalog, the storage and the registry."""
    identifier, places = table_identifier(topic, settings), list(places_of(records))
    table = TopicTable.load(catalog, identifier, topic)
    ledger = table.ledger_of_rows() if table is not None else None
    if table is None or ledger is None:
        return [Fate("not_yet", f"{_NOT_YET}: {'.'.join(identifier)} does not exist")] * len(places)
    committed = {(p, offset) for p, offset in places if offset < ledger.next_offsets.get(p, 0)}
    rows = _rows(table.table, committed)
    sure = {place for place in rows or () if not _is_reused(place, ledger)}
    letters = _letters(LetterTable(catalog, identifier, topic), committed - sure)
    facts = Facts(ledger, _commits(table.table), rows, letters)
    doubtful = [n for n, place in enumerate(places) if facts.fate(place).kind == "deleted"]
    if doubtful:
        draft = TopicDraft(table, topic, tolerant(settings, table.table.schema()), registry)
        past = "it was skipped" if settings.errors == "skip" else "its dead letter is gone"
        tried, staged = _tried(records.take(pa.array(doubtful)), draft, past)
        newer = _newer(table.table, settings.key or (KEY,), staged) if settings.mode == "upsert" else {}
        facts = replace(facts, tried=tried, newer=newer)
    return [facts.fate(place) for place in places]


def _is_reused(place: Place, ledger: Ledger) -> bool:
    """Whether rows of an earlier log may have this place, too: they stay with ``on_truncation = mark``."""
    return any(first <= place[1] < end for first, end, _ in ledger.truncated.get(place[0], ()))


def _commits(table: Table) -> list[Commit]:
    head = table.metadata.current_snapshot()
    snapshots = list(ancestors_of(head, table.metadata)) if head else []
    ledgers = ((snapshot, ledger_of(snapshot)) for snapshot in reversed(snapshots))
    return [
        Commit(snapshot.snapshot_id, snapshot.timestamp_ms, ledger) for snapshot, ledger in ledgers if ledger
    ]


def _rows(table: Table, places: set[Place]) -> set[Place] | None:
    if METADATA not in {column.name for column in table.schema().fields}:
        return None
    if not places:
        return set()
    offsets = pa.array(sorted({offset for _, offset in places}), pa.int64())
    wanted = among(places, f"{METADATA}.partition", f"{METADATA}.offset")
    present: set[Place] = set()
    for rows in _read(table, wanted, (METADATA,)):
        has_offset = pc.is_in(pc.struct_field(rows[METADATA], "offset"), offsets)
        present |= {_place(metadata) for metadata in rows[METADATA].filter(has_offset).to_pylist()}
    return present & places


def _letters(letters: LetterTable, places: set[Place]) -> dict[Place, tuple[str, str]]:
    if not places or not letters.load() or letters.table is None:
        return {}
    names = ("partition", "offset", "reason", "message")
    offsets = pa.array(sorted({offset for _, offset in places}), pa.int64())
    parts = _read(letters.table.table, among(places, "partition", "offset"), names)
    rows = (row for part in parts for row in part.filter(pc.is_in(part["offset"], offsets)).to_pylist())
    return {(row["partition"], row["offset"]): (row["reason"], row["message"]) for row in rows}


def among(places: Iterable[Place], partition: str, offset: str) -> BooleanExpression:
    """A range of each partition, with these places."""
    offsets: dict[int, list[int]] = {}
    for p, at in places:
        offsets.setdefault(p, []).append(at)
    parts: list[BooleanExpression] = [
        And(
            EqualTo(term=partition, value=p),
            GreaterThanOrEqual(term=offset, value=min(of_partition)),
            LessThanOrEqual(term=offset, value=max(of_partition)),
        )
        for p, of_partition in offsets.items()
    ]
    return parts[0] if len(parts) == 1 else Or(*parts)


def _read(table: Table, planned: BooleanExpression, names: Sequence[str]) -> Iterator[pa.Table]:
    """Columns of the live rows in each file that may have rows of ``planned``."""
    with reachable("the storage", lent=lends_keys(table)):
        scan = ArrowScan(table.metadata, table.io, table.schema().select(*names), AlwaysTrue())
        for task in table.scan(row_filter=planned).plan_files():
            yield scan.to_table([task])


def _tried(
    records: pa.RecordBatch, draft: TopicDraft, past: str
) -> tuple[dict[Place, str], list[pa.RecordBatch]]:
    """What records become by the current settings, and the rows; those without a value apart."""
    tried: dict[Place, str] = {}
    rows: list[pa.RecordBatch] = []
    has_value = records.column("value").is_valid()
    for part in (records.filter(has_value), records.filter(pc.invert(has_value))):
        memory, result = try_records(draft, [part], Memory)
        places = list(places_of(part))
        tried |= dict.fromkeys(places, " or ".join(sorted(result.passed_over)) or "it asks for none")
        for staged in memory.staged:
            tried |= dict.fromkeys((places[n] for n in staged.positions.tolist()), _ROW)
            rows.append(staged.rows)
        for refused in memory.refused:
            for index, n in enumerate(refused.positions.tolist()):
                why = f"{refused.reason(index)}: {refused.message(index)}"
                tried[places[n]] = f"{past}; it cannot become one because {why}"
    return tried, rows


def _newer(table: Table, key: Sequence[str], staged: Sequence[pa.RecordBatch]) -> dict[Place, Place] | None:
    """By the place of a row that the table lacks, that of the row with its key; None: they are too many."""
    columns = list(dict.fromkeys(name.split(".")[0] for name in key))
    rows = [row for batch in staged for row in batch.select([*columns, METADATA]).to_pylist()]
    wanted = {_values(row, key): _place(row[METADATA]) for row in rows}
    planned: BooleanExpression = AlwaysTrue()
    for name in columns:
        if rows and isinstance(table.schema().find_type(name), IntegerType | LongType | StringType):
            planned = And(planned, In(name, {row[name] for row in rows}))  # type: ignore[call-arg]
    places: dict[str, Place] = {}
    count = 0
    for part in _read(table, planned, (*columns, METADATA)) if rows else ():
        if (count := count + len(part)) > _MOST_ROWS:
            return None
        places |= {
            values: _place(row[METADATA])
            for row in part.to_pylist()
            if (values := _values(row, key)) in wanted and row[METADATA]
        }
    return {_place(row[METADATA]): places[values] for row in rows if (values := _values(row, key)) in places}


def _place(metadata: Mapping[str, Any]) -> Place:
    return metadata["partition"], metadata["offset"]


def _values(row: Mapping[str, Any], key: Sequence[str]) -> str:
    """The key's values, as a text that equal ones share."""
    values = []
    for name in key:
        value: Any = row
        for part in name.split("."):
            value = None if value is None else value[part]
        values.append(value)
    return repr(values)


def with_fates(
    records: Records, topic: str, settings: TopicSettings, registry: Registry, catalog: Callable[[], Catalog]
) -> Records:
    """The records with their fates, at most ``MOST``; a note if the catalog, say, does not respond."""
    if records.batch is None:
        return records
    try:
        batch = records.batch.slice(0, MOST)
        known = fates(batch, topic, settings, registry, catalog())
    except TableTopicError as error:
        notes = (*records.looked.notes, f"what became of them is unknown: {error}")
        return Records(records, replace(records.looked, notes=notes), records.batch)
    pairs = zip(records, known, strict=False)
    explained = [replace(record, fate=fate) for record, fate in pairs]
    return Records([*explained, *records[len(explained) :]], records.looked, records.batch)
