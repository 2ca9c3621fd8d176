"""The table topics that run on a host, and what starts, changes and ends them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tabletopic_kernel.host.coordinator import Coordinator
from tabletopic_kernel.host.services import Services
from tabletopic_kernel.host.topics.settings_topic import SettingsMessage
from tabletopic_kernel.model.commit_cycle import Event, State
from tabletopic_kernel.model.progress import events
from tabletopic_kernel.model.settings.desired import DesiredTopic, Request

CLOSE_S = 90.0  # for the last commit of a topic that is handed over


@dataclass
class _Topic:
    """A host's state of one of its topics.

    ``commit_asked_ms`` and ``requests`` (ids) are those already acted on. ``reopen``: the desired state for
    the next coordinator, which the next poll opens.
    """

    partition: int  # of the settings topic
    coordinator: Coordinator | None = None
    commit_asked_ms: int = 0
    requests: set[str] = field(default_factory=set)
    run: str = "on"  # or paused, as last ordered
    reported: State | None = None
    reopen: DesiredTopic | None = None


class RunningTopics:
    """A host's topics. Only the host's thread changes them; ``_lock`` guards the dictionary."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._lock = threading.Lock()
        self._topics: dict[str, _Topic] = {}

    def of_partitions(self, partitions: set[int] | None) -> list[str]:
        """Names of the topics in these partitions of the settings topic; None: of all."""
        return [
            name
            for name, topic in self._topics.items()
            if partitions is None or topic.partition in partitions
        ]

    def partition_of(self, name: str) -> int | None:
        """The settings partition of a topic; None if it does not run here."""
        topic = self._topics.get(name)
        return topic.partition if topic else None

    def changed(self, record: events.Progress) -> bool:
        """Whether a topic's state has changed since the last call."""
        topic = self._topics[record.topic]
        last, topic.reported = topic.reported, record.state
        return last is not record.state

    def coordinators(self) -> dict[str, Coordinator]:
        with self._lock:
            return {name: entry.coordinator for name, entry in self._topics.items() if entry.coordinator}

    def namespaces(self) -> dict[str | None, str]:
        """For each catalog of this host's topics, a namespace they use; None: the default one."""
        return {
            coordinator.settings.catalog: coordinator.settings.namespace
            for coordinator in reversed(self.coordinators().values())
        }

    def apply(self, change: SettingsMessage, partition: int, before: Sequence[Request] = ()) -> None:
        """Run a topic as desired; ``before``: requests that an earlier owner may have carried out."""
        name, desired = change.topic, change.desired
        topic = self._topics.get(name)
        running = topic.coordinator if topic else None
        if running is not None:
            running.notice(change.refused)
        if desired is None:
            if change.refused is None:
                self.close([name])
            return
        if topic is None or running is None:
            requests = {request.id: request for request in (*before, *desired.requests)}
            known = _Topic(partition, None, desired.commit_asked_ms, set(requests))
            self._open(name, known, desired, change.refused).inherit(list(requests.values()))
        elif running.settings != desired.settings or running.has_died:
            self.close([name])
            self._keep(name, replace(topic, coordinator=None, reopen=desired))
        elif not self._carry_out(desired, topic, running) or desired.run != topic.run:
            # A request alone must not resume a topic that failed.
            topic.run = desired.run
            running.order(Event.PAUSE if desired.run == "paused" else Event.RESUME)

    @staticmethod
    def _carry_out(desired: DesiredTopic, topic: _Topic, running: Coordinator) -> bool:
        """Pass on all new requests (a message may have several); returns whether there were any."""
        # A different time, not a later one: clocks of programs differ, and may be set back.
        commits = desired.commit_asked_ms not in (0, topic.commit_asked_ms)
        if commits:
            topic.commit_asked_ms = desired.commit_asked_ms
            running.commit_now()
        new = [request for request in desired.requests if request.id not in topic.requests]
        for request in new:
            topic.requests.add(request.id)
            running.carry_out(request)
        return commits or bool(new)

    def open_again(self) -> None:
        """Reopen topics, after a poll: closing may have taken so long that another host has them now."""
        for name, topic in list(self._topics.items()):
            if topic.reopen is not None:
                self._open(name, topic, topic.reopen)

    def _open(
        self, name: str, known: _Topic, desired: DesiredTopic, refused: str | None = None
    ) -> Coordinator:
        services = self._services.of(desired.settings.catalog)
        coordinator = Coordinator(name, desired.settings, services)
        coordinator.notice(refused)
        topic = replace(known, coordinator=coordinator, run=desired.run, reported=None, reopen=None)
        self._keep(name, topic)
        coordinator.start(paused=desired.run == "paused")
        self._carry_out(desired, topic, coordinator)
        return coordinator

    def _keep(self, name: str, topic: _Topic) -> None:
        with self._lock:
            self._topics[name] = topic

    def close(self, names: list[str]) -> None:
        """Close several topics concurrently; each commits its staged files."""
        with self._lock:
            closing = [self._topics.pop(name, None) for name in names]
        _together([entry.coordinator.close for entry in closing if entry and entry.coordinator])


def _together(calls: list[Callable[[float], bool]]) -> None:
    threads = [threading.Thread(target=call, args=(CLOSE_S,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
