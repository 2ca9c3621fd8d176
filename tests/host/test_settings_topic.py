"""Changes of the desired state, with a log in memory for the settings topic."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tabletopic_kernel.host.topics import settings_topic
from tabletopic_kernel.host.topics.settings_topic import change_desired, parse_desired, read_desired
from tabletopic_kernel.local.machine import now_ms
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.settings.desired import DesiredTopic
from tabletopic_kernel.model.settings.sections import TopicSettings

TOPIC = "clicks"


class Record:
    """A message of the log."""

    def __init__(self, key: str, value: bytes | None, offset: int, headers: Any = None) -> None:
        self._key, self._value, self._offset, self._headers = key, value, offset, headers

        self.at_ms = now_ms()

    def timestamp(self) -> tuple[int, int]:
        """When it was written."""
        return 1, self.at_ms

    def headers(self) -> Any:
        """What it is based on."""
        return self._headers

    def key(self) -> bytes:
        """The topic."""
        return self._key.encode()

    def value(self) -> bytes | None:
        """The desired state as JSON."""
        return self._value

    def offset(self) -> int:
        """The place in the log."""
        return self._offset

    def partition(self) -> int:
        """The only one."""
        return 0

    def error(self) -> None:
        """None."""


@dataclass
class Log:
    """Broker, producer and reader of a settings topic of one partition.

    ``meanwhile``: what another program writes just before each of ours arrives.
    """

    properties: dict[str, str] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    meanwhile: list[Callable[[], None]] = field(default_factory=list)

    def ensure_topic(self, *_: object) -> None:
        """It is there."""

    def end_offsets(self, topics: list[str]) -> dict[str, dict[int, int]]:
        """The next offset."""
        return {topic: {0: len(self.records)} for topic in topics}

    def write(self, desired: DesiredTopic | None, topic: str = TOPIC) -> Record:
        """Append a message."""
        record = Record(topic, desired.to_json() if desired else None, len(self.records))
        self.records.append(record)
        return record

    def produce(
        self, _: str, *, key: str, value: bytes | None, headers: Any, on_delivery: Any, **__: object
    ) -> None:
        """Append ours, after another program's."""
        if self.meanwhile:
            self.meanwhile.pop(0)()
        record = Record(key, value, len(self.records), headers)
        self.records.append(record)
        on_delivery(None, record)

    def flush(self, _: float) -> int:
        """Nothing waits."""
        return 0

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def read_range(
        self, _: str, starts: Mapping[int, int], ends: Mapping[int, int]
    ) -> Iterator[list[Record]]:
        """The messages of a range."""
        yield self.records[starts[0] : ends[0]]

    @property
    def newest(self) -> DesiredTopic | None:
        """What hosts do now."""
        change = parse_desired(self.records[-1])  # type: ignore[arg-type]
        return change.desired


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    """A log in which the topic is enabled."""
    made = Log()
    made.write(_desired())
    monkeypatch.setattr(settings_topic, "make_producer", lambda *_, **__: made)
    monkeypatch.setattr(settings_topic, "Reader", lambda *_, **__: made)
    return made


def _desired(**more: Any) -> DesiredTopic:
    return DesiredTopic(topic=TOPIC, **more)


def _altered(now: DesiredTopic | None) -> DesiredTopic:
    """Another interval, all else as it is."""
    if now is None:
        raise UsageError("not enabled")
    return now.model_copy(update={"settings": TopicSettings(commit_interval_ms=2_000)})


def test_a_change_of_what_nobody_else_changes(log: Log) -> None:
    """One message, based on the newest of this topic, whatever others say of other topics meanwhile."""
    log.write(_desired(run="paused"))
    log.write(DesiredTopic(topic="views"), "views")
    log.meanwhile = [lambda: log.write(DesiredTopic(topic="views"), "views") and None]
    assert change_desired(log, TOPIC, _altered) == log.newest  # type: ignore[arg-type]
    assert log.newest == _altered(_desired(run="paused"))
    assert len(log.records) == 5


