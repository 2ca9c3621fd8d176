"""The workbench of all faces' tests: it responds from memory, and records what it was asked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyiceberg.manifest import DataFile

from tabletopic_kernel.host.replay.dry_run import ReplayPlan
from tabletopic_kernel.model.errors import UnknownTopicError
from tabletopic_kernel.model.progress import events
from tabletopic_kernel.model.settings.desired import DesiredTopic, MaintenanceRequest, ReplayRequest
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.model.topic_names import SETTINGS_TOPIC
from tabletopic_kernel.query.answer import Answer, TableRead
from tabletopic_kernel.table.compaction.group import Group
from tabletopic_kernel.table.compaction.plan import CompactionPlan
from tabletopic_kernel.table.expiry import ExpiryPlan
from tabletopic_kernel.table.files.drop import TableDrop
from tabletopic_kernel.table.health import TableHealth
from tabletopic_kernel.table.history import SchemaColumn, SchemaVersionInfo, TableSnapshot, TopicSchema
from tabletopic_kernel.workbench.hosts import HostStatus
from tabletopic_kernel.workbench.peek import Fate, PeekedRecord, WrittenBy
from tabletopic_kernel.workbench.peek.letters import LetterGroup, Letters
from tabletopic_kernel.workbench.peek.search import Records
from tabletopic_kernel.workbench.peek.wanted import Looked, Search
from tabletopic_kernel.workbench.plan import Plan, PlanColumn
from tabletopic_kernel.workbench.topics.drop import Drop
from tabletopic_kernel.workbench.topics.rebase import PartitionMove, Rebase
from tabletopic_kernel.workbench.topics.topic import TableTopic
from tabletopic_kernel.workbench.topics.topic_status import TopicStatus
from tabletopic_kernel.workbench.workbench import Servers, Workbench
from tests.faces.health import health

# Methods are those of the workbench, and documented there.

SNAPSHOT = 2**62 + 1  # more than JavaScript's numbers hold


def status(topic: str = "clicks", **more: Any) -> TopicStatus:
    """A running topic, slightly behind; ``more`` replaces fields."""
    fields: dict[str, Any] = {
        "topic": topic, "table": f"default.{topic}", "state": "running", "error": None, "lag_records": 1234,
        "lag_seconds": 2.5, "next_offsets": {0: 100}, "end_offsets": {0: 1334},
        "schema_versions": [{"id": 1, "subject": f"{topic}-value", "version": 3}], "snapshot_id": 42,
        "commits": 7, "rows_per_second": 560.5, "rows": 1_000_000, "files": 12, "staged_rows": 3, "epoch": 2,
        "last_commit_ms": 1_700_000_000_000, "commit_interval_ms": 5000, "host": "here-1",
        "refused": {"avro_trailing_bytes": 5}, "dead_letters": 5,
        "dead_letter_table": f"default.{topic}__dead_letters",
    }  # fmt: skip
    return TopicStatus(**{**fields, **more})


class FakeTopic(TableTopic):
    """One topic of it; its status, wait and events are the real ones."""

    _workbench: FakeWorkbench

    def _ask(self, what: str, *values: Any) -> None:
        self._workbench.ask(what, (self.name, *values) if values else self.name)

    def _outcome(self, *kinds: type[Any]) -> list[Any]:
        return [one for one in self._workbench.told if isinstance(one, kinds)]

    def plan(self, given: Any = None, /, *, schema: Any = None, schema_type: Any = None, **more: Any) -> Plan:
        """A plan with a column; a schema does not quite fit."""
        self._ask("plan", {**(given or {}), **more}, *([schema, schema_type] if schema else []))
        self._workbench.waits()
        if self.name in self._workbench.plans:
            return self._workbench.plans[self.name]
        table = f"default.{self.name}"
        if schema is not None:
            kept = PlanColumn("url", "string", True, None, "kept")
            wrong = {"id": "is int in the table and string in the new schema"}
            return Plan(
                self.name, "default.clicks", False, [kept], incompatible=wrong, registry="it takes it"
            )
        column = PlanColumn("url", "string", True, "<b>the page</b>", "new")
        table = f"default.{self.name}"
        return Plan(self.name, table, True, [column], ["hour(at)"], refused=["it is too late"])

    def enable(self, given: Any = None, /, **more: Any) -> DesiredTopic:
        """Validate the settings, like the real one."""
        wanted = {**(given or {}), **more}
        self._ask("enable", wanted)
        if self.name not in self._workbench.there:
            raise UnknownTopicError(f"there is no topic {self.name!r}")
        desired = DesiredTopic(topic=self.name, settings=self._workbench.settings_for(self.name, wanted))
        self._workbench.on[self.name] = desired
        return desired

    def alter(self, given: Any = None, /, **more: Any) -> DesiredTopic:
        wanted = {**(given or {}), **more}
        self._ask("alter", wanted)
        return DesiredTopic(topic=self.name, settings=self._workbench.settings_for(self.name, wanted))

    def disable(self) -> None:
        self._ask("disable")
        self._workbench.desired_topic(self.name)

    def pause(self) -> DesiredTopic:
        self._ask("pause")
        return DesiredTopic(topic=self.name, run="paused")

    def resume(self, on_truncation: str | None = None) -> DesiredTopic:
        self._ask("resume", *([on_truncation] if on_truncation else []))
        return DesiredTopic(topic=self.name)

    def commit(self) -> None:
        self._ask("commit")
        self._workbench.desired_topic(self.name)

    def replay(self, where: str | None = None, timeout_s: float = 120) -> Any:
        """The outcome set by the test, or None."""
        self._ask("replay", where, timeout_s)
        return next(iter(self._outcome(events.Replayed)), None)

    def ask_for_replay(self, where: str | None = None) -> ReplayRequest:
        self._workbench.desired_topic(self.name)
        self._ask("replay", where)
        return ReplayRequest(id="r1", asked_ms=1, where=where)

    def plan_replay(self, where: str | None = None) -> ReplayPlan:
        """One row, one letter."""
        self._workbench.desired_topic(self.name)
        self._ask("plan_replay", where)
        return ReplayPlan(self.name, letters=2, rows=1, stayed={"bad": 1}, changes=["add a string"])

    def compact(self, where: str | None = None, timeout_s: float = 600) -> Any:
        """Like ``replay``."""
        self._ask("compact", where, timeout_s)
        return next(iter(self._outcome(events.Compacted)), None)

    def plan_compaction(self, where: str | None = None) -> CompactionPlan:
        """One group of two files, and one that stays."""
        self._ask("plan_compaction", where)
        file = DataFile.from_args(record_count=5, file_size_in_bytes=1_000)
        group = Group("day=2026-01-01", (file, file))
        return CompactionPlan((group,), files=7, left={"with deleted rows": 1})

    def rebase(self, *, records: int, dry_run: bool) -> Rebase:
        """Two partitions, one of them empty."""
        self._ask("rebase", records, dry_run)
        moves = [PartitionMove(0, 1_000, 400, 300, 1), PartitionMove(1, 0, 0)]
        return Rebase(self.name, "default.clicks", "old", "new", "t", moves, not dry_run)

    def drop(self, table: str | None = None, *, dry_run: bool = False) -> Drop:
        """A table with files elsewhere, and letters that the catalog's service removes."""
        self._ask("drop", table, dry_run)
        rows = TableDrop("default.clicks", 1_000, 8, 4_000_000, outside=2)
        letters = TableDrop("default.clicks__dead_letters", 5, 0, 0, note="the service removes its files")
        return Drop(self.name, True, [rows, letters], not dry_run)

    def expire(self, *, orphans: bool = False, timeout_s: float = 600) -> Any:
        """Like ``replay``."""
        self._ask("expire", orphans, timeout_s)
        return self._outcome(events.Expired, events.OrphansRemoved) or None

    def plan_expiry(self, *, orphans: bool = False) -> list[ExpiryPlan]:
        """Two snapshots, two files, and an orphan."""
        self._ask("plan_expiry", orphans)
        files, strays = {"file:/a": 1_000, "file:/b": 2_000}, {"file:/c": 5} if orphans else {}
        return [ExpiryPlan(f"default.{self.name}", {1: 1_000, 2: 2_000}, 20, 2_000, files, 3, strays)]

    def ask_for_maintenance(self, work: Any, where: str | None = None, *, orphans: bool = False) -> Any:
        self._ask(work, where, orphans)
        return MaintenanceRequest(id="m1", asked_ms=1, work=work, where=where, orphans=orphans)

    def peek(self, n: int = 20, *, raw: bool = False, **search: Any) -> Records:
        """One record with bytes and nested values, and one that cannot become a row; there are more."""
        given = {name: value for name, value in search.items() if value not in (None, "newest")}
        self._ask("peek", n, *([given] if given else []))
        row = Fate("row", "row of snapshot 5 (committed at noon)", "5", 1)
        header = [{"key": "<b>", "value": b"\x00"}]
        schema = WrittenBy("clicks-value", 2, ["a: struct<b: list<int>>"]) if raw else None
        good = PeekedRecord(
            0, 7, 1, b"\xff", 3, {"a": {"b": [1]}}, None, b"\x00raw", None, header, row, schema
        )
        bad = PeekedRecord(0, 6, 1, None, None, None, "no_schema_id: text", b"text")
        go_on = Search(before="0:6", where=search.get("where"))
        return Records([good, bad][:n], Looked(2, 8, {0: (6, 8)}, "limit", go_on), None)

    def follow(self, **search: Any) -> Iterator[PeekedRecord]:
        yield from self.peek(2, **search)

    def letters(self, where: str | None = None, limit: int = 0) -> Letters:
        self._ask("letters", where, limit)
        hour = 3_600_000
        group = LetterGroup("<b>bad", 5, hour, 3 * hour + 1, {hour: 1, 3 * hour: 4}, "at\nlast")
        return Letters(self.name, "default.clicks__dead_letters", 5, hour, [group], self.peek(limit)[:limit])

    def drop_letters(self, note: str, where: str | None = None, timeout_s: float = 120) -> Any:
        self._ask("drop_letters", note, where)
        return next(iter(self._outcome(events.LettersDropped)), None)

    def ask_for_drop(self, note: str, where: str | None = None) -> MaintenanceRequest:
        self._ask("drop_letters", note, where)
        return MaintenanceRequest(id="m1", asked_ms=1, work="drop_letters", where=where, note=note)

    def schema(self, version: int | None = None) -> TopicSchema:
        self._ask("schema", version)
        columns = [SchemaColumn("url", "string", True, "page")]
        versions = [SchemaVersionInfo(f"{self.name}-value", 1, 5, None)]
        return TopicSchema(self.name, f"default.{self.name}", None, columns, versions)

    def schema_diff(self, v1: int, v2: int) -> list[str]:
        return [f"add x {v1} {v2}"]

    def history(self, limit: int = 50) -> list[TableSnapshot]:
        self._ask("history", limit)
        return [TableSnapshot(SNAPSHOT, 41, 1_700_000_000_000, "append", 5, 1, 900, 10, 2, 0, {0: 10}, 1)]

    def health(self) -> TableHealth:
        self._ask("health")
        return health(self.name, **self._workbench.health)


