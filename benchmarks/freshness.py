"""``python -m benchmarks.freshness``: how long after a change in a database a query of its table sees it.

A PostgreSQL, Debezium, a broker, a registry and a host on this machine. A table of the database, which a
table topic keeps by key, is changed at a steady rate, a transaction per change. DuckDB asks for the new rows
of each snapshot; a change was seen when its answer is there. At the end both tables are compared.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tabletopic_kernel.demo.change_data.connect import Connect, avro, debezium
from tabletopic_kernel.demo.change_data.postgres import Postgres
from tabletopic_kernel.demo.servers import DemoServers
from tabletopic_kernel.local.progress import TerminalReport
from tabletopic_kernel.model.errors import ActionNeededError, InternalError, RetryableError, UsageError
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.workbench import Workbench

_TOPIC = "bench.public.accounts"
_TABLE = """CREATE TABLE accounts (
    id bigint PRIMARY KEY, owner text NOT NULL, amount numeric(12, 2) NOT NULL, sent_us bigint NOT NULL)"""
_NOW_US = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_CHANGE = f"UPDATE accounts SET amount = amount + 1, sent_us = {_NOW_US} WHERE id = %s"
_STATE = (
    "SELECT count(*) AS n, sum(id * (sent_us % 1000003))::text AS mixed, sum(amount)::text AS total FROM {}"
)
_SETTINGS = {"transform": "flatten_debezium", "mode": "upsert", "key": ["id"]}
_POLL_MS = "50"  # of Debezium, which by default waits for 500 ms for more changes
_LOOK_S = 0.02
_LIMIT_S = 1_800.0


@dataclass(frozen=True)
class Freshness:
    """Seconds from a transaction to the answer that has it; ``seen`` counts the rows of all answers.

    A row that was changed again before a commit is seen once. ``different``: whether the tables are.
    """

    rows: int
    rate: int
    interval: str
    changes: int
    seen: int
    commits: int
    p50_s: float
    p99_s: float
    longest_s: float
    status: str | None  # what the status says of the topic
    different: bool


class Accounts:
    """The database's table, the table topic beside it, and who changes the one and asks the other."""

    def __init__(self, folder: Path, postgres: Postgres, rows: int) -> None:
        self.bench, self.postgres, self.rows, self.changes = (
            Workbench(Settings(state_dir=str(folder))), postgres, rows, 0,
        )  # fmt: skip
        self._connection = postgres.connect()
        self.sql(_TABLE)
        values = f"SELECT n, 'owner ' || n % 5000, n % 1000, {_NOW_US} FROM generate_series(1, {rows}) n"
        self.sql(f"INSERT INTO accounts {values}")

    def sql(self, statement: str) -> Any:
        """The first row, if the statement has rows."""
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchone() if cursor.description else None

    def ask(self, query: str) -> list[dict[str, Any]]:
        """The rows of DuckDB's answer; none before there is a table."""
        try:
            rows: list[dict[str, Any]] = self.bench.query(query).rows.to_pylist()
        except UsageError:
            return []
        return rows

    @property
    def table(self) -> str:
        """The table topic's table."""
        return self.bench.table_of(_TOPIC)

    def are_equal(self) -> bool:
        """Whether both have the same rows, by sums over all."""
        ours = [tuple(row.values()) for row in self.ask(_STATE.format(self.table))]
        return ours == [self.sql(_STATE.format("accounts"))]

    @contextlib.contextmanager
    def changing(self, rate: int) -> Iterator[None]:
        """Meanwhile, random rows are changed, so many a second."""
        over, dice = threading.Event(), random.Random(1)

        def change() -> None:
            connection = self.postgres.connect()
            due = time.monotonic()
            with contextlib.closing(connection), connection.cursor() as cursor:
                while not over.is_set():
                    cursor.execute(_CHANGE, (dice.randint(1, self.rows),))
                    self.changes += 1
                    due += 1 / rate
                    over.wait(max(0.0, due - time.monotonic()))

        thread = threading.Thread(target=change, name="changes")
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def seen(self, seconds: float) -> tuple[list[float], int]:
        """How old changes were when an answer had them, and how many snapshots there were."""
        ages: list[float] = []
        table = self.bench.catalog.load_table(self.table)
        newest_us, commits, snapshot = time.time_ns() // 1000, 0, table.metadata.current_snapshot_id
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            time.sleep(_LOOK_S)
            if table.refresh().metadata.current_snapshot_id == snapshot:
                continue
            snapshot, commits = table.metadata.current_snapshot_id, commits + 1
            rows = self.bench.query(f"SELECT sent_us FROM {self.table} WHERE sent_us > {newest_us}").rows
            sent, now_us = rows["sent_us"].to_numpy(), time.time_ns() // 1000
            ages += ((now_us - sent) / 1e6).tolist()
            newest_us = int(sent.max(initial=newest_us))
        return ages, commits


def measured(servers: DemoServers, rows: int, rate: int, interval: str, seconds: float) -> Freshness:
    """One measurement, on servers of its own."""
    with Postgres() as postgres:
        accounts = Accounts(servers.folder, postgres, rows)
        bench = accounts.bench
        config = {
            **debezium(postgres, "bench", "public.accounts", avro(bench.servers.registry)),
            "poll.interval.ms": _POLL_MS,
        }
        with Connect(servers.folder / "connect", bench.servers, {"bench": config}) as connect:
            host = servers.start_host()

            def wait(until: Callable[[], bool]) -> None:
                deadline = time.monotonic() + _LIMIT_S
                while not until():
                    host.check()
                    connect.check()
                    for status in bench.statuses(bench.desired_topics()):
                        if status.state == "failed":
                            raise ActionNeededError(f"the topic stopped: {status.error}")
                    if time.monotonic() > deadline:
                        raise RetryableError(f"the table is not as the database after {_LIMIT_S:.0f} s")
                    time.sleep(1)

            wait(lambda: _TOPIC in bench.kafka_topics())
            bench.enable(_TOPIC, {**_SETTINGS, "commit_interval_ms": interval})
            wait(accounts.are_equal)
            with accounts.changing(rate):
                accounts.seen(seconds / 4)  # the first commits are slower
                before = accounts.changes
                ages, commits = accounts.seen(seconds)
                changes = accounts.changes - before
                (status,) = bench.status(_TOPIC)
            with contextlib.suppress(RetryableError):
                wait(accounts.are_equal)
            different = not accounts.are_equal()
    if not ages:
        raise InternalError("no query saw a change")
    p50, p99, longest = (round(float(age), 2) for age in np.percentile(ages, (50, 99, 100)))
    return Freshness(
        rows, rate, interval, changes, len(ages), commits, p50, p99, longest, status.error, different
    )


def main(arguments: list[str] | None = None) -> int:
    """Print what was measured; returns the exit code: 1 if the tables differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.freshness", description=__doc__)
    add = parser.add_argument
    add("--rows", type=int, default=1_000_000, help="of the database's table (default: %(default)s)")
    add("--rate", type=int, default=500, help="changes per second (default: %(default)s)")
    add("--interval", default="1s", help="between two commits (default: %(default)s)")
    add("--seconds", type=float, default=60.0, help="of measuring (default: %(default)s)")
    given = parser.parse_args(arguments)
    with DemoServers(None, keep=False) as servers:
        servers.up(TerminalReport(sys.stderr))
        result = measured(servers, given.rows, given.rate, given.interval, given.seconds)
    sys.stdout.write(json.dumps(asdict(result), indent=1) + "\n")
    return int(result.different)


if __name__ == "__main__":
    sys.exit(main())