def test_of_two_changes_at_once_both_count(log: Log) -> None:
    """A pause that comes between the question and the answer stays, however often that happens."""
    log.meanwhile = [
        lambda: log.write(_desired(run="paused")) and None,
        lambda: log.write(_desired(run="paused", requested_by="them")) and None,
    ]
    change_desired(log, TOPIC, _altered)  # type: ignore[arg-type]
    assert log.newest == _altered(_desired(run="paused", requested_by="them"))


@pytest.mark.parametrize(("age_ms", "base"), [(0, "on"), (90_000, "paused")])
def test_an_old_message_counts_whatever_it_is_based_on(log: Log, age_ms: int, base: str) -> None:
    """In a copy of the topic, offsets are others; a new one that was overtaken is written again soon."""
    log.write(_desired())
    overtaken = log.write(_desired(run="paused"))
    overtaken._headers, overtaken.at_ms = [("based-on", b"0")], now_ms() - age_ms
    assert change_desired(log, TOPIC, _altered).run == base  # type: ignore[arg-type]


def test_a_change_that_is_not_possible_writes_nothing(log: Log) -> None:
    """Of a topic that is not enabled, or disabled meanwhile; who asked is told."""
    log.meanwhile = [lambda: log.write(None) and None]
    with pytest.raises(UsageError, match="not enabled"):
        change_desired(log, TOPIC, _altered)  # type: ignore[arg-type]
    assert log.newest is None
    before = len(log.records)
    with pytest.raises(UsageError, match="not enabled"):
        change_desired(log, TOPIC, _altered)  # type: ignore[arg-type]
    assert len(log.records) == before


HOSTILE = {"py-io-impl": "IPython.start_ipython", "write.parquet.compression-codec": "zstd"}
REFUSED = [
    (b'{"topic": "clicks", "settings": {"colour": "red"}}', "settings.colour"),
    (b'{"topic": "clicks", "brake": true}', "brake"),
    (b'{"topic": "views"}', "about the topic 'views'"),
    (b"no JSON", "Invalid JSON"),
    (json.dumps({"topic": TOPIC, "settings": {"table_properties": HOSTILE}}).encode(), "'py-io-impl' is not"),
    (
        b'{"topic": "clicks", "settings": {"table_properties": {"write.py-location-provider.impl": "a.B"}}}',
        "impl",
    ),
]


@pytest.mark.parametrize(("value", "why"), REFUSED)
def test_a_refused_message_is_its_topics_alone(log: Log, value: bytes, why: str) -> None:
    """Its topic keeps its settings and says why, also if it has none; the others are as they are."""
    before = {TOPIC: _desired(run="paused"), "views": DesiredTopic(topic="views")}
    for topic, desired in before.items():
        log.write(desired, topic)
    log.records.append(Record(TOPIC, value, len(log.records)))
    log.records.append(Record("orders", value, len(log.records)))
    now = read_desired(log)  # type: ignore[arg-type]
    assert now["views"] == before["views"]
    assert now[TOPIC] == before[TOPIC].model_copy(update={"refused": now[TOPIC].refused})
    for topic in (TOPIC, "orders"):
        assert why in (now[topic].refused or "")
    assert "refused" not in now[TOPIC].to_json().decode()
    log.write(_desired(), TOPIC)
    log.write(None, "orders")
    assert read_desired(log) == {"views": before["views"], TOPIC: _desired()}  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "a b", "..", "x" * 250])
@pytest.mark.parametrize("value", [None, b"no JSON", b'{"topic": "a b"}'])
def test_a_key_that_names_no_topic_is_passed_over(log: Log, name: str, value: bytes | None) -> None:
    """A broker that is asked for such a topic describes none of the others."""
    log.write(_desired())
    log.records.append(Record(name, value, 1))
    assert read_desired(log) == {TOPIC: _desired()}  # type: ignore[arg-type]


def test_a_change_goes_past_a_refused_message(log: Log) -> None:
    """It is one of the settings in force, and no message can say itself that it was refused."""
    log.records = [Record(TOPIC, b'{"topic": "clicks", "refused": "by me"}', 0)]
    assert read_desired(log) == {TOPIC: _desired()}  # type: ignore[arg-type]
    log.records.append(Record(TOPIC, REFUSED[0][0], 1))
    assert change_desired(log, TOPIC, _altered) == log.newest == _altered(_desired())  # type: ignore[arg-type]
