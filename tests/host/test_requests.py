"""Requests of users: each gets one outcome, whatever becomes of the run that has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from tabletopic_kernel.host.coordinator import Coordinator
from tabletopic_kernel.host.topics import control_topic
from tabletopic_kernel.host.topics.control_topic import unreported
from tabletopic_kernel.model.progress.event_json import event_json
from tabletopic_kernel.model.progress.events import (
    Compacted,
    ControlEvent,
    Expired,
    Heartbeat,
    OrphansRemoved,
    Progress,
    Replayed,
    is_outcome,
)
from tabletopic_kernel.model.settings.desired import MaintenanceRequest, ReplayRequest, Request
from tests.host.rig import Rig
from tests.host.test_replay import LATE, with_letters
from tests.table.samples import AVRO

REPLAY = ReplayRequest(id="replay@1", asked_ms=1)
COMPACT = MaintenanceRequest(id="compact@1", asked_ms=1, work="compact")
EXPIRE = MaintenanceRequest(id="expire@1", asked_ms=1, work="expire")
ORPHANS = MaintenanceRequest(id="orphans@1", asked_ms=1, work="expire", orphans=True)
ALL = [REPLAY, COMPACT, EXPIRE, ORPHANS]


def outcomes(rig: Rig, request: Request) -> list[ControlEvent]:
    """Those of a request."""
    return [event for event in rig.control.written if is_outcome(event, request)]


def end(coordinator: Coordinator) -> None:
    """End its thread, as a host does."""
    coordinator.start()
    assert coordinator.close(60)


def check_interrupted(rig: Rig, *requests: Request) -> None:
    """Check that each has one outcome, which says what to do."""
    for request in requests:
        (event,) = outcomes(rig, request)
        assert "ask again" in str(getattr(event, "error", None))


def test_requests_that_wait_when_a_topic_ends(rig: Rig) -> None:
    """Each is interrupted once, and one that comes later is so at once."""
    rig.spawn = lambda name, work: None if name == "maintenance" else work()
    coordinator = rig.running()
    for request in ALL[:2]:
        coordinator.carry_out(request)
    end(coordinator)
    check_interrupted(rig, *ALL[:2])
    for request in ALL[2:]:
        coordinator.carry_out(request)
    check_interrupted(rig, *ALL)


@pytest.mark.parametrize("request_", ALL, ids=lambda request: request.id)
@pytest.mark.parametrize("steps", range(1, 6))
def test_a_request_under_way_when_a_topic_ends(rig: Rig, request_: Request, steps: int) -> None:
    """Wherever it is, and whatever its threads still do."""
    tasks: list[Callable[[], None]] = []
    rig.spawn = lambda name, work: tasks.append(work) if name == "maintenance" else work()
    coordinator = with_letters(rig)
    rig.registry.schemas[LATE] = AVRO
    tasks.clear()
    coordinator.carry_out(request_)
    for step in range(steps):
        coordinator.step()
        if step % 2 and tasks:
            tasks.pop(0)()
    end(coordinator)
    for task in tasks:
        task()
    assert len(outcomes(rig, request_)) == 1


def test_what_was_done_before_the_end_is_reported(rig: Rig) -> None:
    """A replay whose first rows are in the table says how many."""
    coordinator = with_letters(rig)
    rig.registry.schemas[LATE] = AVRO
    coordinator.carry_out(REPLAY)
    while rig.rows() == 2:
        coordinator.step()
    end(coordinator)
    (event,) = outcomes(rig, REPLAY)
    assert isinstance(event, Replayed)
    assert event.rows == 5


@pytest.mark.parametrize("is_lost", [True, False])
def test_requests_of_a_topic_that_another_host_has_are_left_to_it(rig: Rig, is_lost: bool) -> None:
    """It finds no outcome of them; a host that hands the topic over reports them before."""
    coordinator = rig.make()
    coordinator.start(paused=True)
    coordinator.carry_out(COMPACT)
    if is_lost:
        coordinator.leave_requests()
    assert coordinator.close(60)
    assert len(outcomes(rig, COMPACT)) == (0 if is_lost else 1)


class Reader:
    """Of a control topic that retention has cut off at offset 10."""

    events: list[ControlEvent] = []  # noqa: RUF012 - set by each test
    reads = 0

    def __init__(self, *_: object) -> None:
        """Connect to nothing."""

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""

    def bounds(self, _: str, __: int) -> tuple[int, int]:
        """The offsets of all events."""
        return 10, 10 + len(self.events)

    def read_range(self, _: str, starts: Mapping[int, int], ends: Mapping[int, int]) -> Iterator[list[Any]]:
        """A message at a time."""
        type(self).reads += 1
        for at in range(starts[0], ends[0]):
            text = event_json(self.events[at - 10]).encode()
            yield [SimpleNamespace(value=lambda text=text: text)]


def _stamp() -> dict[str, Any]:
    return {"topic": "clicks", "at_ms": 1, "host": "h"}


def _asked(work: str, offset: int | None, **more: Any) -> Request:
    name = work if offset is None else f"{work}@{offset}"
    if work == "replay":
        return ReplayRequest(id=name, asked_ms=1)
    return MaintenanceRequest(id=name, asked_ms=1, work=work, **more)  # type: ignore[arg-type]


def _beat() -> Heartbeat:
    return Heartbeat(**_stamp(), progress=Progress(topic="clicks", table="t"))


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> type[Reader]:
    """What reads the control topic."""
    made = type("Made", (Reader,), {"events": [], "reads": 0})
    monkeypatch.setattr(control_topic, "Reader", made)
    return made


def test_a_request_without_an_outcome_is_found(reader: type[Reader]) -> None:
    """In the order in which they were made; parts of an outcome are none."""
    reader.events = [
        _beat(),
        Compacted(**_stamp(), request_id="compact@10"),
        Compacted(**_stamp(), request_id="compact@12", dead_letters=True),
        Expired(**_stamp(), request_id="expire@11"),
        _beat(),
    ]
    done, open_, expiry = _asked("compact", 10), _asked("compact", 12), _asked("expire", 11)
    with_orphans, replay = _asked("expire", 11, orphans=True), _asked("replay", 15)
    assert unreported({}, [done, open_, expiry, replay]) == [open_, replay]
    assert unreported({}, [with_orphans]) == [with_orphans]
    reader.events.append(OrphansRemoved(**_stamp(), request_id="expire@11"))
    assert unreported({}, [with_orphans]) == []


@pytest.mark.parametrize("offset", [None, 9, 12])
def test_a_request_from_outside_the_events_counts_as_done(reader: type[Reader], offset: int | None) -> None:
    """Of an older command, older than retention, or than the control topic itself."""
    reader.events = [_beat()]
    assert unreported({}, [_asked("compact", offset)]) == []
    assert reader.reads == 0
