"""``python -m benchmarks.upserts``: what a change costs in a table kept by key, and reading after changes.

One process, no broker, no Spark: the workers' writer writes the files, the owner's functions commit. Keys are
random: 85 % of the changes replace a row anywhere in the table, 15 % add one.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean

import numpy as np
import pyarrow as pa
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import DoubleType, LongType, NestedField, StringType
from rich.console import Console
from rich.table import Table as Screen

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.local.progress import CountBar
from tabletopic_kernel.model.columns.table_columns import metadata_columns
from tabletopic_kernel.model.errors import InternalError
from tabletopic_kernel.model.ledger import Ledger, StagedOffsets
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.conform import conform, file_schema
from tabletopic_kernel.pipeline.write import DataFileWriter
from tabletopic_kernel.query.duckdb import DuckLake
from tabletopic_kernel.table.changes.upsert.staged import Upsert
from tabletopic_kernel.table.changes.upsert.upserted import upserted
from tabletopic_kernel.table.topic_table import TopicTable

_SETTINGS = TopicSettings(mode="upsert", key=("id",))
_COMMITS = 20
_FILE_ROWS = 1_000_000
_NEW_SHARE = 0.15
_QUERY = "SELECT sum(amount) AS total, count(*) AS rows FROM lake.default.accounts"
_TRIES = 3


@dataclass(frozen=True)
class Upserts:
    """CPU in µs per change, of staging and of the commit with its look-up; of a sum in DuckDB in ms."""

    rows: int
    changes: int
    commits: int
    stage_us: float
    commit_us: float
    commit_us_least: float
    query_ms: float
    query_ms_after: float


class Accounts:
    """A table kept by key with ``rows`` rows, in files of a million."""

    def __init__(self, folder: Path, rows: int) -> None:
        uri, warehouse = f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse"
        self.catalog = open_catalog({"name": "lake", "type": "sql", "uri": uri, "warehouse": warehouse})
        names = {"id": LongType(), "owner": StringType(), "town": StringType(), "amount": DoubleType()}
        value = [
            NestedField(at, name, kind, required=False) for at, (name, kind) in enumerate(names.items(), 1)
        ]
        metadata = [column for column in metadata_columns(_SETTINGS) if column.name == "_kafka_metadata"]
        schema = assign_fresh_schema_ids(Schema(*value, *metadata))
        identifier = ("default", "accounts")
        self.table = TopicTable.create(
            self.catalog, identifier, schema, PartitionSpec(), "accounts", _SETTINGS
        )
        self._random, self._rows = np.random.default_rng(1), 0
        self._ledger = Ledger("accounts", "cluster", "topic", {0: 0}, 1, str(uuid.uuid4()))
        self.table.claim(self._ledger, None)
        self._keys = self._random.permutation(2 * rows).astype(np.int64)  # of rows that come, in their order
        while self._rows < rows:
            self.commit(self._new(min(_FILE_ROWS, rows - self._rows)))

    def change(self, count: int) -> tuple[float, float]:
        """Stage and commit so many changes; returns the CPU seconds of each."""
        new = int(count * _NEW_SHARE)
        replaced = self._random.choice(self._rows, count - new, replace=False)
        return self.commit(np.concatenate([self._keys[replaced], self._new(new)]))

    def query_ms(self) -> float:
        """The CPU time of a sum over all rows, the least of some."""
        with closing(DuckLake(self.catalog)) as lake:
            times = [_cpu_s(lambda: self._checked(lake)) for _ in range(_TRIES)]
        return round(1e3 * min(times), 1)

    def commit(self, keys: np.ndarray) -> tuple[float, float]:
        """A row of each of these keys."""
        began_s = time.process_time()
        plan = self.table.plan()
        writer = DataFileWriter(plan.metadata, plan.io_properties, epoch=1)
        target, start = file_schema(writer.schema), self._ledger.next_offsets[0]
        end, now_us = start + len(keys), time.time_ns() // 1000
        fields = list(target.field("_kafka_metadata").type)[:3]
        place = np.zeros(len(keys)), np.arange(start, end), np.full(len(keys), now_us)
        arrays = [pa.array(n.astype(np.int64)).cast(f.type) for n, f in zip(place, fields, strict=True)]
        columns = {
            "id": pa.array(keys),
            "owner": pa.array([f"owner {key % 5_000}" for key in keys], pa.large_string()),
            "town": pa.array([f"town {key % 300}" for key in keys], pa.large_string()),
            "amount": pa.array(self._random.random(len(keys)) * 1_000),
            "_kafka_metadata": pa.StructArray.from_arrays(arrays, fields=fields),
        }
        files = tuple(writer.write(pa.Table.from_batches([conform(columns, len(keys), target)])))
        staged_s = time.process_time()
        offsets = StagedOffsets({0: start}, {0: end}, {0: now_us // 1000})
        upsert = Upsert(_SETTINGS, files, (), frozenset())
        change = upserted(self._ledger.advanced(offsets, str(uuid.uuid4())), upsert)
        self.table.commit(self._ledger, change)
        self._ledger = change.ledger
        return staged_s - began_s, time.process_time() - staged_s

    def _new(self, count: int) -> np.ndarray:
        self._rows += count
        return self._keys[self._rows - count : self._rows]

    def _checked(self, lake: DuckLake) -> None:
        (answer,) = lake.sql(_QUERY).to_pylist()
        if answer["rows"] != self._rows:
            raise InternalError(f"the table has {answer['rows']:,} rows of {self._rows:,} keys")


def _cpu_s(work: Callable[[], object]) -> float:
    began_s = time.process_time()
    work()
    return time.process_time() - began_s


def measured(folder: Path, rows: int, changes: int, bar: CountBar | None = None) -> Upserts:
    """A table of ``rows`` rows, and twenty commits of ``changes``, below an empty ``folder``."""
    accounts = Accounts(folder, rows)
    before_ms, times = accounts.query_ms(), list[tuple[float, float]]()
    for number in range(1, _COMMITS + 1):
        times.append(accounts.change(changes))
        if bar:
            bar.to(number)
    stage_s, commit_s = zip(*times, strict=True)
    stage_us, commit_us = ([1e6 * seconds / changes for seconds in part] for part in (stage_s, commit_s))
    return Upserts(
        rows,
        changes,
        _COMMITS,
        round(mean(stage_us), 1),
        round(mean(commit_us), 1),
        round(min(commit_us), 1),
        before_ms,
        accounts.query_ms(),
    )


def main(arguments: list[str] | None = None) -> int:
    """Print what was measured; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.upserts", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the table (default: %(default)s)")
    parser.add_argument("--changes", type=int, default=10_000, help="of a commit (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    options = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(prefix="tabletopic-bench-") as folder,
        CountBar(_COMMITS, "changing", "commits") as bar,
    ):
        result = measured(Path(folder), options.rows, options.changes, bar)
    if options.json:
        sys.stdout.write(json.dumps(asdict(result), indent=1) + "\n")
        return 0
    screen = Screen(title=f"{_COMMITS} commits of {result.changes:,} changes on {result.rows:,} rows")
    for name in ("CPU", "measured"):
        screen.add_column(name, justify="right" if name == "measured" else "left")
    screen.add_row("staging, per change", f"{result.stage_us} µs")
    screen.add_row("commit with its look-up, per change", f"{result.commit_us} µs")
    screen.add_row("  the cheapest commit", f"{result.commit_us_least} µs")
    screen.add_row("DuckDB, sum before the changes", f"{result.query_ms} ms")
    screen.add_row("DuckDB, sum after them", f"{result.query_ms_after} ms")
    Console().print(screen)
    return 0


if __name__ == "__main__":
    sys.exit(main())
