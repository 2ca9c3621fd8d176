"""The program with a workbench that responds from memory."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFile

from tabletopic_kernel.faces.cli import main
from tabletopic_kernel.host.replay.dry_run import ReplayPlan
from tabletopic_kernel.model.errors import UnknownTopicError
from tabletopic_kernel.model.progress import events
from tabletopic_kernel.model.settings.desired import DesiredTopic
from tabletopic_kernel.model.settings.sections import Settings, TopicSettings
from tabletopic_kernel.query.answer import Answer, TableRead
from tabletopic_kernel.table.compaction.group import Group
from tabletopic_kernel.table.compaction.plan import CompactionPlan
from tabletopic_kernel.table.expiry import ExpiryPlan
from tabletopic_kernel.workbench.status import TopicStatus
from tabletopic_kernel.workbench.workbench import Servers
from tests.faces.asked_workbench import AskedWorkbench


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Each call of the program silences libraries; in a separate process that would end with it."""
    root = logging.getLogger()
    before = root.handlers[:]
    yield
    for handler in set(root.handlers) - set(before):
        root.removeHandler(handler)


STATUS = TopicStatus(
    topic="clicks",
    table="default.clicks",
    state="running",
    error=None,
    lag_records=1234,
    lag_seconds=2.5,
    next_offsets={0: 100, 1: 200},
    end_offsets={0: 1334, 1: 200},
    schema_versions=[{"id": 1, "subject": "clicks-value", "version": 1}],
    snapshot_id=42,
    commits=7,
    rows_per_second=560.5,
    rows=1_000_000,
    files=12,
    staged_rows=3,
    epoch=2,
    last_commit_ms=1_700_000_000_000,
    commit_interval_ms=5000,
    host="here-1",
)


@dataclass
class FakeWorkbench(AskedWorkbench):
    """The commands' workbench, from memory; ``asked`` records the calls."""

    settings: Settings
    found: list[TopicStatus] = field(default_factory=lambda: [STATUS])
    told: list[events.ControlEvent] = field(default_factory=list)
    live: list[str] = field(default_factory=lambda: ["here-1"])
    answer: Answer = field(default_factory=lambda: Answer(pa.table({"n": [1]})))
    error: BaseException | None = None
    asked: list[tuple[str, Any]] = field(default_factory=list)

    @property
    def servers(self) -> Servers:
        """Servers with secrets in their properties."""
        catalog = {"name": "lake", "uri": "sqlite:////x/c.db", "s3.secret-access-key": "hidden-key"}
        kafka = {"bootstrap.servers": "127.0.0.1:9092"}
        prod = {"name": "prod", "type": "rest", "credential": "hidden-id"}
        registry = {"url": "http://u:hidden-word@127.0.0.1:8081"}
        folder = Path(self.settings.state_dir)
        return Servers(kafka, registry, catalog, folder, catalogs={"prod": prod})

    def enable(self, topic: str, given: Mapping[str, Any]) -> DesiredTopic:
        """Validate the settings, like the real one."""
        self._ask("enable", (topic, dict(given)))
        return DesiredTopic(topic=topic, settings=TopicSettings.model_validate(dict(given)))

    def replay(self, topic: str, where: str | None, *, timeout_s: float) -> events.Replayed | None:
        """The outcome set by the test, or None."""
        self._ask("replay", (topic, where, timeout_s))
        return next((one for one in self.told if isinstance(one, events.Replayed)), None)

    def plan_replay(self, topic: str, where: str | None) -> ReplayPlan:
        """One row, one letter."""
        self._ask("plan_replay", (topic, where))
        return ReplayPlan(topic, letters=2, rows=1, stayed={"bad": 1}, changes=["add a string"])

    def compact(self, topic: str, where: str | None, *, timeout_s: float) -> events.Compacted | None:
        """Like ``replay``."""
        self._ask("compact", (topic, where, timeout_s))
        return next((one for one in self.told if isinstance(one, events.Compacted)), None)

    def plan_compaction(self, topic: str, where: str | None) -> CompactionPlan:
        """One group of two files, and one that stays."""
        self._ask("plan_compaction", (topic, where))
        file = DataFile.from_args(record_count=5, file_size_in_bytes=1_000)
        group = Group("day=2026-01-01", (file, file))
        return CompactionPlan((group,), files=7, left={"with deleted rows": 1})

    def expire(
        self, topic: str, *, orphans: bool, timeout_s: float
    ) -> list[events.Expired | events.OrphansRemoved] | None:
        """Like ``replay``."""
        self._ask("expire", (topic, orphans, timeout_s))
        return [one for one in self.told if isinstance(one, events.Expired | events.OrphansRemoved)] or None

    def plan_expiry(self, topic: str, *, orphans: bool) -> list[ExpiryPlan]:
        """Two snapshots, two files, and an orphan."""
        self._ask("plan_expiry", (topic, orphans))
        files, strays = {"file:/a": 1_000, "file:/b": 2_000}, {"file:/c": 5} if orphans else {}
        return [ExpiryPlan(f"default.{topic}", {1: 1_000, 2: 2_000}, 20, 2_000, files, 3, strays)]

    def events(
        self, topic: str | None, since_ms: int | None, follow: Callable[[], bool] | None
    ) -> Iterator[events.ControlEvent]:
        """The events set by the test."""
        self._ask("events", (topic, since_ms, follow is not None))
        yield from self.told

    def check_known(self, topic: str | None) -> None:
        """Like the real one: there is only the topic ``clicks``."""
        if topic not in (None, "clicks"):
            raise UnknownTopicError(f"{topic} is not enabled, and Kafka has no such topic; enabled: clicks")

    def query(self, sql: str, engine: str, *, at: str | None, limit: int | None) -> Answer:
        """The answer, cut to the limit."""
        self._ask("query", (sql, engine, at, limit))
        more = limit is not None and self.answer.rows.num_rows > limit
        return dataclasses.replace(self.answer, rows=self.answer.rows.slice(0, limit), truncated=more)


@dataclass(frozen=True)
class Outcome:
    """The exit code and output of a call."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Stdout as JSON: there must be nothing else."""
        return json.loads(self.out)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeWorkbench:
    """The workbench that the program finds; settings come from an empty folder."""
    monkeypatch.chdir(tmp_path)
    bench = FakeWorkbench(Settings(state_dir=str(tmp_path / "state")))
    monkeypatch.setattr("tabletopic_kernel.workbench.workbench.Workbench", lambda settings: bench)
    return bench


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], fake: FakeWorkbench) -> Callable[..., Outcome]:
    """Call the program with these arguments."""

    def call(*arguments: str) -> Outcome:
        capfd.readouterr()
        code = main(arguments)
        out, err = capfd.readouterr()
        return Outcome(code, out, err)

    return call


@pytest.fixture
def fresh_answer() -> Answer:
    """Rows of many kinds and two tables, one without a snapshot."""
    rows = pa.table({"url": ["/", None], "n": pa.array([3, 4], pa.int64())})
    tables = (TableRead("default.clicks", 42, 1_700_000_000_000), TableRead("default.empty", None, None))
    return Answer(rows, tables)
