"""What an erasure would erase, and what the topic itself still has of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from pyiceberg.expressions import AlwaysTrue

from tabletopic_kernel.clients.catalog.catalog import lends_keys, reachable
from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.clients.registry.registry import Registry
from tabletopic_kernel.host.maintenance.erasure import having
from tabletopic_kernel.host.replay.letters import dead_letters_where, records_of
from tabletopic_kernel.local.machine import now_ms
from tabletopic_kernel.model.errors import TableTopicError, UsageError
from tabletopic_kernel.model.ledger import TAG
from tabletopic_kernel.model.progress.events import Erased
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.sinks import Place, places_of
from tabletopic_kernel.table.changes.row_deletes import holders
from tabletopic_kernel.table.compaction.plan import rows_where
from tabletopic_kernel.table.dead_letters import LetterTable
from tabletopic_kernel.table.expiry import ONLY_NAMED, to_expire
from tabletopic_kernel.table.topic_table import TopicTable
from tabletopic_kernel.workbench.peek.condition import ERROR, Condition
from tabletopic_kernel.workbench.peek.search import look
from tabletopic_kernel.workbench.peek.wanted import Search

_MOST: Final = 1_000  # of records that Kafka still has
_MOST_LETTERS: Final = 10_000  # named in a request one by one


@dataclass(frozen=True)
class InKafka:
    """Matching records that the topic still has: by partition their offsets, the first 1,000 in all.

    ``looked`` of ``records`` offsets were read. ``note``: why none could be read, or how to read on.
    """

    offsets: Mapping[int, list[int]] = field(default_factory=dict)
    looked: int = 0
    records: int = 0
    note: str = ""


@dataclass(frozen=True)
class Erasure:
    """What an erasure of a topic would do, or has ``done``.

    ``rows`` in ``files`` of the table and ``letters`` match; ``snapshots`` would expire. ``undecoded``: other
    dead letters whose values cannot be decoded, so that nobody knows. ``pinned``: snapshots that stay, with
    such rows. ``whole``: nothing but the topic would have them.
    """

    topic: str
    table: str
    rows: int
    files: int
    letters: int
    undecoded: int
    snapshots: int
    pinned: list[str]
    kafka: InKafka
    done: Erased | None = None

    @property
    def whole(self) -> bool:
        """Whether nothing but the topic has such rows, once it is done."""
        return not (self.done.left or self.done.error if self.done else self.pinned)


@dataclass(frozen=True)
class LettersToErase:
    """A condition on the dead letters' table, None for none, and the number of letters."""

    where: str | None
    letters: int
    undecoded: int


def plan_erasure(
    topic: str,
    table: TopicTable,
    matching: LettersToErase,
    where: str,
    kafka: InKafka,
) -> Erasure:
    """What would go now; reads the files that may have such rows."""
    current, others = table.table, set[str]()
    condition = rows_where(where, current.schema())
    if condition is None:
        raise UsageError("say which rows by a condition in SQL, such as id = 7")
    files = holders(current, condition, others)
    with reachable("the storage", lent=lends_keys(current)):
        rows = current.scan(row_filter=condition).count() if files else 0
    metadata = current.metadata
    expiring = to_expire(metadata, ONLY_NAMED, now_ms())
    named = {ref.snapshot_id for name, ref in metadata.refs.items() if name not in ("main", TAG)}
    return Erasure(
        topic,
        table.identifier,
        rows,
        len(files),
        matching.letters,
        matching.undecoded,
        len(expiring),
        list(having(current, condition, others, named)),
        kafka,
    )


def find_letters(
    topic: str,
    settings: TopicSettings,
    registry: Registry,
    letters: LetterTable,
    where: str,
    more: str | None,
) -> LettersToErase:
    """The letters that can be decoded and match ``where``, as in ``peek``, and those that match ``more``."""
    named = dead_letters_where(more)
    if not letters.load() or letters.table is None:
        return LettersToErase(None, 0, 0)
    condition = Condition(where, None, topic, settings, registry)
    failed = Condition(f"{ERROR} IS NOT NULL", None, topic, settings, registry)
    matching, undecoded = set[Place](), set[Place]()
    for task in letters.tasks(AlwaysTrue()):
        matching |= set(places_of(letters.read(task, named))) if more is not None else set()
        for batch in records_of(letters.read(task, AlwaysTrue())):
            undecoded |= set(places_of(batch, np.flatnonzero(failed.matches(batch))))
            matching |= set(places_of(batch, np.flatnonzero(condition.matches(batch))))
    if len(matching) > _MOST_LETTERS:
        raise UsageError(
            f"{len(matching):,} dead letters match: first drop them with `tabletopic letters {topic} --drop`"
        )
    offsets: dict[int, list[int]] = {}
    for partition, offset in sorted(matching):
        offsets.setdefault(partition, []).append(offset)
    texts = (f"(partition = {p} and offset in ({', '.join(map(str, at))}))" for p, at in offsets.items())
    return LettersToErase(" or ".join(texts) or None, len(matching), len(undecoded - matching))


def in_kafka(topic: str, settings: TopicSettings, broker: Broker, registry: Registry, where: str) -> InKafka:
    """Matching records of the topic, from its oldest; bounded as a ``peek``."""
    try:
        records = look(topic, settings, broker, registry, Search(start="oldest", where=where, limit=_MOST))
    except TableTopicError as error:
        return InKafka(note=f"the topic was not searched: {error}")
    offsets: dict[int, list[int]] = {}
    for record in records:
        offsets.setdefault(record.partition, []).append(record.offset)
    looked = records.looked
    note = f"`{looked.command(topic)}` reads on" if looked.go_on else ""
    return InKafka(offsets, looked.looked, looked.records, note)
