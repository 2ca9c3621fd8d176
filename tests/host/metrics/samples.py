"""A host for testing its metrics: the test sets its progress, servers and clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from tabletopic_kernel.host.metrics.collector import HostMetrics
from tabletopic_kernel.host.metrics.lags import Lags
from tabletopic_kernel.host.metrics.questions import Question
from tabletopic_kernel.model.commit_cycle import State
from tabletopic_kernel.model.progress.events import Compacted, ControlEvent, HostHeartbeat, Progress

NOW_MS = 1_700_000_000_000


def record(topic: str = "clicks", **more: Any) -> Progress:
    """The progress of a topic that runs."""
    given: dict[str, Any] = {"state": State.RUNNING, "epoch": 3, "commit_interval_ms": 5_000, **more}
    return Progress(topic=topic, table=f"default.{topic}", **given)


@dataclass
class FakeHost:
    """Says what the test set."""

    records: list[Progress] = field(default_factory=list)
    id: str = "host-1"
    is_in_group: bool = True
    is_leaving: bool = False
    has_ended: bool = False
    waits_for: str | None = None
    silence_s: float = 0.1
    dropped_events: int = 0
    hear: Callable[[ControlEvent], None] | None = None
    works_in: dict[str | None, str] = field(default_factory=dict)

    def namespaces(self) -> dict[str | None, str]:
        """By catalog."""
        return self.works_in

    def progress(self) -> list[Progress]:
        """Of its topics."""
        return self.records

    def coordinators(self) -> Iterable[str]:
        """Its topics."""
        return [one.topic for one in self.records]

    def listen(self, hear: Callable[[ControlEvent], None]) -> None:
        """Keep who listens."""
        self.hear = hear


class Clock:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """Now."""
        return self.now_s


class Rig:
    """A collector around a fake host."""

    def __init__(self, *records: Progress) -> None:
        self.host = FakeHost(list(records))
        self.clock = Clock()
        self.lags = Lags()
        self.troubles: dict[str, Exception] = {}
        self.servers = {
            name: Question(name, lambda name=name: self._answer(name), 3, self.clock)
            for name in ("broker", "registry", "catalog")
        }
        self.metrics = HostMetrics(self.host, self.lags, self._servers, lambda: NOW_MS, self.clock)

    def _servers(self) -> dict[tuple[str, str], Question]:
        return {(name, "lake" if name == "catalog" else ""): one for name, one in self.servers.items()}

    def _answer(self, name: str) -> None:
        if name in self.troubles:
            raise self.troubles[name]

    def ask(self) -> None:
        """Ask every server once."""
        for question in self.servers.values():
            question.once()

    def text(self) -> str:
        """What a scrape reads."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self.metrics)
        return generate_latest(registry).decode()

    def value(self, line: str) -> float | None:
        """The value of a sample, by its name and labels as written."""
        found = [
            sample.rpartition(" ")[2] for sample in self.text().splitlines() if sample.startswith(f"{line} ")
        ]
        return float(found[0]) if found else None


HEARTBEAT = HostHeartbeat(
    at_ms=NOW_MS, host="host-1", topics=[], started_ms=NOW_MS, version="1.2", memory_bytes=7 * 10**9
)
STAMP: dict[str, Any] = {"topic": "clicks", "at_ms": NOW_MS, "host": "host-1"}
COMPACTED = Compacted(**STAMP, files_before=9, files=1, bytes_before=900, bytes=800, rows=5, seconds=2.5)
