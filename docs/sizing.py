"""How many cores, executors, files and requests a rate needs: ``python -m docs.sizing --mib-per-second 100``.

Computed, not measured: each figure is a product of what one record and one commit cost here
(docs/reference/cost.md). Prices are nobody's list: they are 0 until the reader gives his own.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields

_MIB, _HOURS = 1024**2, 730  # hours of a month
_TASK_RECORDS, _BATCH_RECORDS = 50_000, 1_000_000  # pipeline/worker/worker.py, pipeline/source.py
_RATES = (0.1, 1, 10, 100, 500, 2_048, 4_096)


@dataclass(frozen=True)
class Case:
    """What is asked. Every field is an option of the command line."""

    mib_per_second: float = 10.0
    record_bytes: float = 140.0  # the clickstream's, in Avro
    cpu_us: float = 3.5  # of a record, from Kafka to a committed row: the aim of `make bench`
    compaction_us: float = 1.8  # of a row of small files, once; docs/performance.md
    busy: float = 0.6  # share of the cores that are used; the rest is for peaks and for catching up
    interval_s: float = 10.0  # commit_interval
    commit_bytes: float = 256 * _MIB  # commit_bytes: a commit is due early
    row_bytes: float = 50.0  # of a row in Parquet: 4 million clicks are 197 MB
    executor_cores: int = 4
    price_core_hour: float = 0.0
    price_1000_put: float = 0.0
    price_1000_get: float = 0.0
    price_gb_month: float = 0.0


@dataclass(frozen=True)
class Need:
    """What it needs; a month has 730 hours."""

    records: float  # a second
    cores: int
    executors: int  # 0: a host alone, with local[*]
    memory_gib: int
    topics: int  # at least: a batch of one keeps only so many cores busy
    commits: float  # an hour
    files: float  # an hour, before compaction
    puts: float  # an hour
    gets: float  # an hour, with HEAD
    gb: float  # a month, in Parquet
    price: float  # a month, with as much storage as a month writes


def need(case: Case) -> Need:
    """The formulas."""
    records = case.mib_per_second * _MIB / case.record_bytes
    cores = max(1, math.ceil(records * (case.cpu_us + case.compaction_us) / 1e6 / case.busy))
    executors = 0 if cores <= case.executor_cores else math.ceil(cores / case.executor_cores)
    # An executor: 1 GiB of its JVM, and Python, up to 0.7 GiB for each core. The host: 1 GiB, and Python.
    memory = 2 + 0.7 * min(cores, case.executor_cores) if not executors else 2 + executors + 0.7 * cores
    topics = max(1, math.ceil(cores / (_BATCH_RECORDS / _TASK_RECORDS)))
    staged = records / topics * case.row_bytes  # bytes a second of a topic
    interval = min(case.interval_s, max(1.0, case.commit_bytes / staged))
    commits = topics * 3600 / interval
    files = commits * max(1, math.ceil(records / topics * interval / _TASK_RECORDS))
    puts = files + 3 * commits  # each file; manifest, manifest list, metadata
    gets = files + 2 * commits  # HEAD of each file; HEAD and GET of the manifest list before
    gb = records * case.row_bytes * 3600 * _HOURS / 1e9
    requests = (puts * case.price_1000_put + gets * case.price_1000_get) / 1000
    price = _HOURS * (cores * case.price_core_hour + requests) + gb * case.price_gb_month
    return Need(records, cores, executors, math.ceil(memory), topics, commits, files, puts, gets, gb, price)


def table() -> tuple[list[str], list[list[str]]]:
    """Head and rows for the page, from a laptop to gigabytes a second."""
    head = ["rate", "records/s", "cores", "executors", "memory, GiB", "topics at least", "commits/h"]
    head += ["files/h", "PUT/h", "HEAD, GET/h", "core-hours a month", "Parquet a month, GB"]
    return head, [_row(rate, need(Case(mib_per_second=rate))) for rate in _RATES]


def _row(rate: float, found: Need) -> list[str]:
    counts = [found.records, found.cores]
    more = [found.memory_gib, found.topics, found.commits, found.files, found.puts, found.gets]
    more += [found.cores * _HOURS, found.gb]
    executors = str(found.executors) if found.executors else "none: `local[*]`"
    return [f"{rate:,g} MiB/s", *map(_count, counts), executors, *map(_count, more)]


def _count(number: float) -> str:
    return f"{number:,.0f}"


def assumptions() -> str:
    """The figures behind the table, as a list."""
    case = Case()
    return (
        f"- a record of {case.record_bytes:g} bytes, {case.cpu_us:g} µs of CPU to a committed row, and "
        f"{case.compaction_us:g} µs to be put together once; {case.row_bytes:g} bytes in Parquet\n"
        f"- cores that are busy for {case.busy:.0%}, executors of {case.executor_cores}\n"
        f"- a commit every {case.interval_s:g} s, or when {case.commit_bytes / _MIB:g} MiB are staged\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what the options need; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    for field in fields(Case):
        option = f"--{field.name.replace('_', '-')}"
        parser.add_argument(option, type=type(field.default), default=field.default)
    found = need(Case(**vars(parser.parse_args(arguments))))
    for field in fields(Need):
        sys.stdout.write(f"{field.name:<12}{getattr(found, field.name):>16,.0f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
