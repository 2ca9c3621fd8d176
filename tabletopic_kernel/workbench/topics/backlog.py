"""What some of a topic's records tell: the partitions and files of its backlog, and rows that fail rules."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import TimeTransform

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.clients.kafka.broker import Broker, TopicFacts
from tabletopic_kernel.clients.registry.registry import Registry
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError
from tabletopic_kernel.model.ledger import Ledger, StagedOffsets
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.values import Expectation
from tabletopic_kernel.pipeline.arrange import divided
from tabletopic_kernel.pipeline.decode import LoadedPlan
from tabletopic_kernel.pipeline.sinks import Memory
from tabletopic_kernel.pipeline.source import KafkaRanges
from tabletopic_kernel.pipeline.transform.expectations import check_rules
from tabletopic_kernel.pipeline.write import DataFileWriter
from tabletopic_kernel.render.words import many
from tabletopic_kernel.table.draft import TopicDraft, try_records
from tabletopic_kernel.table.topic_table import TopicTable

_RECORDS: Final = 250  # read at each place of a partition: its beginning, middle and end
_PARTITIONS: Final = 8  # of the topic, that are read
_OUTLIERS: Final = 0.01  # of records at each end of time: their clocks may be wrong
_BATCH: Final = 1_000_000  # records at most; each batch makes files of its own
_Counts = Mapping[tuple[Any, ...], int]  # records by the values of a partition
Layout = tuple[Schema, PartitionSpec]


@dataclass(frozen=True)
class Backlog:
    """The partitions and files that ``records`` will have; ``exact`` if all of them were read."""

    records: int
    partitions: int
    files: int
    exact: bool

    def __str__(self) -> str:
        about = "" if self.exact else "about "
        files, partitions = many(self.files, "file"), many(self.partitions, "partition")
        return f"this backlog of {many(self.records, 'record')} has {about}{partitions}, {files}"


def backlog(
    facts: TopicFacts,
    settings: TopicSettings,
    broker: Broker,
    registry: Registry,
    layout: Layout | None,
    notes: list[str],
) -> Backlog | None:
    """What records become in a new table, also in ``notes``; None without columns, partitions or records."""
    if layout is None or layout[1].is_unpartitioned() or settings.start != "earliest":
        return None
    places = _places(facts)
    source = KafkaRanges(facts.topic, broker.properties, headers=True)
    try:
        samples = [list(source.read(place)) for place in places]
        counts = _counts(samples, facts.topic, settings, registry, layout)
    except (ActionNeededError, RetryableError) as error:
        notes.append(f"how many partitions the backlog has is not known: {error}")
        return None
    if not any(counts):
        return None
    records = sum(end - facts.first.get(partition, 0) for partition, end in facts.end.items())
    exact = sum(place.records for place in places) == records
    result = estimated(layout[1], counts, records, exact=exact)
    notes.append(str(result))
    return result


def _places(facts: TopicFacts) -> list[StagedOffsets]:
    """Beginning, middle and end of some partitions; the short ones whole, at the first of these places."""
    first = {partition: facts.first.get(partition, 0) for partition in facts.end}
    sizes = {partition: end - first[partition] for partition, end in facts.end.items()}
    chosen = sorted(sizes, key=lambda partition: -sizes[partition])[:_PARTITIONS]
    short = {p: first[p] for p in chosen if sizes[p] <= 3 * _RECORDS}
    places = []
    for share in (0, 0.5, 1):
        starts = {p: first[p] + int((sizes[p] - _RECORDS) * share) for p in chosen if p not in short}
        ends = {p: at + _RECORDS for p, at in starts.items()}
        if share == 0:
            starts, ends = {**starts, **short}, {**ends, **{p: facts.end[p] for p in short}}
        if starts:
            places.append(StagedOffsets(starts, ends))
    return places


def _counts(
    samples: Sequence[Sequence[pa.RecordBatch]],
    topic: str,
    settings: TopicSettings,
    registry: Registry,
    layout: Layout,
) -> list[_Counts]:
    """The records of each sample by partition, in a table that nobody sees."""
    with _draft(topic, settings, registry, layout) as draft:
        try_records(draft, [batch for sample in samples for batch in sample], Memory)  # for their columns
        writer = LoadedPlan(draft.plan()).writer
        assert writer is not None
        return [_counted(try_records(draft, sample, Memory)[0], writer) for sample in samples]


@contextmanager
def _draft(topic: str, settings: TopicSettings, registry: Registry, layout: Layout) -> Iterator[TopicDraft]:
    settings = settings.model_copy(update={"table_properties": {}})
    with tempfile.TemporaryDirectory() as folder:
        properties = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}"}
        catalog = open_catalog({"name": "draft", **properties})
        table = TopicTable.create(catalog, ("draft", "table"), *layout, topic, settings)
        table.claim(Ledger(topic, "", "", {}, 1, "draft"), None)
        yield TopicDraft(table, topic, settings, registry)


def try_rules(
    facts: TopicFacts,
    settings: TopicSettings,
    broker: Broker,
    registry: Registry,
    layout: Layout | None,
    table: TopicTable | None,
) -> list[str]:
    """How many of some records fail each expectation, in words; raises ExpectationError.

    ``layout``: of a new table, None while its columns are unknown; ``table``: the one that exists.
    """
    if not settings.expectations:
        return []
    if table is not None:
        layout = table.table.schema(), UNPARTITIONED_PARTITION_SPEC
    if layout is None:
        return ["the expectations are checked once the first record has determined the columns"]
    check_rules(settings.expectations, layout[0])
    source = KafkaRanges(facts.topic, broker.properties, headers=True)
    try:
        records = [batch for place in _places(facts) for batch in source.read(place)]
        if table is not None and table.ledger is not None:
            _, result = try_records(TopicDraft(table, facts.topic, settings, registry), records, Memory)
        else:
            with _draft(facts.topic, settings, registry, layout) as draft:
                _, result = try_records(draft, records, Memory)
    except (ActionNeededError, RetryableError) as error:
        return [f"the expectations could not be tried: {error}"]
    failures = result.expectation_failures
    return [
        f"expectation {rule.name}: {failures.get(rule.name, 0):,} of {result.records:,} records fail "
        f"({rule.action})"
        for rule in map(Expectation.of, settings.expectations)
    ]


def _counted(sample: Memory, writer: DataFileWriter) -> _Counts:
    counts: Counter[tuple[Any, ...]] = Counter()
    for staged in sample.staged:
        table = pa.Table.from_batches([staged.rows])
        for key, rows in divided(table, writer.metadata.spec(), writer.schema) if len(table) else ():
            counts[tuple(field.value for field in key.field_values) if key else ()] += len(rows)
    return counts


def estimated(spec: PartitionSpec, places: Sequence[_Counts], records: int, *, exact: bool) -> Backlog:
    """The backlog of which some records were read at each of ``places``.

    Values of other fields than times are as many as those seen, and as those that were seen once tell of
    (Chao's estimate). Times go on between the places: between the first and the last there are all, each with
    any of the other values, as far as there are records. If the records are in the order of time, each batch
    has only its share of the times.
    """
    if exact:
        count = len({key for counts in places for key in counts})
        return Backlog(records, count, count, exact=True)
    timed = [at for at, field in enumerate(spec.fields) if isinstance(field.transform, TimeTransform)]
    others: Counter[tuple[Any, ...]] = Counter()
    for counts in places:
        for key, count in counts.items():
            others[tuple(value for at, value in enumerate(key) if at not in timed)] += count
    once, twice = (sum(count == times for count in others.values()) for times in (1, 2))
    other = len(others) + once * (once - 1) / (2 * (twice + 1))
    total: Counter[tuple[Any, ...]] = Counter()
    for counts in places:
        total.update(counts)
    times = _span(total, timed)
    batches = math.ceil(records / _BATCH)
    in_batch = min(times, times / batches + sum(_span(counts, timed) for counts in places) / len(places))
    files = batches * _taken(in_batch * other, records / batches)
    return Backlog(records, _taken(times * other, records), round(files), exact=False)


def _span(counts: _Counts, timed: Sequence[int]) -> int:
    """How many values of time there are between the first and the last, without outliers."""
    spans = [1]
    for at in timed:
        values = [key[at] for key, count in counts.items() if key[at] is not None for _ in range(count)]
        if values:
            low, high = np.quantile(values, (_OUTLIERS, 1 - _OUTLIERS), method="nearest").tolist()
            spans.append(high - low + 1)
    return max(spans)


def _taken(boxes: float, records: float) -> int:
    """How many of the boxes have a record, if each may be in any."""
    return max(1, round(boxes * (1 - math.exp(-records / boxes))))
