"""``python -m benchmarks.peers.changes``: a table with one row per key beside what others make of the topic.

Ten thousand changes at a time on ten million rows: 85 of 100 replace a row anywhere in the table, the others
add one. Ours as shipped, Spark's MERGE in merge-on-read, Flink's upsert with equality deletes. Then PyIceberg
and DuckDB read each table, and every row is checked by its number and a sum.
"""

from __future__ import annotations

import _thread
import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np
import psutil
import pyarrow as pa
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation
from pyiceberg.types import DoubleType, LongType, NestedField, StringType
from rich.console import Console

from benchmarks.load import Load
from benchmarks.measure import CpuMeter
from benchmarks.peers import programs
from benchmarks.peers.flink import job as flink_job
from benchmarks.peers.measure import running
from benchmarks.peers.program import Program
from benchmarks.peers.site import NAMESPACE, Site, own_stack
from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.clients.kafka.librdkafka import make_producer
from tabletopic_kernel.local import machine, processes
from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.query.duckdb import DuckLake

_TOPIC: Final = "accounts"
_NEW_SHARE, _WARM_UP, _FILE_ROWS, _TRIES = 0.15, 2, 1_000_000, 3
_LIMIT_S, _READ_LIMIT_S, _LONG_S = 600.0, 300.0, 10.0
_COLUMNS: Final = {"id": "BIGINT", "owner": "STRING", "town": "STRING", "amount": "DOUBLE"}
_SCHEMA: Final = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "owner", StringType()),
    NestedField(3, "town", StringType()),
    NestedField(4, "amount", DoubleType()),
    identifier_field_ids=[1],
)
_PROPERTIES: Final = {
    "spark": {f"write.{change}.mode": "merge-on-read" for change in ("merge", "update", "delete")},
    "flink": {"write.upsert.enabled": "true"},
}


@dataclass(frozen=True)
class Changes:
    """CPU of the program's process tree in µs per change; ``seconds``: from sending a round to its commit,
    the median. ``peak_mib``: resident memory. Readers: CPU ms of a sum over all rows, None if it cannot be
    had; ``wrong``: what a reader gets wrong or says, by its name."""

    program: str
    rows: int
    changes: int
    rounds: int
    cpu_us: float
    seconds: float
    peak_mib: int
    delete_files: int
    duckdb_ms: int | None
    pyiceberg_ms: int | None
    wrong: Mapping[str, str]
    settings: Mapping[str, str]


class Accounts:
    """Rows that come and change, each change with another amount; ``amounts`` is what the table must have."""

    def __init__(self, rows: int, rounds: int, changes: int) -> None:
        self._random = np.random.default_rng(1)
        self._new = int(changes * _NEW_SHARE)
        self._keys = self._random.permutation(rows + rounds * self._new).astype(np.int64)
        self.rows, self._changes = rows, changes
        self.amounts = np.zeros(len(self._keys))

    def first(self) -> Iterator[pa.Table]:
        """The rows before the changes, a million at a time."""
        for start in range(0, self.rows, _FILE_ROWS):
            yield self._of(self._keys[start : min(start + _FILE_ROWS, self.rows)])

    def change(self) -> pa.Table:
        """The next round; no key twice."""
        replaced = self._random.choice(self.rows, self._changes - self._new, replace=False)
        self.rows += self._new
        return self._of(np.concatenate([self._keys[replaced], self._keys[self.rows - self._new : self.rows]]))

    def _of(self, keys: np.ndarray) -> pa.Table:
        amounts = self._random.integers(1, 1_000, len(keys)) + 0.5  # sums of these are exact
        self.amounts[keys] = amounts
        texts = {name: [f"{name} {key % most}" for key in keys] for name, most in _TEXTS.items()}
        return pa.table({"id": keys, **texts, "amount": amounts}, _SCHEMA.as_arrow())


_TEXTS: Final = {"owner": 5_000, "town": 300}


def measured(folder: Path, name: str, accounts: Accounts, rounds: int, interval_s: int) -> Changes:
    """One program on a stack of its own; raises TableTopicError if a round does not come."""
    with own_stack(folder) as bench:
        site = Site(bench, Load(_TOPIC, "json", None, []), parallelism=2, interval_s=interval_s)
        Broker(bench.servers.kafka).ensure_topic(_TOPIC, 4, {})
        rows, table = accounts.rows, _prepared(site, name, accounts)
        program = _program(site, name, folder)
        times, peak = list[float](), 0
        with running(program, folder) as process:
            added = _until(site, table, rows, folder, process)
            meter, cpu_s = CpuMeter(process), 0.0
            for number in range(rounds):
                if number == _WARM_UP:
                    cpu_s = sum(meter.read())
                sent_s, changes = time.monotonic(), accounts.change()
                _send(site, changes)
                added = _until(site, table, added + len(changes), folder, process)
                times.append(time.monotonic() - sent_s)
                peak = max(peak, processes.tree_memory_bytes(process.pid) or 0)
            cpu_s = sum(meter.read()) - cpu_s
            meter.close()
        count = (rounds - _WARM_UP) * len(changes)
        head = site.catalog().load_table(table).current_snapshot()
        assert head is not None
        assert head.summary is not None
        wrong: dict[str, str] = {}
        reads = {reader: _read(site, table, accounts, reader, wrong) for reader in _READERS}
        return Changes(
            name, rows, len(changes), rounds - _WARM_UP,
            round(1e6 * cpu_s / count, 1), round(median(times[_WARM_UP:]), 1), peak >> 20,
            int(head.summary["total-delete-files"] or 0),
            reads["duckdb"], reads["pyiceberg"], wrong, program.settings,
        )  # fmt: skip


