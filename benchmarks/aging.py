"""How a table ages: thousands of small commits, with and without maintenance, and their cost.

One process, no broker, no Spark: the workers' writer writes the files; the owner's functions commit, compact
and expire. Times are CPU times. A machine's speed changes within minutes, so each commit is followed by a
commit to a fresh table, and compared with the fresh table's commits of the same time.
"""

from __future__ import annotations

import gc
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from statistics import median, quantiles

import pyarrow as pa
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids

from benchmarks.load import Load, encoder
from tabletopic_kernel._datasets.clickstream.generator import Clickstream
from tabletopic_kernel.clients.catalog.catalog import create_table, open_catalog
from tabletopic_kernel.host.maintenance.expiry import EACH_COMMITS
from tabletopic_kernel.local.machine import now_ms
from tabletopic_kernel.model.errors import InternalError
from tabletopic_kernel.model.ledger import Ledger, StagedOffsets
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.conform import conform, file_schema
from tabletopic_kernel.pipeline.rewrite import RewriteTask
from tabletopic_kernel.pipeline.write import DataFileWriter
from tabletopic_kernel.query.duckdb import DuckLake
from tabletopic_kernel.table.changes.change import TableChange, appended
from tabletopic_kernel.table.changes.ledger_history import summary
from tabletopic_kernel.table.compaction.plan import MIN_FILES, plan_compaction
from tabletopic_kernel.table.compaction.replace import compacted
from tabletopic_kernel.table.expiry import Retention, only_reached_by, to_expire
from tabletopic_kernel.table.sweep import remove_expired
from tabletopic_kernel.table.topic_table import TopicTable

_RETENTION = Retention.of(TopicSettings())
_HOUR_MS = 3_600_000  # added to the clock, so that commits are old enough to expire
_IDENTIFIER = ("default", "load")
_ROWS = 200  # of a commit
_FRESH = 100  # commits before a new table replaces the fresh one
_SAMPLES = 50
_TRIES = 3
Measure = Callable[[Callable[[], object]], float]
QUERY = "SELECT sum(duration_ms) AS total, count(*) AS rows FROM load"


@dataclass(frozen=True)
class Sample:
    """The table after ``commits``: CPU ms of a commit since the last sample, of a plan and of a query.

    ``fresh_ms``: of a commit to a fresh table, at the same time.
    """

    commits: int
    commit_ms: float
    fresh_ms: float
    slowest_ms: float
    plan_ms: float
    query_ms: float
    metadata_bytes: int
    data_files: int
    snapshots: int


@dataclass(frozen=True)
class Spread:
    """Cost of commits, as multiples of the median of 100 commits to a fresh table at the same time."""

    median: float
    p99: float
    slowest: float

    @classmethod
    def of(cls, times: Sequence[float]) -> Spread:
        """The spread of at least two commits."""
        p99 = quantiles(times, n=100, method="inclusive")[-1]
        return cls(*(round(figure, 2) for figure in (median(times), p99, max(times))))


@dataclass(frozen=True)
class Age:
    """One table's life: its commits, and those of fresh tables, which show what the machine adds.

    ``maintenance_us`` is the CPU time of compaction and expiry per row.
    """

    samples: tuple[Sample, ...]
    commits: Spread
    fresh: Spread
    maintenance_us: float
    rows: int


