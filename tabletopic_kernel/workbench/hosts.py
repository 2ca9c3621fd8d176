"""The live hosts: the members of the hosts' group, with their latest reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.host.topics.control_topic import read_events
from tabletopic_kernel.local.machine import now_ms
from tabletopic_kernel.model.progress.events import ControlEvent, Heartbeat, HostHeartbeat
from tabletopic_kernel.model.progress.progress_view import FRESH_MS
from tabletopic_kernel.model.topic_names import CONTROL_TOPIC, HOSTS_GROUP


@dataclass(frozen=True)
class HostStatus:
    """A live host, as in ``hosts --json``. None: the host's version does not report it.

    ``topics``: the table topics that the host runs, by name. ``memory_bytes``: resident memory of its process
    and all descendants; shared pages count once for each.
    """

    host: str
    topics: list[str]
    started_ms: int | None = None
    version: str | None = None
    memory_bytes: int | None = None


def live_hosts(broker: Broker) -> list[str]:
    """The ids of the live hosts, sorted."""
    return sorted(client for client, _ in broker.group_members(HOSTS_GROUP))


def host_statuses(broker: Broker) -> list[HostStatus]:
    """The status of each live host, by id."""
    events: Iterator[ControlEvent] = iter(())
    if CONTROL_TOPIC in broker.topics():
        events = read_events(broker.properties, now_ms() - FRESH_MS)
    return fold_hosts(live_hosts(broker), events)


def fold_hosts(live: Iterable[str], events: Iterable[ControlEvent]) -> list[HostStatus]:
    """The live hosts' status, from events, oldest first; older versions report only their topics."""
    newest: dict[str, HostHeartbeat] = {}
    topics: dict[str, set[str]] = {}
    for event in events:
        if isinstance(event, HostHeartbeat):
            newest[event.host] = event
        elif isinstance(event, Heartbeat):
            topics.setdefault(event.host, set()).add(event.topic)
    statuses = []
    for host in sorted(set(live)):
        if (last := newest.get(host)) is None:
            statuses.append(HostStatus(host, sorted(topics.get(host, ()))))
        else:
            about = last.started_ms, last.version, last.memory_bytes
            statuses.append(HostStatus(host, sorted(last.topics), *about))
    return statuses
