"""What is behind the tables of topics: the records in [ledger, end offsets), as rows of the tables.

Why each record is in an answer once: a table's snapshot is chosen first, its ledger is in it (I2), and the
topic's end offsets are asked for afterwards. A commit in between changes neither the snapshot nor the ledger.
The rows are made by the worker's own steps, with a plan that needs no owner and changes nothing. They have
the table's columns, by field id: a column that the table lacks so far is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence, Set
from copy import copy
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from tabletopic_kernel.clients.kafka.broker import Broker, TopicFacts
from tabletopic_kernel.clients.registry.registry import Registry
from tabletopic_kernel.formats.wire import SchemaKey, age
from tabletopic_kernel.host.resume_point import gap_to_skip
from tabletopic_kernel.model.columns.upsert_columns import check_same_mode
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError, ReusedIdError, UnknownTopicError
from tabletopic_kernel.model.ledger import Ledger, Offsets, StagedOffsets, newest
from tabletopic_kernel.model.settings.sections import LiveSettings, TopicSettings
from tabletopic_kernel.pipeline.conform import file_schema, note_last, with_dated_records
from tabletopic_kernel.pipeline.plan import Needs, SchemaPlan, StagePlan
from tabletopic_kernel.pipeline.sinks import Memory
from tabletopic_kernel.pipeline.source import KafkaRanges, Limits, Source, SourceSpec, next_offsets
from tabletopic_kernel.query.answer import LiveRead, Tail
from tabletopic_kernel.table.changes.upsert.staged import Upsert
from tabletopic_kernel.table.changes.upsert.tail import applied
from tabletopic_kernel.table.draft import TopicDraft, try_records
from tabletopic_kernel.table.schemas.covered import noted_batch
from tabletopic_kernel.table.topic_table import TOPIC_PROPERTY, TopicTable
from tabletopic_kernel.workbench.topics.live_columns import as_table, is_other_value, with_columns_of

WAITING: Final = "waiting"  # why a record is left out whose schema the registry does not give
_MOST_IDS: Final = 100  # unknown schema ids looked up for a query: garbage names many
_OTHER_SETTINGS: Final = (
    "{topic} is not enabled, and its settings here are not those that filled {table}: write them into "
    "[topics.{topic}], enable it again, or query the table without --live"
)
_GROUP_RECORDS: Final = 65_536  # decoded together, as in a worker
_MOST_DRAFTS: Final = 16
# The records of a topic, by the broker's properties, the settings and the seconds that reading may take.
Sources = Callable[[str, Mapping[str, str], TopicSettings, float], Source[Offsets, StagedOffsets]]


def kafka_source(
    topic: str, properties: Mapping[str, str], settings: TopicSettings, seconds: float
) -> KafkaRanges:
    """A topic's records in Kafka."""
    return KafkaRanges(topic, properties, SourceSpec(topic, {}, {}, settings).headers, seconds)