class Life:
    """A table and its ledger; each commit adds ``rows`` ``times`` times, and ``measure`` runs it."""

    def __init__(
        self, folder: Path, rows: int = _ROWS, times: int = 1, measure: Measure | None = None
    ) -> None:
        self._measure = measure or _cpu_s
        uri, warehouse = f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse"
        self.catalog = open_catalog({"type": "sql", "uri": uri, "warehouse": warehouse})
        encode = encoder("avro", 7)
        events = list(Clickstream(7, "v1").events(rows))
        load = Load("load", "avro", 7, [(event.key, encode(event.value)) for event in events])
        decoder = load.decoder(Schema())
        schema = assign_fresh_schema_ids(decoder.iceberg_schema)
        self.table = TopicTable(create_table(self.catalog, _IDENTIFIER, schema, PartitionSpec(), {}))
        plan = self.table.plan()
        self._writer = DataFileWriter(plan.metadata, plan.io_properties, epoch=1)
        values = pa.array([value for _, value in load.records], pa.binary())
        decoded, _ = load.decoder(self._writer.schema).decode(values)
        columns = dict(zip(decoded.schema.names, decoded.columns, strict=True))
        batch = conform(columns, rows, file_schema(self._writer.schema))
        self._rows = pa.Table.from_batches([batch] * times)
        self.ledger = Ledger("load", "cluster", "topic", {0: 0}, 1, str(uuid.uuid4()))
        self.table.claim(self.ledger, None)
        self._files_seen = self._snapshots_seen = 0
        self.maintenance_s = 0.0

    def append(self, files: int = 1) -> float:
        """Commit the rows again, once for each file; returns what ``measure`` returns, by default CPU s."""
        written = [file for _ in range(files) for file in self._writer.write(self._rows)]
        start = self.ledger.next_offsets[0]
        staged = StagedOffsets({0: start}, {0: start + files * len(self._rows)})
        return self._commit(appended(self.ledger.advanced(staged, str(uuid.uuid4())), written))

    def _commit(self, change: TableChange) -> float:
        spent = self._measure(lambda: self.table.commit(self.ledger, change))
        self.ledger = change.ledger
        return spent

    def maintain(self) -> None:
        """Compact and expire what is due, as the owner would."""
        began = time.process_time()
        if self.data_files >= self._files_seen + MIN_FILES:
            self.compact()
            self._files_seen = self.data_files
        if self.snapshots >= self._snapshots_seen + EACH_COMMITS:
            self.expire()
            self._snapshots_seen = self.snapshots
        self.maintenance_s += time.process_time() - began

    def compact(self) -> None:
        """Merge small files, as the owner would."""
        plan = plan_compaction(self.table.table)
        for group in plan.groups:
            task = RewriteTask(self.table.plan(), 1, group.to_read(), group.files[0].partition)
            result = task.run()
            after = replace(self.ledger, commit_id=str(uuid.uuid4()))
            replaced = group.replaced(result.moved, plan.delete_files)
            self._commit(compacted(after, result.files, replaced))

    def expire(self, retention: Retention | None = None) -> None:
        """Expire what is due in an hour, as the owner would, or with another ``retention``."""
        table, at_ms = self.table.table, now_ms() + _HOUR_MS
        expired = only_reached_by(table, to_expire(table.metadata, retention or _RETENTION, at_ms))
        if expired.ids:
            self.table.expire(self.ledger, lambda _: sorted(expired.ids))
            remove_expired(self.table.table, expired)

    @property
    def data_files(self) -> int:
        """The number of data files in the newest snapshot."""
        head = self.table.table.metadata.current_snapshot()
        return int(summary(head).get("total-data-files", 0)) if head else 0

    @property
    def snapshots(self) -> int:
        """The number of snapshots."""
        return len(self.table.table.metadata.snapshots)

    def sample(self, commits: int, spent_s: list[float], fresh_s: list[float]) -> Sample:
        """The table, as a reader finds it."""
        table = self.catalog.load_table(_IDENTIFIER)
        lake = DuckLake(self.catalog)
        plan_ms = cpu_ms(lambda: [*self.catalog.load_table(_IDENTIFIER).scan().plan_files()])
        query_ms = cpu_ms(lambda: lake.sql(QUERY))
        lake.close()
        metadata_bytes = len(table.io.new_input(table.metadata_location))
        commit_ms, fresh_ms = round(1e3 * median(spent_s), 1), round(1e3 * median(fresh_s), 1)
        times_ms = commit_ms, fresh_ms, round(1e3 * max(spent_s), 1), plan_ms, query_ms
        return Sample(commits, *times_ms, metadata_bytes, self.data_files, self.snapshots)


def _cpu_s(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def cpu_ms(work: Callable[[], object]) -> float:
    """The minimum of some tries, in ms of CPU."""
    return round(1e3 * min(_cpu_s(work) for _ in range(_TRIES)), 1)


class FreshTables:
    """Commits to a table that a new one replaces after ``_FRESH`` commits, below ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._life: Life | None = None
        self.commits = 0

    def append(self) -> float:
        """Commit once; returns the CPU seconds."""
        if self._life is None or self.commits % _FRESH == 0:
            self.close()
            (folder := self._folder / str(self.commits)).mkdir(parents=True)
            self._life = Life(folder)
        self.commits += 1
        return self._life.append()

    def close(self) -> None:
        """Remove the tables."""
        if self._life is not None:
            self._life.catalog.close()
            rmtree(self._folder)
            self._life = None


def age(
    folder: Path, commits: int, on_progress: Callable[[int], None] = lambda _: None, *, maintained: bool
) -> Age:
    """Commit ``commits`` times, at least twice, to a table below ``folder``, which must be empty.

    Raises:
        InternalError: rows are missing at the end, or duplicated.
    """
    life, fresh = Life(folder), FreshTables(folder / "fresh")
    spent, fresh_spent, samples, sampled = list[float](), list[float](), list[Sample](), 0
    every = max(1, commits // _SAMPLES)
    gc.collect()
    gc.freeze()  # like a host once it has started
    try:
        for number in range(1, commits + 1):
            spent.append(life.append())
            fresh_spent.append(fresh.append())
            if maintained:
                life.maintain()
            if number % every == 0:
                samples.append(life.sample(number, spent[sampled:], fresh_spent[sampled:]))
                sampled = number
                fresh.append()  # not counted: the first commit after a reader faults its pages in
                on_progress(number)
    finally:
        gc.unfreeze()
        fresh.close()
    rows = commits * _ROWS
    total = life.catalog.load_table(_IDENTIFIER).scan().count()
    if total != rows:
        raise InternalError(f"the table has {total:,} rows, but {rows:,} were committed")
    return Age(
        tuple(samples),
        Spread.of(_times(spent, fresh_spent)),
        Spread.of(_times(fresh_spent, fresh_spent)),
        maintenance_us=round(1e6 * life.maintenance_s / rows, 2),
        rows=rows,
    )


def calls(folder: Path, commits: int, on_progress: Callable[[int], None] = lambda _: None) -> Spread:
    """Function calls in each commit, with maintenance, as multiples of the first hundred's median."""
    life, counts = Life(folder, measure=_calls_in), list[float]()
    for number in range(1, commits + 1):
        counts.append(life.append())
        life.maintain()
        on_progress(number)
    usual = median(counts[:_FRESH])
    return Spread.of([count / usual for count in counts])


def _calls_in(work: Callable[[], object]) -> float:
    """Calls of functions, Python's and C's, in this thread."""
    count = 0

    def seen(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def _times(spent: Sequence[float], fresh: Sequence[float]) -> list[float]:
    """Each commit as a multiple of the median of the fresh table's at its time."""
    medians = [median(fresh[start : start + _FRESH]) for start in range(0, len(fresh), _FRESH)]
    return [seconds / medians[index // _FRESH] for index, seconds in enumerate(spent)]