class FakeWorkbench(Workbench):
    """Responds with its attributes; questions and orders raise ``error`` if there is one."""

    broker: Any = SimpleNamespace(topics=lambda: [SETTINGS_TOPIC])

    def __init__(self, folder: Path, **more: Any) -> None:
        self.settings = Settings(state_dir=str(folder))
        # With secrets in their properties.
        catalog = {"name": "lake", "uri": "sqlite:////x/c.db", "s3.secret-access-key": "hidden-key"}
        kafka = {"bootstrap.servers": "127.0.0.1:9092"}
        prod = {"name": "prod", "type": "rest", "credential": "hidden-id"}
        registry = {"url": "http://u:hidden-word@127.0.0.1:8081"}
        self.servers = Servers(kafka, registry, catalog, folder, catalogs={"prod": prod})
        self.found = [status()]
        self.on = {"clicks": DesiredTopic(topic="clicks")}
        self.there = {"clicks": 4, "web.orders": 1}
        self.live = ["here-1"]
        self.told: list[events.ControlEvent] = []
        self.newest: list[Any] = [events.CommitFailed(topic="clicks", at_ms=0, reason="<script>")]
        self.health: dict[str, Any] = {}
        self.answer = Answer(pa.table({"n": [1, 2]}), (TableRead("default.clicks", 42, 1_700_000_000_000),))
        self.error: BaseException | None = None
        self.waits: Callable[[], object] = bool
        self.coming: list[TopicStatus | BaseException] = []  # statuses in turn, instead of ``found``
        self.asked: list[tuple[str, Any]] = []
        self.plans: dict[str, Plan] = {}
        vars(self).update(more)

    def ask(self, what: str, value: Any = None) -> None:
        """Record a call, or raise the error."""
        self.asked.append((what, value))
        self.fail()

    def fail(self) -> None:
        """Raise the error."""
        if self.error is not None:
            raise self.error

    def topic(self, name: str) -> TableTopic:
        return FakeTopic(name, self)

    def catalog_of(self, name: str | None) -> Any:
        """Nobody reads it."""

    def kafka_topics(self) -> dict[str, int]:
        self.fail()
        return dict(self.there)

    def desired_topics(self) -> dict[str, DesiredTopic]:
        self.fail()
        return dict(self.on)

    def table_of(self, topic: str) -> str:
        return f"default.{topic}"

    def status(self, topic: str | None = None) -> list[TopicStatus]:
        self.ask("status", topic)
        if self.coming:
            now = self.coming.pop(0) if len(self.coming) > 1 else self.coming[0]
            if isinstance(now, BaseException):
                raise now
            return [now]
        chosen = [one for one in self.found if topic in (None, one.topic)]
        if topic is not None and not chosen:
            raise UnknownTopicError(f"{topic} is not enabled")
        return chosen

    def statuses(self, desired_topics: Mapping[str, DesiredTopic]) -> list[TopicStatus]:
        known = {one.topic: one for one in self.found}
        return [known.get(topic) or status(topic) for topic in desired_topics]

    def hosts(self) -> list[str]:
        return self.live

    def host_statuses(self) -> list[HostStatus]:
        return [HostStatus(host, ["clicks"], 1_700_000_000_000, "1.2.3", 2**30) for host in self.live]

    def events(
        self, topic: str | None = None, since_ms: int | None = None, follow: Callable[[], bool] | None = None
    ) -> Iterator[events.ControlEvent]:
        """The events set by the test."""
        self.ask("events", (topic, since_ms, follow is not None))
        yield from self.told

    def newest_events(self, topic: str | None = None, limit: int = 50) -> list[Any]:
        self.ask("events", (topic, limit))
        return self.newest[:limit]

    def query(self, sql: str, engine: str = "duckdb", **more: Any) -> Answer:
        """The answer, cut to the limit."""
        self.ask("query", (sql, engine, more))
        rows, limit = self.answer.rows, more.get("limit")
        is_cut = limit is not None and rows.num_rows > limit
        return dataclasses.replace(
            self.answer, rows=rows.slice(0, limit), truncated=self.answer.truncated or is_cut
        )
