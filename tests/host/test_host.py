"""A host's loop, with stand-ins for the broker and the coordinators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaError

from tabletopic_kernel.host import host as module
from tabletopic_kernel.host.host import Host
from tabletopic_kernel.host.services import Services
from tabletopic_kernel.host.topics import running_topics
from tabletopic_kernel.host.topics.settings_topic import parse_desired
from tabletopic_kernel.model.commit_cycle import Event
from tabletopic_kernel.model.settings.desired import DesiredTopic, MaintenanceRequest, ReplayRequest, Request
from tabletopic_kernel.model.settings.sections import TopicSettings
from tests.table.samples import FakeBroker, FakeControl, FakeRegistry

PARTITION = 3
LONG_S = 60.0  # longer than the group waits for a member


class FakeCoordinator:
    """Takes long to close, and records whether its topic belonged to this host as it began."""

    began: ClassVar[list[tuple[int, bool]]] = []  # emptied by the fixture, as are the others
    orders: ClassVar[list[object]] = []
    notices: ClassVar[list[str | None]] = []
    has_died = False

    def __init__(self, topic: str, settings: TopicSettings, services: Services) -> None:
        self.topic, self.settings, self._services = topic, settings, services

    def order(self, event: Event) -> None:
        """Keep it."""
        FakeCoordinator.orders.append(event)

    def commit_now(self) -> None:
        """Keep it."""
        FakeCoordinator.orders.append("commit")

    def carry_out(self, request: Request) -> None:
        """Keep its id."""
        FakeCoordinator.orders.append(request.id)

    def inherit(self, requests: Sequence[Request]) -> None:
        """Keep their ids, if there are any."""
        if requests:
            FakeCoordinator.orders.append([request.id for request in requests])

    def notice(self, text: str | None) -> None:
        """Keep what is new."""
        if text is not None or FakeCoordinator.notices[-1:] not in ([], [None]):
            FakeCoordinator.notices.append(text)

    def start(self, *, paused: bool) -> None:
        """Ask like a coordinator that takes over the table."""
        assert not paused
        FakeCoordinator.began.append(
            (self.settings.commit_interval_ms, self._services.still_mine(self.topic))
        )

    def leave_requests(self) -> None:
        """Keep that it was told so."""
        FakeCoordinator.orders.append("left")

    def close(self, _: float) -> bool:
        """All that takes its time."""
        Clock.now_s += LONG_S
        return True

    def progress(self) -> Any:
        """Nobody looks at it here."""
        raise AssertionError


class Clock:
    """Stands still unless a test advances it."""

    now_s = 0.0

    @classmethod
    def monotonic(cls) -> float:
        """Seconds."""
        return cls.now_s


class Message:
    """One of the settings topic."""

    def __init__(self, desired: DesiredTopic | None) -> None:
        self._make_desired = desired

    def key(self) -> bytes:
        """The topic."""
        return b"clicks"

    def value(self) -> bytes | None:
        """What should run; nothing where it was switched off."""
        return None if self._make_desired is None else self._make_desired.to_json()

    def partition(self) -> int:
        """Always the one that the host holds."""
        return PARTITION

    def offset(self) -> int:
        """Of no importance."""
        return 0

    def error(self) -> None:
        """None."""


class Foreign(Message):
    """One that somebody else wrote."""

    def __init__(self, key: bytes, value: bytes | None) -> None:
        self._key, self._value = key, value

    def key(self) -> bytes:
        """Theirs."""
        return self._key

    def value(self) -> bytes | None:
        """Theirs."""
        return self._value


class Consumer:
    """Returns what the test says, then ends the host."""

    def __init__(self, host: Host, script: list[Any]) -> None:
        self._host, self._script = host, iter(script)
        self.member: str | None = "member"

    def poll(self, _: float) -> Message | None:
        """The next message; a call in the script is executed instead, as a rebalance would be."""
        step = next(self._script, None)
        if step is None:
            self._host._stop.set()
        if callable(step):
            step()
            return None
        return step

    def memberid(self) -> str | None:
        """Nothing while it is not in a group."""
        return self.member

    def incremental_unassign(self, _: object) -> None:
        """Nothing to do."""


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """One that holds its partition."""
    monkeypatch.setattr(running_topics, "Coordinator", FakeCoordinator)
    monkeypatch.setattr(module, "time", Clock)
    monkeypatch.setattr(Host, "_beat", lambda *_, **__: None)
    made = Host(
        Services(
            catalog=lambda: None,  # type: ignore[arg-type,return-value]
            spark=lambda: None,  # type: ignore[arg-type,return-value]
            broker=FakeBroker(),  # type: ignore[arg-type]
            registry=FakeRegistry(),  # type: ignore[arg-type]
            control=FakeControl(),  # type: ignore[arg-type]
            host="test",
        )
    )
    made._held = {PARTITION}
    yield made
    made._stop.set()
    Clock.now_s = 0.0
    for kept in (FakeCoordinator.began, FakeCoordinator.orders, FakeCoordinator.notices):
        kept.clear()


def _make_desired(interval_ms: int) -> Message:
    return Message(DesiredTopic(topic="clicks", settings=TopicSettings(commit_interval_ms=interval_ms)))


def _run(host: Host, *script: Any) -> None:
    host._loop(Consumer(host, list(script)))  # type: ignore[arg-type]


def test_a_topic_whose_old_run_took_long_to_end_is_still_this_hosts(host: Host) -> None:
    """New settings are taken at once, however long the last commit under the old ones took."""
    _run(host, _make_desired(1_000), _make_desired(2_000), lambda: None)
    assert FakeCoordinator.began == [(1_000, True), (2_000, True)]


def test_a_topic_that_went_to_another_host_meanwhile_is_not_begun(host: Host) -> None:
    """The group may have given it away while the old run ended."""

    def taken_away() -> None:
        host._release({PARTITION})

    _run(host, _make_desired(1_000), _make_desired(2_000), taken_away)
    assert FakeCoordinator.began == [(1_000, True)]
    assert not host.coordinators()


@pytest.mark.parametrize(("member", "polls"), [(None, 2), ("back", 4)])
def test_a_consumer_left_out_of_the_group_is_replaced(host: Host, member: str | None, polls: int) -> None:
    """After its share was lost; one that is a member again, with or without a share, goes on."""
    polled: list[int] = []
    consumer = Consumer(host, [])

    def lost() -> None:
        polled.append(1)
        host._on_lost(consumer, [module.TopicPartition(module.SETTINGS_TOPIC, PARTITION)])  # type: ignore[arg-type]
        consumer.member = member

    def waits() -> None:
        polled.append(1)
        Clock.now_s += module._REJOIN_S

    consumer._script = iter([lost, waits, waits, waits])
    host._loop(consumer)  # type: ignore[arg-type]
    assert len(polled) == polls
    assert host._is_left_out(consumer) is (member is None)  # type: ignore[arg-type]
    assert not host._held


_COMMIT: dict[str, Any] = {"commit_asked_ms": 7}
_REPLAY: dict[str, Any] = {"replay": ReplayRequest(id="replay", asked_ms=7)}
_COMPACT: dict[str, Any] = {"maintenance": MaintenanceRequest(id="compact", asked_ms=7, work="compact")}


@pytest.mark.parametrize(
    ("change", "orders"),
    [
        ({}, [Event.RESUME]),
        ({"run": "paused"}, [Event.PAUSE]),
        (_COMMIT, ["commit"]),
        (_REPLAY, ["replay"]),
        (_REPLAY | _COMPACT, ["replay", "compact"]),
        (_COMMIT | _REPLAY | _COMPACT, ["commit", "replay", "compact"]),
        (_COMMIT | _COMPACT | {"run": "paused"}, ["commit", "compact", Event.PAUSE]),
    ],
)
def test_all_that_is_asked_for_is_done(host: Host, change: dict[str, Any], orders: list[object]) -> None:
    """Once, be it one request or several; and a request does not resume a topic that failed."""
    _run(host, Message(DesiredTopic(topic="clicks")), Message(DesiredTopic(topic="clicks", **change)))
    assert FakeCoordinator.orders == orders


def test_requests_with_new_settings_are_carried_out(host: Host) -> None:
    """By the run that takes them up; those that the run before has carried out are old."""
    first = DesiredTopic(topic="clicks", **_REPLAY)
    settings = TopicSettings(commit_interval_ms=2_000)
    second = DesiredTopic(topic="clicks", settings=settings, **_REPLAY, **_COMPACT)
    _run(host, Message(DesiredTopic(topic="clicks")), Message(first), Message(second), lambda: None)
    assert [interval for interval, _ in FakeCoordinator.began] == [5_000, 2_000]
    assert FakeCoordinator.orders == ["replay", "compact"]


def test_a_request_is_carried_out_once(host: Host) -> None:
    """Read again, or kept by a later message, it is an old one."""
    asked = DesiredTopic(topic="clicks", **_REPLAY)
    both = DesiredTopic(topic="clicks", **_REPLAY, **_COMPACT)
    _run(host, Message(DesiredTopic(topic="clicks")), Message(asked), Message(both), Message(both))
    assert FakeCoordinator.orders == ["replay", "compact", Event.RESUME]


def test_a_commit_is_made_whatever_the_clock_of_who_asks(host: Host) -> None:
    """Another program's clock may be behind, or somebody set it back; other messages keep the request."""
    asked = [DesiredTopic(topic="clicks", commit_asked_ms=at_ms) for at_ms in (0, 9_000, 7_000)]
    kept = asked[-1].model_copy(update=_REPLAY)
    _run(host, *map(Message, (*asked, kept)))
    assert FakeCoordinator.orders == ["commit", "commit", "replay"]


