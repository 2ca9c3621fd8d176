"""A coordinator by itself: the worker is a stand-in, and the test takes the steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyiceberg.catalog import Catalog

from tabletopic_kernel.host import schedule
from tabletopic_kernel.host.coordinator import Coordinator
from tabletopic_kernel.host.maintenance.jobs import Jobs
from tabletopic_kernel.host.ownership import actions
from tabletopic_kernel.host.services import Services, in_a_thread
from tabletopic_kernel.model.commit_cycle import Event, State
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table.topic_table import TopicTable
from tests.table.samples import IDENTIFIER, TOPIC, FakeBroker, FakeControl, FakeRegistry, FlakyCatalog, batch


class FakeWorker:
    """Stages what and when the test says."""

    made: list[FakeWorker] = []  # noqa: RUF012 - reset by the fixture

    waits_s: float | None = None
    cluster_waits: str | None = None
    staging_records: int = 0

    def __init__(self, _spark: Any, spec: Any, plan: Any, listener: Any, *_turns: Any) -> None:
        self.spec, self.plan, self.listener = spec, plan, listener
        self.stopping = False
        self.asked: list[dict[int, int]] = []
        FakeWorker.made.append(self)

    def start(self) -> None:
        """Nothing to start."""

    def rest(self, seconds: float) -> None:
        """Batches are staged by hand."""

    def read_up_to(self, ends: Any) -> None:
        """Record the request; the test stages it, or not."""
        self.asked.append(dict(ends))

    def wind_down(self) -> None:
        """Like the real one: no more batches begin."""
        self.stopping = True

    def stop(self) -> None:
        """Nothing to wait for."""
        self.stopping = True


_WORKER_ENDS = (State.DRAINING, State.DROPPING)  # in a thread, which reports it


def spawn(name: str, work: Callable[[], None]) -> None:
    """Run maintenance at once, as part of a step, and the rest in threads, as a host does."""
    if name == "maintenance":
        work()
    else:
        in_a_thread(name, work)


def _no_other(catalog: str) -> Any:
    pytest.fail(f"nobody asks for {catalog}")


@dataclass
class Rig:
    """A coordinator whose clock and environment the test controls."""

    catalog: FlakyCatalog
    broker: FakeBroker = field(default_factory=FakeBroker)
    registry: FakeRegistry = field(default_factory=FakeRegistry)
    control: FakeControl = field(default_factory=FakeControl)
    now_ms: int = 1_000_000
    set_by_ms: int = 0  # by how much somebody has set the clock
    mine: bool = True
    spawn: Callable[[str, Callable[[], None]], None] = spawn
    open_other: Callable[[str], Any] = _no_other

    def open_catalog(self) -> FlakyCatalog:
        """The result of opening the catalog."""
        return self.catalog

    def services(self) -> Services:
        """What a coordinator works with."""

        def elapsed_ms() -> int:
            return self.now_ms

        return Services(
            catalog=self.open_catalog,  # type: ignore[arg-type]
            spark=lambda: None,  # type: ignore[arg-type,return-value]
            broker=self.broker,  # type: ignore[arg-type]
            registry=self.registry,  # type: ignore[arg-type]
            control=self.control,  # type: ignore[arg-type]
            host="test",
            still_mine=lambda _: self.mine,
            now_ms=lambda: self.now_ms + self.set_by_ms,
            elapsed_ms=elapsed_ms,
            spawn=self.spawn,
            jobs=Jobs(self.spawn, elapsed_ms),
            other_catalog=lambda name: self.open_other(name),  # noqa: PLW0108 - the test may set it later
            other_spark=lambda _: None,  # type: ignore[arg-type,return-value]
        )

    def make(self, **settings: Any) -> Coordinator:
        """A coordinator; its thread is not started, the test takes the steps."""
        made = TopicSettings(**settings)
        return Coordinator(TOPIC, made, self.services().of(made.catalog))

    def running(self, **settings: Any) -> Coordinator:
        """A coordinator that has taken over its topic."""
        coordinator = self.make(**settings)
        coordinator.order(Event.START)
        drain(coordinator)
        assert coordinator.state is State.RUNNING, coordinator.progress().error
        return coordinator

    @property
    def worker(self) -> FakeWorker:
        """The newest worker."""
        return FakeWorker.made[-1]

    def stage(self, start: int, end: int, *, epoch: int = 1) -> None:
        """Have the worker stage offsets of partition 0."""
        self.worker.listener.staged(batch(self.table, start, end, epoch=epoch))

    def staged(self, coordinator: Coordinator, start: int, end: int, *, epoch: int = 1) -> None:
        """The same, and the coordinator has taken the batch."""
        self.stage(start, end, epoch=epoch)
        drain(coordinator)

    def after(self, ms: int, coordinator: Coordinator, until: State | None = None) -> None:
        """What the coordinator does once this time has passed."""
        self.now_ms += ms
        drain(coordinator, until=until)

    @property
    def table(self) -> TopicTable:
        """The table as another process sees it."""
        found = TopicTable.load(self.catalog.real, IDENTIFIER, TOPIC)
        assert found is not None
        return found

    def rows(self) -> int:
        """Rows in the table."""
        return self.table.table.scan().count()

    def offset(self) -> int:
        """The table's next offset of partition 0."""
        ledger = self.table.ledger
        return ledger.next_offsets[0]


def order(coordinator: Coordinator, event: Event, until: State | None = None) -> None:
    """Order something, and take the steps that it asks for."""
    coordinator.order(event)
    drain(coordinator, until=until)


def drain(coordinator: Coordinator, *, until: Callable[[], bool] | State | None = None) -> None:
    """Take steps until nothing waits, and no worker's end; bounded, so that an endless loop fails."""

    def is_over() -> bool:
        if callable(until):
            return until()
        return coordinator.state is until if until else coordinator.state not in _WORKER_ENDS

    steps, deadline = 0, time.monotonic() + 240
    while steps < 200 and time.monotonic() < deadline:
        is_idle = not coordinator.has_work
        if is_idle and is_over():
            return
        steps += not is_idle  # to wait for another thread is no step
        coordinator.step()
    pytest.fail(f"it does not settle: {coordinator}")


def made_rig(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> Rig:
    """Everything around a coordinator."""
    monkeypatch.setattr(FakeWorker, "made", [])
    monkeypatch.setattr(actions, "Worker", FakeWorker)
    monkeypatch.setattr(schedule, "_IDLE_WAIT_S", 0.01)
    return Rig(FlakyCatalog(catalog))
