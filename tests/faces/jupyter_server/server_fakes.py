"""A workbench without servers."""

# Methods are those of the workbench, and documented there.
# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyiceberg.manifest import DataFile

from tabletopic_kernel.host.replay.dry_run import ReplayPlan
from tabletopic_kernel.model.errors import TableTopicError, UnknownTopicError
from tabletopic_kernel.model.progress.events import Committed, ControlEvent, Enabled, Progress
from tabletopic_kernel.model.settings.desired import DesiredTopic, MaintenanceRequest, ReplayRequest
from tabletopic_kernel.model.settings.sections import Settings, TopicSettings
from tabletopic_kernel.model.topic_names import SETTINGS_TOPIC
from tabletopic_kernel.table.compaction.group import Group
from tabletopic_kernel.table.compaction.plan import CompactionPlan
from tabletopic_kernel.table.expiry import ExpiryPlan
from tabletopic_kernel.table.history import SchemaColumn, SchemaVersionInfo, TableSnapshot, TopicSchema
from tabletopic_kernel.workbench.hosts import HostStatus
from tabletopic_kernel.workbench.plan import Plan, PlanColumn
from tabletopic_kernel.workbench.status import TopicStatus
from tabletopic_kernel.workbench.workbench import Servers

# More than JavaScript's numbers hold.
SNAPSHOT = 2**62 + 1


def status(topic: str, **more: Any) -> TopicStatus:
    """The status of a running topic."""
    plain: dict[str, Any] = {
        "topic": topic,
        "table": f"default.{topic}",
        "state": "running",
        "error": None,
        "lag_records": 3,
        "lag_seconds": 1.5,
        "next_offsets": {0: 7},
        "end_offsets": {0: 10},
        "schema_versions": [
            {"id": 1, "subject": f"{topic}-value", "version": 1},
            {"id": 4, "subject": f"{topic}-value", "version": 2},
        ],
        "snapshot_id": SNAPSHOT,
        "commits": 2,
        "rows_per_second": 5.0,
        "rows": 7,
        "files": 1,
        "staged_rows": 0,
        "epoch": 1,
        "last_commit_ms": 1_700_000_000_000,
        "commit_interval_ms": 5_000,
        "host": "h-1-abcd",
    }
    return TopicStatus(**{**plain, **more})