def test_requests_that_an_earlier_owner_may_have_left_are_inherited(host: Host) -> None:
    """All that the partition has, however many messages came later; one that comes then is new."""
    asked = [
        DesiredTopic(topic="clicks", **_COMPACT),
        DesiredTopic(topic="clicks", **_REPLAY),
        DesiredTopic(topic="clicks"),
    ]
    expire = {"maintenance": MaintenanceRequest(id="expire", asked_ms=7, work="expire")}
    later = DesiredTopic(topic="clicks", **_REPLAY, **expire)
    host._catching_up = {PARTITION: {}}
    _run(host, *map(Message, asked), lambda: host._catch_up(PARTITION), Message(later))
    assert FakeCoordinator.orders == [["compact", "replay"], "expire"]


def test_requests_of_lost_topics_are_left_to_the_next_owner(host: Host) -> None:
    """It runs them already; a topic that this host hands over has its outcomes before."""
    lost = [module.TopicPartition(module.SETTINGS_TOPIC, PARTITION)]
    consumer = Consumer(host, [])
    _run(host, Message(DesiredTopic(topic="clicks")), lambda: host._on_lost(consumer, lost))  # type: ignore[arg-type]
    assert FakeCoordinator.orders == ["left"]
    host._held = {PARTITION}
    host._stop.clear()
    _run(host, Message(DesiredTopic(topic="clicks")), lambda: host._on_revoke(consumer, lost))  # type: ignore[arg-type]
    assert FakeCoordinator.orders == ["left"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\xff\xfe", b"{}"),
        (b"\xff", None),
        (b"", b"{}"),
        (b"two words", b'{"topic": "two words"}'),
        (b"clicks", b"{}"),
        (b"clicks", b"\xff"),
        (b"clicks", b"[" * 9_000),
    ],
)
def test_what_others_write_to_the_settings_topic_is_passed_over(
    host: Host, caplog: pytest.LogCaptureFixture, key: bytes, value: bytes | None
) -> None:
    """It ends no host and no question, is logged once, and what comes behind it counts."""
    foreign: Any = Foreign(key, value)
    change = parse_desired(foreign)
    assert change is None or (change.desired is None and change.refused is not None)
    _run(host, foreign, _make_desired(100))
    assert [interval for interval, _ in FakeCoordinator.began] == [100]
    assert caplog.text.count("skipping a message") + caplog.text.count("does not count") == 1


