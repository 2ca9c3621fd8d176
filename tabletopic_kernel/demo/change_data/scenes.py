"""The demo of change data, from start to end: a shop's table becomes a table topic, and stays equal to it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from tabletopic_kernel.demo import report, script
from tabletopic_kernel.demo.change_data import postgres
from tabletopic_kernel.demo.change_data.connect import JARS
from tabletopic_kernel.demo.change_data.shop import Shop
from tabletopic_kernel.demo.proof import Check
from tabletopic_kernel.demo.screen import Screen
from tabletopic_kernel.demo.servers import DemoServers
from tabletopic_kernel.local.progress import TerminalReport
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError, UsageError
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.render.grid import Grid
from tabletopic_kernel.workbench.workbench import Workbench

USUAL_CHANGES = 5_000
_FEWEST_CHANGES = 100
_SECONDS = 40.0  # of trading
_LIMIT_S = 300.0  # a busy machine may take ten times longer than usual
_RESTART_AFTER_S = 1.0
_SETTINGS = {
    "transform": "flatten_debezium",
    "key_format": "by_schema_id",
    "mode": "upsert",
    "commit_interval_ms": 1_000,
}
_NOW = "SELECT * FROM {table}"

_TITLE = "Table Topic demo: {changes} changes of a database become a table that equals it"
_INTRODUCTION = f"""
A PostgreSQL, Debezium in Kafka Connect, a Kafka broker, a schema registry, Spark and a catalog run on this
machine, in a temporary folder that is removed at the end. It takes two to three minutes, 4 GB of memory and
1 GB of disk; the first time, {JARS.download_bytes // 10**6} MB of Java libraries are downloaded, beside the
product's own.
"""
_SHOP = (
    "A shop with 500 orders. Debezium reads them once, then every change from PostgreSQL's write-ahead log."
)
_ENABLE = "A host reads the topic, and creates the table with the columns of the database's."
_TRADE = """
People buy, change their minds, and cancel. Each line compares all rows of the database with those of the
table, value by value; while people trade, the table is a little behind. In the middle the host is killed.
"""
_PROOF = "Now the shop is closed. DuckDB reads the Iceberg table, and PostgreSQL its own."


@dataclass
class Outcome:
    """What happened, printed by ``--json``; seconds since the demo began."""

    changes: int
    counts: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    peak_memory_bytes: int = 0
    ended_by_force: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether the tables were compared, and are equal."""
        return bool(self.checks) and all(check.ok for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary that also says whether they are equal."""
        return {"ok": self.ok, **asdict(self)}


@dataclass(frozen=True)
class Comparison:
    """All rows of both, by the order's number."""

    database: dict[int, tuple[Any, ...]]
    table: dict[int, tuple[Any, ...]]

    @property
    def different(self) -> list[int]:
        """The orders that only one of them has, or that differ in a value."""
        both = self.database.keys() | self.table.keys()
        return sorted(order for order in both if self.database.get(order) != self.table.get(order))


class ChangeDataDemo:
    """One run of the demo."""

    def __init__(self, changes: int, servers: DemoServers, screen: Screen) -> None:
        if changes < _FEWEST_CHANGES:
            raise UsageError(f"{changes} changes are too few for a demo; use {_FEWEST_CHANGES:,} or more")
        postgres.installed()  # before anything is started or downloaded
        self._servers, self._screen = servers, screen
        self.outcome = Outcome(changes)
        self._began = time.monotonic()

    def play(self) -> Outcome:
        """Play all scenes; raises what a scene raises."""
        screen = self._screen
        screen.console.print(f"\n[bold]{_TITLE.format(changes=f'{self.outcome.changes:,}')}[/]")
        screen.text(_INTRODUCTION)
        downloads = TerminalReport(screen.stream)
        screen.section("1. Servers")
        self._servers.up(downloads)
        self._workbench = Workbench(Settings(state_dir=str(self._servers.folder)))
        with self._shop(downloads) as self._shop_open:
            self._enable()
            self._trade()
            self._prove()
        self._servers.close()
        self.outcome.ended_by_force = self._servers.killed
        self.outcome.peak_memory_bytes = self._servers.tree.peak_bytes
        return self.outcome

    @contextlib.contextmanager
    def _shop(self, report: TerminalReport) -> Iterator[Shop]:
        self._screen.section("2. A database", _SHOP)
        with Shop(self._workbench, report) as shop:
            self._note("✓", "PostgreSQL and Debezium run", "opened")
            yield shop

    def _enable(self) -> None:
        self._screen.section("3. A table beside it", _ENABLE)
        self._host = self._servers.start_host()
        self._wait(
            lambda: self._shop_open.topic in self._workbench.kafka_topics(), "Debezium has sent nothing"
        )
        self._workbench.enable(self._shop_open.topic, _SETTINGS)
        self._wait(lambda: not self._compared().different, "the table has not the orders of the snapshot")
        self._note("✓", f"{len(self._compared().table):,} orders are in the table", "first_equal")

    def _trade(self) -> None:
        """Trade in small steps, with a look at both each few seconds."""
        screen, shop, left = self._screen, self._shop_open, self.outcome.changes
        screen.section("4. The shop trades, and a host is killed", _TRADE)
        screen.begin()
        step, killed_s = max(1, round(left / _SECONDS / 4)), None
        while left > 0:
            due = time.monotonic() + 0.25
            shop.trade(min(step, left))
            left -= step
            self._look()
            if killed_s is None and left <= self.outcome.changes / 2:
                self._host.kill()
                killed_s = time.monotonic()
                screen.moment("✗", f"kill -9: {self._host} is gone, without warning")
            elif self._host.ending and time.monotonic() - (killed_s or 0) > _RESTART_AFTER_S:
                self._host = self._servers.start_host()
                screen.moment("·", f"{self._host} replaces it")
            time.sleep(max(0.0, due - time.monotonic()))
        if self._host.ending:
            self._host = self._servers.start_host()
        screen.moment("·", "the shop is closed")
        self._wait(lambda: not self._compared().different, "the table did not become equal", self._look)
        self._note("✓", "they are equal", "equal")

    def _look(self) -> None:
        """Print a line, if one is due."""
        if not self._screen.is_due():
            return
        now, counts = self._compared(), self._shop_open.counts
        difference = f"{len(now.different):,} differ" if now.different else "equal"
        done = ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
        self._screen.progress(
            f"{len(now.database):,} orders, {len(now.table):,} in the table, {difference} · {done}"
        )

    def _compared(self) -> Comparison:
        """Both as they are now."""
        database = {row[0]: row for row in self._shop_open.sql("SELECT * FROM orders")}
        names = [name for (name,) in self._shop_open.sql(_NAMES)]
        try:
            answer = self._workbench.query(_NOW.format(table=self._workbench.table_of(self._shop_open.topic)))
        except UsageError:  # there is no table yet
            return Comparison(database, {})
        columns = [answer.rows.column(name).to_pylist() for name in names]
        return Comparison(database, {row[0]: row for row in zip(*columns, strict=True)})

    def _prove(self) -> None:
        screen, now = self._screen, self._compared()
        (status,) = self._workbench.status(self._shop_open.topic)
        self.outcome.counts = dict(self._shop_open.counts)
        self.outcome.checks = [
            Check("rows", "Rows in the table = rows in the database", len(now.table), len(now.database)),
            Check("different", "Rows that differ in any value", len(now.different), 0),
            Check("lag", "Records of the topic that the table has not read", status.lag_records, 0),
            Check("letters", "Changes that could not become rows", status.dead_letters, 0),
        ]
        screen.section("5. The proof", _PROOF)
        newest = [tuple(map(str, now.table[order])) for order in sorted(now.table)[-5:]]
        screen.show(Grid([name for (name,) in self._shop_open.sql(_NAMES)], newest, "The newest orders"))
        screen.show(report.check_table(self.outcome.checks))
        if self.outcome.ok:
            screen.step("✓", "they are equal, row by row")
        if self._servers.is_kept:
            screen.text(script.KEPT.format(folder=self._servers.folder))

    def _note(self, mark: str, text: str, name: str) -> None:
        self.outcome.seconds[name] = round(time.monotonic() - self._began, 1)
        self._screen.step(mark, text)

    def _wait(
        self, until: Callable[[], bool], too_late: str, look: Callable[[], None] = lambda: None
    ) -> None:
        deadline = time.monotonic() + _LIMIT_S
        while not until():
            self._host.check()
            self._shop_open.connect.check()
            for status in self._workbench.statuses(self._workbench.desired_topics()):
                if status.state == "failed":
                    raise ActionNeededError(f"the topic stopped: {status.error}")
            if time.monotonic() > deadline:
                raise RetryableError(f"{too_late} within {_LIMIT_S:.0f} s; is the machine overloaded?")
            look()
            time.sleep(0.5)


_NAMES = """
SELECT column_name FROM information_schema.columns WHERE table_name = 'orders' ORDER BY ordinal_position"""