@dataclass
class LiveReads:
    """Reads what is behind tables, for one thread at a time.

    ``settings_of`` has the settings of topics, and whether these are enabled.
    """

    broker: Broker
    registry: Registry
    settings_of: Callable[[Sequence[str]], Mapping[str, tuple[TopicSettings, bool]]]
    limits: LiveSettings
    source: Sources = kafka_source

    def __post_init__(self) -> None:
        self._drafts: dict[object, TopicDraft] = {}

    def tails(self, tables: Sequence[Table]) -> list[Tail | None]:
        """What is behind each table, with one set of end offsets per topic; None if no topic fills it.

        Raises ActionNeededError if the topic did not fill the table, or lacks records of it (I8).
        """
        topics = [table.properties.get(TOPIC_PROPERTY) for table in tables]
        filled = list(dict.fromkeys(filter(None, topics)))
        settings = self.settings_of(filled) if filled else {}
        facts = {topic: self._facts(topic) for topic in filled}  # after all snapshots
        return [
            self._tail(TopicTable(table), *settings[topic], facts[topic]) if topic else None
            for table, topic in zip(tables, topics, strict=True)
        ]

    def _facts(self, topic: str) -> TopicFacts | UnknownTopicError:
        try:
            return self.broker.facts(topic)
        except UnknownTopicError as error:
            return error

    def _tail(
        self,
        table: TopicTable,
        settings: TopicSettings,
        enabled: bool,
        facts: TopicFacts | UnknownTopicError,
    ) -> Tail:
        if isinstance(facts, UnknownTopicError):
            return _without_topic(table, facts)
        check_same_mode(settings, table.table.properties, table.identifier)
        table.check_not_behind()
        if not enabled and settings.projection is None and noted_batch(table.table.properties) is not None:
            raise ActionNeededError(_OTHER_SETTINGS.format(topic=facts.topic, table=table.identifier))
        settings = tolerant(settings, table.table.schema())
        if (ledger := table.ledger_of_rows()) is None:
            raise RetryableError(f"no host has taken {table.identifier} yet; try again")
        gap = gap_to_skip(ledger, facts, settings)
        table_to = {p: ledger.next_offsets.get(p, 0) for p in facts.end}
        start = table_to | {p: first for p, (_, first) in gap.items()}
        seconds = self.limits.timeout_ms / 1000
        source = self.source(facts.topic, self.broker.properties, settings, seconds)
        read = _read(source, ledger, facts, start, self.limits)
        draft = _LiveDraft(self._draft(table, facts.topic, settings))
        memory, result = try_records(draft, read.batches, Memory)
        have, want = draft.draft.columns, table.table.schema()
        if not enabled and is_other_value(have, want):
            raise ActionNeededError(_OTHER_SETTINGS.format(topic=facts.topic, table=table.identifier))
        rows = pa.Table.from_batches([staged.rows for staged in memory.staged], file_schema(have))
        replaced = None
        if settings.mode == "upsert":
            upsert = Upsert(settings, (), (), frozenset(result.unavailable))
            head = with_columns_of(table.table, draft.draft.table)
            rows, replaced = applied(head, upsert, ledger, rows, memory.deleted)
        live = LiveRead(
            table_to,
            read.reached,
            result.records,
            result.refused,
            result.passed_over,
            max(newest(ledger.newest_ms, result.newest_ms).values(), default=None),
            sum(facts.end[p] - offset for p, offset in read.reached.items()),
            read.cut_by,
        )
        return Tail(as_table(rows, have, want), live, replaced)

    def _draft(self, table: TopicTable, topic: str, settings: TopicSettings) -> TopicDraft:
        """A draft of the table; kept while table and settings stay: it knows what the registry said."""
        metadata = table.table.metadata
        known = metadata.table_uuid, metadata.current_schema_id, str(metadata.properties), repr(settings)
        is_known = known in self._drafts
        draft = self._drafts.pop(known, None) or TopicDraft(
            TopicTable(copy(table.table)), topic, settings, self.registry
        )
        self._drafts[known] = draft
        if len(self._drafts) > _MOST_DRAFTS:
            del self._drafts[next(iter(self._drafts))]
        if is_known:
            try:
                draft.recheck()
            except RetryableError:  # what it knows by id stays true
                if settings.value_format == "by_latest_schema":
                    raise
        return draft


def _without_topic(table: TopicTable, why: UnknownTopicError) -> Tail:
    """What is behind the table of a topic that does not exist: nothing, and the answer says why."""
    schema, ledger = table.table.schema(), table.ledger_of_rows()
    at = ledger.next_offsets if ledger else {}
    return Tail(
        as_table(file_schema(schema).empty_table(), schema, schema), LiveRead(at, at, missing=str(why))
    )


def tolerant(settings: TopicSettings, columns: Schema) -> TopicSettings:
    """Settings with which no record stops the others, for these columns.

    What cannot be a row is left out and counted.
    """
    names = {column.name for column in columns.fields}
    changes: dict[str, object] = {
        "errors": "skip",
        "metadata_columns": tuple(n for n in settings.metadata_columns if f"_kafka_{n}" in names),
    }
    if settings.on_incompatible == "stop":
        changes["on_incompatible"] = "dead_letter"
    return settings.model_copy(update=changes)


