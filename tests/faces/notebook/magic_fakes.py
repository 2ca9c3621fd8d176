"""A workbench for the magics that responds from memory; the topic handles are the real ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from tabletopic_kernel.model.progress import events
from tabletopic_kernel.model.settings.desired import DesiredTopic
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.query.answer import Answer, TableRead
from tabletopic_kernel.workbench.plan import Plan, PlanColumn
from tabletopic_kernel.workbench.status import TopicStatus
from tabletopic_kernel.workbench.workbench import Servers, Workbench
from tests.faces.asked_workbench import AskedWorkbench


def status(**more: Any) -> TopicStatus:
    """A running topic, slightly behind; ``more`` replaces fields."""
    fields: dict[str, Any] = {
        "topic": "clicks",
        "table": "default.clicks",
        "state": "running",
        "error": None,
        "lag_records": 1234,
        "lag_seconds": 2.5,
        "next_offsets": {0: 100},
        "end_offsets": {0: 1334},
        "schema_versions": [{"id": 1, "subject": "clicks-value", "version": 3}],
        "snapshot_id": 42,
        "commits": 7,
        "rows_per_second": 560.5,
        "rows": 1_000_000,
        "files": 12,
        "staged_rows": 3,
        "epoch": 2,
        "last_commit_ms": 1_700_000_000_000,
        "commit_interval_ms": 5000,
        "host": "here-1",
        "refused": {"avro_trailing_bytes": 5},
        "dead_letters": 5,
        "dead_letter_table": "default.clicks__dead_letters",
    }
    return TopicStatus(**{**fields, **more})


class FakeWorkbench(AskedWorkbench, Workbench):
    """Responds with its attributes; ``asked`` records its calls."""

    def __init__(self, folder: Path) -> None:
        self.settings = Settings(state_dir=str(folder))
        self.servers = Servers({"bootstrap.servers": "here:9092"}, {}, {"name": "lake"}, folder)
        self.found = [status()]
        self.live = ["elsewhere-1-ab"]
        self.answer = Answer(pa.table({"n": [1, 2]}), (TableRead("default.clicks", 42, 1_700_000_000_000),))
        self.error: Exception | None = None
        self.asked: list[tuple[str, Any]] = []

    def kafka_topics(self) -> dict[str, int]:
        """Two topics, one of them not enabled."""
        return {"clicks": 4, "web.orders": 1}

    def plan(
        self,
        topic: str,
        given: Mapping[str, Any] | None = None,
        *,
        schema: str | Path | None = None,
        schema_type: str | None = None,
    ) -> Plan:
        """A plan with a column; a schema does not quite fit."""
        self._ask("plan", (topic, dict(given or {}), *([schema, schema_type] if schema else [])))
        if schema is not None:
            kept = PlanColumn("url", "string", True, None, "kept")
            wrong = {"id": "is int in the table and string in the new schema"}
            return Plan(topic, "default.clicks", False, [kept], incompatible=wrong, registry="it takes it")
        column = PlanColumn("url", "string", True, "<b>the page</b>", "new")
        return Plan(topic, f"default.{topic}", True, [column], ["hour(at)"], refused=["it is too late"])

    def alter(self, topic: str, given: Mapping[str, Any]) -> DesiredTopic:
        """Validate the settings, like the real one."""
        self._ask("alter", (topic, dict(given)))
        return DesiredTopic(topic=topic, settings=self.settings_for(topic, given))

    def enable(self, topic: str, given: Mapping[str, Any] | None = None) -> DesiredTopic:
        """Validate the settings, like the real one."""
        self._ask("enable", (topic, dict(given or {})))
        return DesiredTopic(topic=topic, settings=self.settings_for(topic, given))

    def commit(self, topic: str) -> None:
        """Commit now."""
        self._ask("commit", topic)

    def desired_topics(self) -> dict[str, DesiredTopic]:
        """One is enabled."""
        self._ask("desired_topics")
        return {"clicks": DesiredTopic(topic="clicks")}

    def newest_events(self, topic: str | None = None, limit: int = 50) -> list[events.ControlEvent]:
        """One commit failed."""
        self._ask("events", (topic, limit))
        return [events.CommitFailed(topic="clicks", at_ms=0, reason="<script>")]

    def query(self, sql: str, engine: str = "duckdb", **more: Any) -> Answer:
        """The answer."""
        self._ask("query", (sql, engine, more))
        return self.answer
