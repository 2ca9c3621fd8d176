"""Rebase: a table continues with a copy of its topic, on another cluster or re-created, at its offsets.

Why this is safe: offsets mean nothing in a copy, so none is calculated. The last committed records of each
partition, as rows, must be in the copy, decoded with today's settings and registry: equal in all columns,
in their order, without others between them, in one place only. The new offsets are one claim on the ledger
that was compared (I3): if the former cluster's host commits before, it is refused; after it, that host (I5).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, And, EqualTo, GreaterThanOrEqual
from pyiceberg.io.pyarrow import ArrowScan

from tabletopic_kernel.clients.catalog.catalog import lends_keys, reachable
from tabletopic_kernel.clients.kafka.broker import Broker, TopicFacts
from tabletopic_kernel.model import errors
from tabletopic_kernel.model.columns.evolution import METADATA
from tabletopic_kernel.model.errors import ActionNeededError, UsageError
from tabletopic_kernel.model.ledger import Ledger, StagedOffsets, is_same_topic
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.table_names import table_identifier, table_name
from tabletopic_kernel.pipeline.conform import conform, file_schema
from tabletopic_kernel.pipeline.sinks import Memory
from tabletopic_kernel.pipeline.source import KafkaRanges
from tabletopic_kernel.table.dead_letters import LetterTable
from tabletopic_kernel.table.draft import TopicDraft, try_records
from tabletopic_kernel.table.topic_table import TopicTable

if TYPE_CHECKING:
    from tabletopic_kernel.workbench.workbench import Workbench

_READ: Final = 5_000  # offsets of the copy, read and decoded at once
# The copy is searched this far from the timestamp of the records: beyond, they are not there.
_FAR: Final = 200_000


@dataclass(frozen=True)
class PartitionMove:
    """The next offset of a partition, in the ledger and in the copy."""

    partition: int
    before: int
    after: int
    compared: int = 0  # records that are equal in the copy
    without_rows: int = 0  # offsets at the ledger's end, such as transaction markers


@dataclass(frozen=True)
class Rebase:
    """What a rebase changes, or would change until it is ``done``."""

    topic: str
    table: str
    cluster_id_before: str
    cluster_id: str
    topic_id: str
    partitions: list[PartitionMove]
    done: bool = False


@dataclass
class _Record:
    """A record as the table has it: timestamp in µs (-1: none), and its rows without their place."""

    offset: int
    timestamp: int
    rows: list[str]

    def equals(self, other: _Record) -> bool:
        return self.timestamp == other.timestamp and sorted(self.rows) == sorted(other.rows)


def rebase(topic: str, settings: TopicSettings, bench: Workbench, *, records: int, dry_run: bool) -> Rebase:
    """Find and prove the offsets, and write them unless it is a ``dry_run``.

    Raises UsageError (there is no ledger, or it is this very topic's), ActionNeededError (it is no copy, or
    that cannot be proved).
    """
    if settings.mode == "upsert":
        raise UsageError(
            f"{topic} is kept by key, and the offsets of a copy cannot be compared with those of its rows: "
            "fill another table from the copy with `tabletopic enable`"
        )
    identifier, catalog = table_identifier(topic, settings), bench.open_catalog(settings.catalog)
    table, letters = TopicTable.load(catalog, identifier, topic), LetterTable(catalog, identifier, topic)
    before = table.ledger_of_rows() if table else None
    if table is None or before is None:
        raise UsageError(f"{topic} has no table that has read anything: there is nothing to rebase")
    facts, has_letters = bench.broker.facts(topic), letters.load() and bool(letters.tasks(AlwaysTrue()))
    _check_copy(table, before, facts, letters.name if has_letters else None)
    draft = TopicDraft(table, topic, settings, bench.registry)
    search = _Search(table, before, facts, bench.broker, draft, records)
    moves = [search.move(partition) for partition in sorted(facts.end)]
    if not dry_run:
        offsets = {move.partition: move.after for move in moves}
        owned = before.for_next_owner(max(table.newest_epoch, letters.epoch))
        after = owned.moved(facts.cluster_id, facts.topic_id, offsets)
        try:
            table.claim(after, before)
        except errors.OutcomeUnknownError:
            table.claim(after, before)  # looks for its id first (I4)
        except errors.HeadMovedError as error:
            raise errors.RetryableError(f"{error}; stop that host, and try again") from error
    clusters = before.cluster_id, facts.cluster_id
    return Rebase(topic, table_name(topic, settings), *clusters, facts.topic_id, moves, not dry_run)


def _check_copy(table: TopicTable, before: Ledger, facts: TopicFacts, letters: str | None) -> None:
    topic = facts.topic
    if before.cluster_id == facts.cluster_id and is_same_topic(before.topic_id, facts.topic_id):
        raise UsageError(
            f"{table.identifier} has read this very topic {topic} (topic id {facts.topic_id}, cluster "
            f"{facts.cluster_id}): there is nothing to rebase"
        )
    more = [p for p, end in facts.end.items() if p not in before.next_offsets and end > facts.first[p]]
    if more or not before.next_offsets.keys() <= facts.end.keys():
        raise ActionNeededError(
            f"the table has read {len(before.next_offsets)} partitions of {topic}, and the topic has "
            f"{len(facts.end)} on this cluster: records are in other partitions. Copy them to a topic with "
            "as many partitions, or enable it with another --table"
        )
    if METADATA not in table.table.schema().column_names:
        raise ActionNeededError(
            f"the table {table.identifier} has no column {METADATA}, so its last records are unknown: "
            f"enable {topic} with another --table"
        )
    if letters is not None:
        raise ActionNeededError(
            f"{letters} has dead letters with offsets of the former topic: replay them there, or rename that "
            "table to keep them; then rebase"
        )


@dataclass
class _Search:
    """Looks for the last ``most`` committed records of each partition."""

    table: TopicTable
    before: Ledger
    facts: TopicFacts
    broker: Broker
    draft: TopicDraft
    most: int
    refused: str = ""  # why a record of the copy is no row

    def move(self, partition: int) -> PartitionMove:
        """The place of a partition's next record, proved; raises as ``rebase``."""
        before, first = self.before.next_offsets.get(partition, 0), self.facts.first[partition]
        last = self._last(partition, before)
        if not last:
            if before == 0:
                return PartitionMove(partition, before, first)
            raise self._unlike(partition, f"the table has none of its records below offset {before:,}")
        after, compared = self._find(partition, last)
        return PartitionMove(partition, before, after, compared, before - 1 - last[-1].offset)

    def _last(self, partition: int, end: int) -> list[_Record]:
        """The last committed records that have rows, in the order of their offsets."""
        tail = _records(self._rows(partition, end - self.most, end))
        return tail or _records(self._rows(partition, 0, end))[-self.most :]

    def _rows(self, partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        table, target = self.table.table, file_schema(self.table.table.schema())
        is_of = EqualTo(term=f"{METADATA}.partition", value=partition)
        is_late = GreaterThanOrEqual(term=f"{METADATA}.offset", value=start)
        with reachable("the storage", lent=lends_keys(table)):
            tasks = table.scan(row_filter=And(is_of, is_late)).plan_files()
            reader = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
            for batch in reader.to_record_batches(tasks):
                place, offsets = batch[METADATA], pc.struct_field(batch[METADATA], "offset")
                is_between = pc.and_(pc.greater_equal(offsets, start), pc.less(offsets, end))
                is_of_it = pc.equal(pc.struct_field(place, "partition"), partition)
                rows = batch.filter(pc.and_(is_of_it, is_between))
                yield conform(dict(zip(rows.schema.names, rows.columns, strict=True)), len(rows), target)

    def _find(self, partition: int, last: Sequence[_Record]) -> tuple[int, int]:
        """The offset in the copy behind the last of these records, and how many are equal there."""
        first, end = self.facts.first[partition], self.facts.end[partition]
        oldest, start = min(record.timestamp for record in last) // 1000, first
        if oldest >= 0:
            start = self.broker.offsets_at(self.facts.topic, [partition], oldest)[partition]
        copy: list[_Record] = []
        limit, place, compared = min(end, start + _FAR), -1, 0
        for position in range(start, limit, _READ):
            # Behind the place, only the last record is looked for: it may have been copied twice.
            only = last[-1].timestamp if compared else None
            copy += _records(self._copied(partition, position, min(limit, position + _READ), only))
            equal = [_equal(copy, index, last) for index in range(len(copy))] if only is None else []
            for index, count in enumerate(equal):
                if not compared and (count == len(last) or (start == first and count == index + 1)):
                    place, compared = index, count
            if compared and any(record.equals(last[-1]) for record in copy[place + 1 :]):
                raise self._unlike(partition, "its last record is there more than once")
        if compared:
            return copy[place].offset + 1, compared
        most = max((_equal(copy, index, last) for index in range(len(copy))), default=0)
        raise self._unlike(
            partition,
            f"of its last {len(last):,} records the newest {most:,} are there, and the one at offset "
            f"{last[-1 - most].offset:,} of the table is not, between offsets {start:,} and {limit:,}",
        )

    def _copied(self, partition: int, start: int, end: int, only: int | None) -> Iterator[pa.RecordBatch]:
        topic, properties = self.facts.topic, self.broker.properties
        source = KafkaRanges(topic, properties, headers=True)
        for records in source.read(StagedOffsets({partition: start}, {partition: end})):
            times = pc.cast(records["timestamp"], pa.int64()).fill_null(-1)
            chosen = records if only is None else records.filter(pc.equal(times, only))
            memory, _ = try_records(self.draft, [chosen], Memory)
            yield from (staged.rows for staged in memory.staged)
            for refused in memory.refused:
                self.refused = f"; a record there cannot become a row: {refused.message(0)}"

    def _unlike(self, partition: int, why: str) -> ActionNeededError:
        return ActionNeededError(
            f"partition {partition} of {self.facts.topic} on this cluster is not shown to be a copy of what "
            f"the table has read: {why}{self.refused}. Nothing was changed; wait until the copy has caught "
            "up, copy the topic whole, or enable it with another --table"
        )


def _equal(copy: Sequence[_Record], index: int, last: Sequence[_Record]) -> int:
    """How many records up to ``index`` are equal to the last ones, newest first."""
    most = min(index + 1, len(last))
    return next((n for n in range(most) if not copy[index - n].equals(last[-1 - n])), most)


def _records(batches: Iterable[pa.RecordBatch]) -> list[_Record]:
    """The records of rows, by offset: the newer one if an earlier rebase has left two."""
    records: dict[tuple[int, int], _Record] = {}
    for batch in batches:
        place, rows = batch.column(METADATA), batch.drop_columns([METADATA]).to_pylist()
        offsets = pc.struct_field(place, "offset").to_pylist()
        times = pc.cast(pc.struct_field(place, "timestamp"), pa.int64()).fill_null(-1).to_pylist()
        for offset, time, row in zip(offsets, times, rows, strict=True):
            records.setdefault((offset, time), _Record(offset, time, [])).rows.append(repr(_bare(row)))
    return list({key[0]: records[key] for key in sorted(records)}.values())


def _bare(value: Any) -> Any:
    """Without nulls, which later columns have, and empty lists, which are Spark's way to say no headers."""
    if isinstance(value, Mapping):
        return {name: _bare(item) for name, item in sorted(value.items()) if item is not None and item != []}
    return [_bare(item) for item in value] if isinstance(value, list) else value