class _LiveDraft:
    """A draft whose records wait if the registry does not say how to decode them."""

    def __init__(self, draft: TopicDraft) -> None:
        self.draft = draft
        self._values: dict[SchemaKey, tuple[str, str]] = {}
        self._keys: dict[SchemaKey, tuple[str, str]] = {}
        self._looked_up = 0

    def plan(self) -> StagePlan:
        plan = self.draft.plan()
        keys = _without(plan.keys, self._keys) if plan.keys else None
        return replace(plan, values=_without(plan.values, self._values), keys=keys)

    def cover(self, needs: Needs) -> None:
        """See ``Draft``; a registry that does not respond is an answer."""
        ids, key_ids = self._few(needs.schema_ids, self._values), self._few(needs.key_ids, self._keys)
        tombstones = needs.schema_ids & {None}
        needs = replace(needs, schema_ids=frozenset(ids) | tombstones, key_ids=frozenset(key_ids))
        try:
            self.draft.cover(needs)
        except (RetryableError, ReusedIdError) as error:
            if not (ids or needs.proved or needs.key_ids or needs.proved_keys):
                raise
            waiting = WAITING, str(error)
            self._values |= dict.fromkeys([*ids, *needs.proved], waiting)
            self._keys |= dict.fromkeys([*needs.key_ids, *needs.proved_keys], waiting)

    def _few(
        self, needed: Set[SchemaKey | None], waiting: dict[SchemaKey, tuple[str, str]]
    ) -> list[SchemaKey]:
        """As many of the ids as may be looked up; the others wait."""
        ids = sorted((key for key in needed if key is not None), key=age)
        left = max(0, _MOST_IDS - self._looked_up)
        self._looked_up += len(ids[:left])
        waiting |= dict.fromkeys(ids[left:], (WAITING, f"more than {_MOST_IDS} unknown schema ids"))
        return ids[:left]


def _without(plan: SchemaPlan, waiting: Mapping[SchemaKey, tuple[str, str]]) -> SchemaPlan:
    return replace(plan, refused={**plan.refused, **waiting}) if waiting else plan


class _Read(NamedTuple):
    """Records in batches, the next offset of each partition, and the limit that ended the reading, if any."""

    batches: Sequence[pa.RecordBatch]
    reached: Offsets
    cut_by: str


def _read(
    source: Source[Offsets, StagedOffsets],
    ledger: Ledger,
    facts: TopicFacts,
    start: Offsets,
    limits: LiveSettings,
) -> _Read:
    """The records from ``start`` on, to the end offsets or a limit; raises if the log was cut (I8)."""
    wanted = StagedOffsets(start, facts.end)
    cut_by = "records" if wanted.records > limits.records else ""
    if cut_by:
        wanted = next_offsets(start, Limits(facts.end, limits.records)) or wanted
    waiting = {p: offset for p, offset in start.items() if offset < wanted.end[p]}
    # The last committed record of a partition is read, too: another one there means that the log was cut.
    last = {p: at for p, (at, _) in ledger.last_records.items() if facts.first.get(p, at + 1) <= at}
    begin = {p: min(offset, last.get(p, offset)) for p, offset in waiting.items()}
    batches, reached, size, began = [], dict(start), 0, time.monotonic()
    for batch in source.read(StagedOffsets(begin, {p: wanted.end[p] for p in begin})) if begin else ():
        kept = _behind(batch, ledger, start)
        batches.append(kept)
        size += kept.nbytes
        for p, offset in _last_offsets(kept).items():
            reached[p] = offset + 1
        if size >= limits.bytes or (time.monotonic() - began) * 1000 >= limits.timeout_ms:
            cut_by = "bytes" if size >= limits.bytes else "timeout_ms"
            break
    else:
        if (time.monotonic() - began) * 1000 < limits.timeout_ms:
            reached = {**reached, **wanted.end}
        else:  # the source may have ended for that
            cut_by = "timeout_ms"
    if not any(reached[p] < facts.end[p] for p in reached):
        cut_by = ""
    groups = pa.Table.from_batches(batches).combine_chunks().to_batches(_GROUP_RECORDS) if batches else ()
    return _Read(groups, reached, cut_by)


def _behind(batch: pa.RecordBatch, ledger: Ledger, start: Offsets) -> pa.RecordBatch:
    """The records behind the table; raises ActionNeededError if one before is not the one in the ledger."""
    partitions, offsets = (np.asarray(batch.column(name)) for name in ("partition", "offset"))
    is_behind = np.ones(len(batch), bool)
    for p in np.unique(partitions).tolist():
        is_behind &= (partitions != p) | (offsets >= start[p])
    if is_behind.all():
        return batch
    now: dict[int, tuple[int, str]] = {}
    note_last(with_dated_records(batch.filter(pa.array(~is_behind))), now)
    for p, record in now.items():
        before = ledger.last_records[p]
        if record[0] == before[0] and record != before:
            raise ActionNeededError(
                f"the log of {ledger.topic} was cut after its records were committed (partition {p}: another "
                f"record at offset {before[0]}); `tabletopic resume {ledger.topic}` says how to continue"
            )
    return batch.filter(pa.array(is_behind))


def _last_offsets(batch: pa.RecordBatch) -> dict[int, int]:
    partitions, offsets = (np.asarray(batch.column(name)) for name in ("partition", "offset"))
    return {p: int(offsets[partitions == p].max()) for p in np.unique(partitions).tolist()}