def _prepared(site: Site, name: str, accounts: Accounts) -> str:
    """The table: ours is filled from the topic, the others' directly."""
    if name == "ours":
        settings = {"mode": "upsert", "key": "id", "value_format": "json"}
        site.bench.enable(_TOPIC, settings | {"commit_interval_ms": f"{site.interval_s}s"})
        for rows in accounts.first():
            _send(site, rows)
        return site.bench.table_of(_TOPIC)
    catalog = site.catalog()
    catalog.create_namespace_if_not_exists(NAMESPACE)
    properties = {"format-version": "2", **_PROPERTIES[name]}
    table = catalog.create_table((NAMESPACE, name), _SCHEMA, properties=properties)
    for rows in accounts.first():
        table.append(rows)
    return f"{NAMESPACE}.{name}"


def _program(site: Site, name: str, folder: Path) -> Program:
    if name == "spark":
        columns = ", ".join(f"{column} {kind}" for column, kind in _COLUMNS.items())
        program = programs.spark(site, folder, columns, key="id")
    elif name == "flink":
        program = flink_job(site, folder, _COLUMNS, ", ".join(_COLUMNS))
    else:
        program = programs.ours(site, folder)
    return Program(program.command, {**program.settings, **_PROPERTIES.get(name, {})}, program.variables)


def _send(site: Site, rows: pa.Table) -> None:
    producer = make_producer(site.bench.servers.kafka, **{"queue.buffering.max.messages": 2_000_000})
    for at, values in enumerate(zip(*(column.to_pylist() for column in rows.columns), strict=True)):
        key, owner, town, amount = values
        text = f'{{"id": {key}, "owner": "{owner}", "town": "{town}", "amount": {amount}}}'
        producer.produce(_TOPIC, text, str(key))
        if at % 10_000 == 0:
            producer.poll(0)
    producer.flush()


def _added(site: Site, table: str) -> int:
    """Rows that were ever added to the table, without those that a compaction wrote again."""
    try:
        snapshots = site.catalog().load_table(table).metadata.snapshots
    except NoSuchTableError:  # ours makes it
        return 0
    summaries = [snapshot.summary for snapshot in snapshots if snapshot.summary is not None]
    return sum(
        int(summary["added-records"] or 0)
        for summary in summaries
        if summary.operation is not Operation.REPLACE
    )


def _until(site: Site, table: str, added: int, folder: Path, process: psutil.Popen) -> int:
    """Wait until the table got so many rows; returns how many it got."""
    deadline = time.monotonic() + _LIMIT_S
    while (count := _added(site, table)) < added:
        if process.poll() is not None or time.monotonic() > deadline:
            log = machine.tail(folder / "log.txt", 30)
            raise TableTopicError(f"{table} got {count:,} of {added:,} rows: {log}")
        time.sleep(0.1)
    return count


def _by_duckdb(site: Site, table: str) -> tuple[int, float]:
    with closing(DuckLake(site.catalog())) as lake:
        (answer,) = lake.sql(f"SELECT count(*) AS rows, sum(amount) AS total FROM {table}").to_pylist()
    return answer["rows"], answer["total"]


def _by_pyiceberg(site: Site, table: str) -> tuple[int, float]:
    amounts = site.catalog().load_table(table).scan(selected_fields=("amount",)).to_arrow()["amount"]
    return len(amounts), float(amounts.to_numpy().sum())


_READERS: Final[Mapping[str, Callable[[Site, str], tuple[int, float]]]] = {
    "duckdb": _by_duckdb,
    "pyiceberg": _by_pyiceberg,
}


def _read(site: Site, table: str, accounts: Accounts, reader: str, wrong: dict[str, str]) -> int | None:
    """The least CPU ms of some tries."""
    expected, times = (accounts.rows, float(accounts.amounts.sum())), list[float]()
    while len(times) < _TRIES and sum(times) < _LONG_S:
        began_s = time.process_time()
        timer = threading.Timer(_READ_LIMIT_S, _thread.interrupt_main)
        timer.start()
        try:
            answer = _READERS[reader](site, table)
        except (TableTopicError, ValueError, NotImplementedError) as error:
            wrong[reader] = str(error).partition("\n")[0].partition(": http")[0]
            return None
        except KeyboardInterrupt:
            wrong[reader] = f"not in {_READ_LIMIT_S:.0f} s"
            return None
        finally:
            timer.cancel()
        times.append(time.process_time() - began_s)
        if answer != expected:
            wrong[reader] = f"{answer[0]:,} rows of {expected[0]:,}, sum {answer[1]:,} of {expected[1]:,}"
    return round(1e3 * min(times))


def main(arguments: list[str] | None = None) -> int:
    """Print the figures as JSON; returns the exit code: 1 if a program failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.changes", description=__doc__)
    parser.add_argument("--programs", default="ours,spark,flink", help="some of %(default)s")
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the table (default: %(default)s)")
    parser.add_argument("--changes", type=int, default=10_000, help="of a round (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=10, help="two of them warm up (default: %(default)s)")
    parser.add_argument("--interval", type=int, default=5, help="seconds between commits (default: 5)")
    options = parser.parse_args(arguments)
    results, failed = list[Changes](), False
    for name in options.programs.split(","):
        accounts = Accounts(options.rows, options.rounds, options.changes)
        with tempfile.TemporaryDirectory(prefix="tabletopic-peers-") as folder:
            try:
                result = measured(Path(folder) / name, name, accounts, options.rounds, options.interval)
            except TableTopicError as error:
                Console(stderr=True).print(f"{name}: {error}")
                failed = True
            else:
                Console(stderr=True).print(result)
                results.append(result)
    sys.stdout.write(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
