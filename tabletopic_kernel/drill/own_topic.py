"""A drill on copies of a user's own records: read once, sent again and again, compared with each other."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Message, Producer
from pyiceberg.catalog import Catalog

from tabletopic_kernel.clients.kafka.broker import make_producer
from tabletopic_kernel.clients.kafka.reader import Reader
from tabletopic_kernel.drill.streams import Fate, Sent, StreamPlan
from tabletopic_kernel.drill.tables import newest_ledger
from tabletopic_kernel.drill.verdict import (
    Position,
    TopicVerdict,
    check_files,
    check_ledger,
    read_tables,
)
from tabletopic_kernel.model.errors import InternalError, UsageError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.workbench.workbench import Workbench

_FLUSH_S = 240.0
_SETTINGS_FILE = "own-topic.toml"
Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True)
class Record:
    """The parts of a record that a copy has."""

    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True)
class OwnTopic:
    """The records that a drill copies, and how the copies become rows.

    ``settings``: the table topic's; ``registry``: properties of the user's, which the drill only reads.
    """

    topic: str
    partitions: int
    records: Sequence[Record] = field(repr=False)
    settings: Mapping[str, Any]
    registry: Mapping[str, Any] = field(repr=False)

    def write_settings(self, folder: Path) -> Path:
        """Write a settings file for hosts that use the user's registry; only its owner can read it."""
        file = folder / _SETTINGS_FILE
        file.touch(mode=0o600)
        lines = [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in self.registry.items()]
        file.write_text("\n".join(["[registry]", *lines, ""]), "utf-8")
        return file


def read_own(workbench: Workbench, topic: str, most: int) -> OwnTopic:
    """The newest ``most`` records of a topic, or fewer, and its settings; changes nothing anywhere.

    Raises:
        UsageError: there is no such topic, or it has no records.
        RetryableError: the broker does not respond.
    """
    desired = workbench.desired_topics().get(topic)
    settings = desired.settings if desired is not None else workbench.settings_for(topic)
    columns = tuple(dict.fromkeys((*settings.metadata_columns, "metadata")))  # rows are found by it
    given = settings.model_dump(exclude_unset=True) | {"metadata_columns": columns, "start": "earliest"}
    given.pop("commit_interval_ms", None)
    facts = workbench.broker.facts(topic)
    records = _newest(workbench.servers.kafka, topic, facts.first, facts.end, most)
    if not records:
        raise UsageError(f"{topic} has no records; a drill needs some to copy")
    return OwnTopic(topic, len(facts.end), records, given, workbench.servers.registry)


def _newest(
    properties: Mapping[str, str], topic: str, first: Mapping[int, int], ends: Mapping[int, int], most: int
) -> list[Record]:
    # From each partition, as all may be in one.
    begins = {partition: max(first.get(partition, 0), end - most) for partition, end in ends.items()}
    wanted = {partition: end for partition, end in ends.items() if begins[partition] < end}
    if not wanted:
        return []
    with Reader(properties, "tabletopic-drill") as reader:
        batches = reader.read_range(topic, {partition: begins[partition] for partition in wanted}, wanted)
        newest = sorted(itertools.chain.from_iterable(batches), key=lambda message: message.timestamp()[1])
    return [
        Record(_bytes(message.key()), _bytes(message.value()), _headers(message))
        for message in newest[-most:]
    ]


