"""A host as a process that can be killed, be slow, or return late; its coordinators are the real ones."""

from __future__ import annotations

import queue
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tabletopic_kernel.host.coordinator import Coordinator
from tabletopic_kernel.host.maintenance.jobs import Jobs
from tabletopic_kernel.host.services import Services
from tabletopic_kernel.model.commit_cycle import Event, State
from tabletopic_kernel.model.settings.desired import DesiredTopic
from tabletopic_kernel.model.steps import Step
from tests.simulation.faults import Died, Fault
from tests.simulation.kafka import TOPIC, ModelBroker, ModelControl
from tests.simulation.lake import GuardedCatalog
from tests.simulation.reader import BrokenError
from tests.simulation.worker import ModelWorker

if TYPE_CHECKING:
    from tests.simulation.world import World

_MOST_CALLS = 5_000  # of a turn; the longest seen has a few hundred
_CLOSE_MS = 90_000  # a host waits so long for a last commit, and goes on without it


class _Inbox(queue.Queue[Any]):
    """Never waits: virtual time does not pass while a thread sleeps."""

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        return super().get(block=False)


class _ModelJobs(Jobs):
    """Rests for no time: how much CPU time something takes here is chance."""

    def rest(self, cpu_s: float) -> None:
        """Not here."""


class Process:
    """One run of a host, from its start to its death. ``role`` is A or B; the next run is another process."""

    def __init__(self, world: World, role: str, number: int) -> None:
        self.world = world
        self.role = role
        self.name = f"{role}{number}"
        self.alive = True
        self.at: Step | str = "start"  # the step that it reached last
        self._calls = 0  # since its turn began
        self.busy = False  # in the middle of a call, while others go on
        self.holds = False  # whether it believes that the group gave it the topic
        self.faults: list[Fault] = []
        self.workers: list[ModelWorker] = []
        self.tasks: list[tuple[str, Callable[[], None]]] = []
        self.running: Coordinator | None = None
        self._closing: list[tuple[Coordinator, int]] = []  # with the virtual time when nobody waits any more
        self._wish: DesiredTopic | None = None
        self.control = ModelControl()
        call = world.outside.call
        self._services = Services(
            catalog=lambda: GuardedCatalog(world.lake.catalog, call),  # type: ignore[arg-type,return-value]
            spark=lambda: None,  # type: ignore[arg-type,return-value]
            broker=ModelBroker(world.topic, call),  # type: ignore[arg-type]
            registry=world.registry_for(call),  # type: ignore[arg-type]
            control=self.control,  # type: ignore[arg-type]
            host=self.name,
            still_mine=lambda _: self.holds,
            now_ms=lambda: world.now_ms,
            elapsed_ms=lambda: world.now_ms,
            spawn=self._spawn,
            jobs=_ModelJobs(self._spawn, lambda: world.now_ms),
        )

    def _spawn(self, name: str, work: Callable[[], None]) -> None:
        self.tasks.append((name, work))

    def fault_at(self, call: str) -> Fault | None:
        """The armed fault that strikes now, if any; it strikes once."""
        self._calls += 1
        if self._calls > _MOST_CALLS:
            raise BrokenError("the topic does not go on", f"{self.name} asks for {call} again and again")
        for fault in self.faults:
            if fault.call == call:
                if fault.skip == 0:
                    self.faults.remove(fault)
                    return fault
                fault.skip -= 1
                return None
        return None

    @property
    def coordinators(self) -> list[Coordinator]:
        """All that have steps to take: the running one, and those that are being closed."""
        return ([self.running] if self.running else []) + [one for one, _ in self._closing]

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing that it began, or will do later, is left: sweeps, ends of workers."""
        return not self.tasks and all(
            coordinator._schedule._sweep_at_ms is None for coordinator in self.coordinators
        )

    def act(self, what: Callable[[], None]) -> None:
        """Run the product's code as this process; a death in the middle ends it."""
        if not self.alive or self.busy:
            return
        before, self.world.acting, self.busy = self.world.acting, self, True
        self._calls = 0
        try:
            what()
        except Died:
            self.die()
        finally:
            self.world.acting, self.busy = before, False

    def die(self) -> None:
        """kill -9: nothing continues, and nothing is cleaned up."""
        self.alive = False
        self.workers, self.tasks, self.running, self._closing = [], [], None, []

    # -- what a host does

    def poll(self) -> None:
        """Ask the group who has the topic, and read the desired state; as ``Host._loop``."""
        self._bury()
        self.holds = self.world.holder == self.role
        wish = self.world.wish if self.holds else None
        if wish is None:
            self._close()
        elif self.running is None:
            if not self._closing or all(self.world.now_ms > until for _, until in self._closing):
                self._open(wish)
        elif self._wish is not None and (self._wish.settings != wish.settings or self.running.has_died):
            self._close()
        elif wish is not self._wish:
            self._follow(wish)

    def _follow(self, wish: DesiredTopic) -> None:
        """A new message of the same settings, as ``Host._apply`` reads it."""
        before, self._wish = self._wish, wish
        running = self.running
        assert before is not None
        assert running is not None
        if wish.commit_asked_ms > before.commit_asked_ms:
            running.commit_now()
        elif wish.replay is not None and (before.replay is None or wish.replay.id != before.replay.id):
            running.carry_out(wish.replay)
        elif wish.maintenance is not None and wish.maintenance is not before.maintenance:
            running.carry_out(wish.maintenance)
        else:
            running.order(Event.PAUSE if wish.run == "paused" else Event.RESUME)

    def _open(self, wish: DesiredTopic) -> None:
        coordinator = Coordinator(TOPIC, wish.settings, self._services, _Inbox())
        coordinator.order(Event.PAUSE if wish.run == "paused" else Event.START)
        self.running, self._wish = coordinator, wish

    def _close(self) -> None:
        if self.running is not None:
            self.running.order(Event.STOP)
            self._closing.append((self.running, self.world.now_ms + _CLOSE_MS))
            self.running = None

    def _bury(self) -> None:
        self._closing = [one for one in self._closing if one[0].state is not State.STOPPED]
        self.workers = [worker for worker in self.workers if not worker.is_over]

    def step(self, dice: random.Random) -> None:
        """One step of a coordinator's thread, where it has something to do."""
        waiting = [coordinator for coordinator in self.coordinators if coordinator.has_work]
        if waiting:
            step(dice.choice(waiting), self.world)

    def work(self, dice: random.Random) -> None:
        """A turn of a worker."""
        if self.workers:
            dice.choice(self.workers).turn(dice)

    def task(self, dice: random.Random) -> None:
        """A thread started earlier does its work: a sweep, or the end of a worker."""
        if self.tasks:
            name, work = self.tasks.pop(dice.randrange(len(self.tasks)))
            self.world.task(name, work)


def step(coordinator: Coordinator, world: World) -> None:
    """One step; an error that would end the real host's coordinator thread is a finding."""
    if coordinator.has_died:
        return
    try:
        coordinator.step()
    except Exception as error:
        if isinstance(error.__context__, Died):  # a library's clean-up raised over it
            raise error.__context__ from None
        world.reader.crashed(error)
        coordinator._crash(error)