def test_a_pattern_is_kept_for_as_long_as_its_partition(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    """It is no topic, and nothing to warn about; the host that gets the partition has it then."""
    pattern: Any = Foreign(b"pattern:shop.*", b'{"pattern": "shop.*"}')
    kept: list[list[str]] = []
    host._patterns._next_s = LONG_S * 1e9  # no look for topics
    _run(host, pattern, lambda: kept.append(list(host._patterns._kept)), lambda: host._release({PARTITION}))
    assert (kept, host._patterns._kept, caplog.text) == ([["shop.*"]], {}, "")


NEWER = b'{"topic": "clicks", "settings": {"commit_interval_ms": 300, "colour": "red"}}'


def test_a_message_that_is_refused_leaves_its_topic_running(host: Host) -> None:
    """It keeps its last known settings and reports why, until a message counts; a restarted host, too."""
    newer: Any = Foreign(b"clicks", NEWER)

    def restarts() -> None:
        assert set(host.coordinators()) == {"clicks"}
        assert FakeCoordinator.notices[1:] == [None]
        host._release({PARTITION})
        host._catching_up, host._held = {PARTITION: {}}, {PARTITION}

    again = _make_desired(100), restarts, _make_desired(200), newer, _end_of(PARTITION)
    _run(host, _make_desired(100), newer, *again)
    assert [interval for interval, _ in FakeCoordinator.began] == [100, 200]
    for notice in (FakeCoordinator.notices[0], FakeCoordinator.notices[-1]):
        assert "settings.colour: unknown setting" in (notice or "")


def _end_of(partition: int) -> Any:
    """What the consumer returns after the last message of a partition."""
    error = SimpleNamespace(code=lambda: KafkaError._PARTITION_EOF, name=lambda: "_PARTITION_EOF")
    return SimpleNamespace(error=lambda: error, partition=lambda: partition)


def test_of_old_wishes_only_the_newest_counts(host: Host) -> None:
    """A topic that was often altered is taken over as fast as another one, once all wishes are read."""
    host._catching_up = {PARTITION: {}, PARTITION + 1: {}}
    seen: list[int] = []
    _run(
        host,
        _end_of(PARTITION + 1),
        *(_make_desired(1_000 + one) for one in range(40)),
        lambda: seen.append(len(FakeCoordinator.began)),
        _end_of(PARTITION),
    )
    assert seen == [0]
    assert FakeCoordinator.began == [(1_039, True)]
    assert not host._catching_up


def test_whether_it_is_in_the_group(host: Host) -> None:
    """From its share on, while nothing keeps it out; who is told to stop is leaving."""
    host._thread = SimpleNamespace(is_alive=lambda: True)  # type: ignore[assignment]
    assert not host.is_in_group
    host._joined.set()
    assert host.is_in_group
    host.waits_for = "the broker does not let it in"
    assert not host.is_in_group
    assert not host.is_leaving
    host._stop.set()
    assert host.is_leaving


def test_how_long_its_loop_is_silent(host: Host) -> None:
    """A step that takes long shows, and the next poll ends it."""
    seen: list[float] = []

    def slow() -> None:
        Clock.now_s += LONG_S
        seen.append(host.silence_s)

    _run(host, slow, lambda: seen.append(host.silence_s))
    assert seen[0] >= LONG_S
    assert host.silence_s == 0