def _bytes(data: str | bytes | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data


def _headers(message: Message) -> Headers:
    headers: Any = message.headers() or []  # the stubs allow a dictionary too
    return [(name, _bytes(value)) for name, value in headers]


class CopyStream:
    """Like ``Stream``, but sends all records once at ``begin``, then repeatedly from ``go`` to ``end``."""

    def __init__(self, own: OwnTopic, kafka: Mapping[str, Any]) -> None:
        self.plan = StreamPlan(own.topic, "copies", own.partitions, False, own.settings)
        self.sent: list[Sent] = []
        self.ends: dict[int, int] = {}
        self.error: Exception | None = None
        self._records = own.records
        self._partitions = own.partitions
        more: dict[str, Any] = {
            "enable.idempotence": True,
            "linger.ms": 5,
            "message.timeout.ms": int(_FLUSH_S * 1000),
        }
        self._producer: Producer = make_producer({**dict(kafka), **more})
        self._stop, self._go = threading.Event(), threading.Event()
        self._rate = 0.0
        self._thread = threading.Thread(target=self._run, name=f"copies {own.topic}", daemon=True)

    def begin(self, per_second: float) -> None:
        """Send each record once."""
        self._rate = per_second
        self._thread.start()

    def go(self) -> None:
        """From now on send them again."""
        self._go.set()

    def end(self) -> None:
        """Stop, and wait until everything is acknowledged; raises what ended the producer."""
        self._stop.set()
        self._go.set()
        if self._thread.ident is not None:
            self._thread.join()
        if self.error is not None:
            raise self.error

    def evolve(self) -> int:
        """Raises UsageError: a user's schemas stay as they are."""
        raise UsageError("the schemas of your own topic do not change")

    def add_partition(self, count: int) -> None:
        """Use the partitions below ``count`` too."""
        self._partitions = count

    def release(self) -> bool:
        """Does nothing: no schema is held back."""
        return False

    def _run(self) -> None:
        try:
            for number in range(len(self._records)):
                self._send(number)
            self._producer.flush(_FLUSH_S)
            self._go.wait()
            for number in itertools.cycle(range(len(self._records))):
                if self._stop.wait(1 / self._rate):
                    break
                self._send(number)
            if self._producer.flush(_FLUSH_S):
                raise InternalError(f"the broker did not take the last copies of {self.plan.topic}")
        except Exception as error:
            self.error = error

    def _send(self, number: int) -> None:
        def delivered(error: Any, message: Message) -> None:
            if error is not None:
                self.error = KafkaException(error)
                return
            partition, offset = message.partition() or 0, message.offset() or 0
            self.sent.append(Sent(partition, offset, number, 1, Fate.UNSURE))
            self.ends[partition] = max(self.ends.get(partition, 0), offset + 1)

        record, topic = self._records[number], self.plan.topic
        partition = len(self.sent) % self._partitions
        while True:
            try:
                self._producer.produce(
                    topic, record.value, record.key, partition, delivered, headers=list(record.headers)
                )
                break
            except BufferError:
                self._producer.poll(0.1)
        self._producer.poll(0)


def judge_copies(
    catalog: Catalog,
    table_name: str,
    topic: str,
    sent: Sequence[Sent],
    ends: Mapping[int, int],
    forgiven_files: Collection[str],
    settings: TopicSettings,
) -> TopicVerdict:
    """Compare copies: each must have become what its record's first copy became, before any fault.

    A copy is either one row with the same values, one dead letter, or passed over, in the numbers that the
    ledger counts. ``forgiven_files``: see ``judge``.
    """
    verdict = TopicVerdict(topic, acknowledged=len(sent))
    tables = read_tables(catalog, table_name, sent, verdict)
    if tables is None:
        return verdict
    table, rows, letters = tables
    became = _became(rows, letters)
    first: dict[int, str | None] = {}
    lost: list[Position] = []
    changed: list[Position] = []
    nothing = 0
    for copy in sent:  # the broker took all first copies before others were sent
        position = (copy.partition, copy.offset)
        now = became(position)
        if now != first.setdefault(copy.number, now):
            (lost if now is None else changed).append(position)
        else:
            nothing += now is None
    verdict.lost, verdict.changed = len(lost), len(changed)
    verdict.differ("copies are lost", lost)
    verdict.differ("copies became something other than the first copy of their record", changed)
    ledger = newest_ledger(table)
    counted = 0 if ledger is None else ledger.passed_over
    if ledger is not None and settings.errors == "skip":
        counted += ledger.refused
    if nothing != counted:
        verdict.differences.append(f"{nothing:,} copies became nothing, the ledger counts {counted:,}")
    check_ledger(table, verdict, ends)
    check_files(table, verdict, forgiven_files)
    return verdict


def _became(
    rows: Mapping[Position, Mapping[str, Any]], letters: Collection[Position]
) -> Callable[[Position], str | None]:
    """What a copy became, in a comparable form, where NaN equals itself."""

    def became(position: Position) -> str | None:
        if (row := rows.get(position)) is not None:
            return repr({name: value for name, value in row.items() if not name.startswith("_kafka")})
        return "letter" if position in letters else None

    return became