@dataclass
class FakeWorkbench:
    """Responds at once. Queries and orders raise ``trouble``; ``waits`` is called in each plan."""

    topics_there: dict[str, int] = field(default_factory=lambda: {"clicks": 4, "web.orders/ü": 1})
    on: dict[str, DesiredTopic] = field(default_factory=dict)
    live: list[str] = field(default_factory=list)
    trouble: TableTopicError | None = None
    waits: Callable[[], object] = bool
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    settings: Settings = field(default_factory=Settings)
    servers: Servers = field(
        default_factory=lambda: Servers(
            {"bootstrap.servers": "127.0.0.1:9"}, {"url": "http://me:pw@127.0.0.1:8"}, {}, Path()
        )
    )
    broker: Any = field(default_factory=lambda: SimpleNamespace(topics=lambda: [SETTINGS_TOPIC]))

    def catalog_of(self, name: str | None) -> Any:
        """Nobody reads it."""

    def _check(self, *asked: Any) -> None:
        self.asked.append(asked)
        if self.trouble is not None:
            raise self.trouble

    def desired_topics(self) -> dict[str, DesiredTopic]:
        self._check("desired_topics")
        return dict(self.on)

    def desired_topic(self, topic: str) -> DesiredTopic:
        if topic not in self.desired_topics():
            raise UnknownTopicError(f"{topic} is not enabled")
        return self.on[topic]

    def kafka_topics(self) -> dict[str, int]:
        self._check("kafka_topics")
        return dict(self.topics_there)

    def hosts(self) -> list[str]:
        return list(self.live)

    def host_statuses(self) -> list[HostStatus]:
        return [HostStatus(host, ["clicks"], 1_700_000_000_000, "1.2.3", 2**30) for host in self.live]

    def table_of(self, topic: str) -> str:
        return f"default.{topic}"

    def enable(self, topic: str, given: dict[str, Any]) -> DesiredTopic:
        self._check("enable", topic, given)
        if topic not in self.topics_there:
            raise UnknownTopicError(f"there is no topic {topic!r}")
        self.on[topic] = DesiredTopic(topic=topic, settings=TopicSettings.model_validate(given))
        return self.on[topic]

    def plan(self, topic: str, given: dict[str, Any]) -> Plan:
        self._check("plan", topic, given)
        self.waits()
        return Plan(topic, f"default.{topic}", True, [PlanColumn("id", "long", True, None, "new")])

    def disable(self, topic: str) -> None:
        self.desired_topic(topic)
        del self.on[topic]

    def pause(self, topic: str) -> None:
        self.desired_topic(topic)
        self.asked.append(("pause", topic))

    def resume(self, topic: str) -> None:
        self.desired_topic(topic)
        self.asked.append(("resume", topic))

    def commit(self, topic: str) -> None:
        self.desired_topic(topic)
        self.asked.append(("commit", topic))

    def plan_replay(self, topic: str, where: str | None) -> ReplayPlan:
        self.desired_topic(topic)
        self._check("plan_replay", topic, where)
        return ReplayPlan(topic, 5, 3, {"no_schema_id": 2}, ["add price decimal(9, 2)"])

    def plan_compaction(self, topic: str, where: str | None) -> CompactionPlan:
        self.desired_topic(topic)
        self._check("plan_compaction", topic, where)
        file = DataFile.from_args(record_count=5, file_size_in_bytes=1_000)
        return CompactionPlan((Group("", (file, file)),), files=7, left={"with deleted rows": 1})

    def ask_for_compaction(self, topic: str, where: str | None) -> MaintenanceRequest:
        self.desired_topic(topic)
        self._check("compact", topic, where)
        return MaintenanceRequest(id="c1", asked_ms=1, work="compact", where=where)

    def plan_expiry(self, topic: str, *, orphans: bool) -> list[ExpiryPlan]:
        self.desired_topic(topic)
        self._check("plan_expiry", topic, orphans)
        return [ExpiryPlan("default.clicks", {1: 1_000}, 20, 2_000, {"file:/a": 1_000}, 0, {})]

    def ask_for_maintenance(self, topic: str, work: Any, *, orphans: bool) -> MaintenanceRequest:
        self.desired_topic(topic)
        self._check(work, topic, orphans)
        return MaintenanceRequest(id="m1", asked_ms=1, work=work, orphans=orphans)

    def ask_for_replay(self, topic: str, where: str | None) -> ReplayRequest:
        self.desired_topic(topic)
        self._check("replay", topic, where)
        return ReplayRequest(id="r1", asked_ms=1, where=where)

    def topic(self, name: str) -> FakeTopic:
        return FakeTopic(name, self)


@dataclass
class FakeTopic:
    """One topic of it."""

    name: str
    workbench: FakeWorkbench

    def status(self) -> TopicStatus:
        self.workbench.desired_topic(self.name)
        return status(self.name)

    def events(self, limit: int) -> list[ControlEvent]:
        self.workbench._check("events", self.name, limit)
        progress = Progress(topic=self.name, table="t", snapshot_id=SNAPSHOT)
        committed = Committed(
            topic=self.name,
            at_ms=2,
            snapshot_id=SNAPSHOT,
            rows=7,
            files=1,
            bytes=9,
            seconds=0.1,
            progress=progress,
        )
        return [committed, Enabled(topic=self.name, at_ms=1, epoch=1, next_offsets={0: 0})][:limit]

    def schema(self, version: int | None) -> TopicSchema:
        columns = [SchemaColumn("id", "long", True, None)]
        versions = [SchemaVersionInfo(f"{self.name}-value", 1, 1, 0)]
        return TopicSchema(self.name, f"default.{self.name}", None, columns, versions)

    def history(self, limit: int) -> list[TableSnapshot]:
        self.workbench._check("history", self.name, limit)
        return [TableSnapshot(SNAPSHOT, None, 1, "append", 7, 1, 9, 7, 1, 0, {0: 7}, 1)]
