"""How many cores, executors, files and requests a rate needs: ``python -m docs.sizing --mib-per-second 100``.

Computed, not measured: each figure is a product of what one record and one commit cost here
(docs/explanation/cost.md). Prices are 0 until the reader gives his own, or takes a list: ``--prices aws-s3``.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

_MIB, _HOURS = 1024**2, 730  # hours of a month
_TASK_RECORDS, _BATCH_RECORDS = 50_000, 1_000_000  # pipeline/worker/jobs.py, pipeline/source.py
_INTERVALS = {"1 s": 1.0, "10 s": 10.0, "1 min": 60.0, "10 min": 600.0}
_RATES = (0.1, 1, 10, 100, 500, 2_048, 4_096)


@dataclass(frozen=True)
class Case:
    """The question. Every field is an option of the command line."""

    mib_per_second: float = 10.0
    record_bytes: float = 140.0  # the clickstream's, in Avro
    cpu_us: float = 2.1  # per record, from Kafka to a committed row: `make bench` on a quiet machine
    compaction_us: float = 1.8  # per row of small files, once; docs/evidence/performance.md
    busy: float = 0.6  # share of the cores in use; the rest is for peaks and catching up
    interval_s: float = 10.0  # commit_interval
    commit_bytes: float = 256 * _MIB  # commit_bytes: a commit is due early
    row_bytes: float = 50.0  # per row in Parquet: 4 million clicks are 197 MB
    executor_cores: int = 4
    compacted_bytes: float = 128 * _MIB  # of a file after compaction
    price_core_hour: float = 0.0
    price_1000_put: float = 0.0
    price_1000_get: float = 0.0
    price_gb_month: float = 0.0
    price_1000_objects: float = 0.0  # per month, for monitoring: S3 Tables
    price_1000_compacted: float = 0.0  # objects that the store compacts by itself
    price_gb_compacted: float = 0.0


# AWS in US East (N. Virginia), on demand, in US dollars without tax. Storage at the price of the first 50 TB.
_AWS: Final = {
    "price_core_hour": 0.0816 / 2,  # m7g.large, Linux: 2 vCPU and 8 GiB
    "price_1000_put": 0.005,
    "price_1000_get": 0.0004,
}
LISTS: Final[Mapping[str, Mapping[str, float]]] = {
    "aws-s3": {**_AWS, "price_gb_month": 0.023},
    # S3 Tables compacts files by itself, so the host need not.
    "aws-s3-tables": {
        **_AWS,
        "price_gb_month": 0.0265,
        "price_1000_objects": 0.025,
        "price_1000_compacted": 0.002,
        "price_gb_compacted": 0.005,
        "compaction_us": 0.0,
        "compacted_bytes": 512 * _MIB,
    },
}


@dataclass(frozen=True)
class Need:
    """The requirements; a month has 730 hours."""

    records: float  # per second
    cores: int
    executors: int  # 0: a host alone, with local[*]
    memory_gib: int
    topics: int  # at least: a batch of one topic keeps only so many cores busy
    commits: float  # per hour
    files: float  # per hour, before compaction
    puts: float  # per hour
    gets: float  # per hour, with HEAD
    gb: float  # per month, in Parquet
    # Per month, with as much storage as a month writes.
    compute: float
    requests: float
    storage: float
    compaction: float  # by the store

    @property
    def price(self) -> float:
        """The total per month."""
        return self.compute + self.requests + self.storage + self.compaction


def need(case: Case) -> Need:
    """The formulas."""
    records = case.mib_per_second * _MIB / case.record_bytes
    cores = max(1, math.ceil(records * (case.cpu_us + case.compaction_us) / 1e6 / case.busy))
    executors = 0 if cores <= case.executor_cores else math.ceil(cores / case.executor_cores)
    # An executor: 1 GiB for its JVM, and Python, up to 0.7 GiB per core. The host: 1 GiB, and Python.
    memory = 2 + 0.7 * min(cores, case.executor_cores) if not executors else 2 + executors + 0.7 * cores
    topics = max(1, math.ceil(cores / (_BATCH_RECORDS / _TASK_RECORDS)))
    staged = records / topics * case.row_bytes  # bytes per second of a topic
    interval = min(case.interval_s, max(1.0, case.commit_bytes / staged))
    commits = topics * 3600 / interval
    files = commits * max(1, math.ceil(records / topics * interval / _TASK_RECORDS))
    puts = files + 3 * commits  # one per file; manifest, manifest list, metadata
    gets = files + 2 * commits  # HEAD per file; HEAD and GET of the previous manifest list
    gb = records * case.row_bytes * 3600 * _HOURS / 1e9
    compute = _HOURS * cores * case.price_core_hour
    requests = _HOURS * (puts * case.price_1000_put + gets * case.price_1000_get) / 1000
    storage = gb * case.price_gb_month + gb * 1e9 / case.compacted_bytes * case.price_1000_objects / 1000
    compaction = _HOURS * files * case.price_1000_compacted / 1000 + gb * case.price_gb_compacted
    counts = (records, cores, executors, math.ceil(memory), topics, commits, files, puts, gets, gb)
    return Need(*counts, compute, requests, storage, compaction)


def table() -> tuple[list[str], list[list[str]]]:
    """Head and rows for the page, from a laptop to gigabytes per second."""
    head = ["rate", "records/s", "cores", "executors", "memory, GiB", "topics at least", "commits/h"]
    head += ["files/h", "PUT/h", "HEAD, GET/h", "core-hours a month", "Parquet a month, GB"]
    return head, [_row(rate, need(Case(mib_per_second=rate))) for rate in _RATES]


def prices() -> tuple[list[str], list[list[str]]]:
    """Head and rows of the monthly cost by each list, for the same rates."""
    head = ["rate", "cores, S3", "requests, S3", "storage, S3", "**S3**"]
    head += ["cores, S3 Tables", "requests, S3 Tables", "storage, S3 Tables", "compaction", "**S3 Tables**"]
    return head, [_prices(rate) for rate in _RATES]


def _prices(rate: float) -> list[str]:
    plain, tables = (need(_listed(name, Case(mib_per_second=rate))) for name in LISTS)
    first = [plain.compute, plain.requests, plain.storage, plain.price]
    second = [tables.compute, tables.requests, tables.storage, tables.compaction, tables.price]
    return [f"{rate:,g} MiB/s", *(f"{amount:,.0f}" for amount in (*first, *second))]


def _listed(name: str, case: Case) -> Case:
    values: dict[str, Any] = dict(LISTS[name])
    return replace(case, **values)


def intervals() -> tuple[list[str], list[list[str]]]:
    """Head and rows of what one topic's commit interval costs, with a compaction that merges all files."""
    head = ["commit interval", "commits/h", "files/h", "PUT/h", "HEAD, GET/h", "files compacted a day"]
    head += ["requests a month, S3", "compaction a month, S3 Tables"]
    rows = []
    for interval, seconds in _INTERVALS.items():
        case = Case(mib_per_second=0.1, interval_s=seconds)
        plain, tables = (need(_listed(name, case)) for name in LISTS)
        counts = (plain.commits, plain.files, plain.puts, plain.gets, plain.files * 24)
        rows.append([interval, *(f"{count:,.0f}" for count in counts), f"{plain.requests:,.2f}"])
        rows[-1].append(f"{tables.compaction:,.2f}")
    return head, rows


def price_lists() -> str:
    """The lists' prices, as a list."""
    plain, tables = LISTS["aws-s3"], LISTS["aws-s3-tables"]
    lines = (
        f"one core-hour ${plain['price_core_hour']:g} (half an m7g.large, Linux)",
        f"1,000 PUT ${plain['price_1000_put']:g}, 1,000 GET or HEAD ${plain['price_1000_get']:g}",
        f"S3 Standard: ${plain['price_gb_month']:g} per GB-month, the price of the first 50 TB",
        f"S3 Tables: ${tables['price_gb_month']:g} per GB-month",
        f"S3 Tables, monitoring: ${tables['price_1000_objects']:g} a month per 1,000 objects",
        f"S3 Tables, compaction: ${tables['price_1000_compacted']:g} per 1,000 objects, "
        f"${tables['price_gb_compacted']:g} per GB, once",
    )
    return "".join(f"- {line}\n" for line in lines)


def _row(rate: float, required: Need) -> list[str]:
    counts = [required.memory_gib, required.topics, required.commits, required.files]
    counts += [required.puts, required.gets, required.cores * _HOURS, required.gb]
    executors = str(required.executors) if required.executors else "none: `local[*]`"
    return [
        f"{rate:,g} MiB/s",
        _count(required.records),
        _count(required.cores),
        executors,
        *map(_count, counts),
    ]


def _count(number: float) -> str:
    return f"{number:,.0f}"


def assumptions() -> str:
    """The figures behind the table, as a list."""
    case = Case()
    return (
        f"- a record of {case.record_bytes:g} bytes, {case.cpu_us:g} µs of CPU until its row is committed, "
        f"and {case.compaction_us:g} µs to compact the row once; {case.row_bytes:g} bytes in Parquet\n"
        f"- cores busy {case.busy:.0%} of the time, executors of {case.executor_cores} cores\n"
        f"- a commit every {case.interval_s:g} s, or when {case.commit_bytes / _MIB:g} MiB are staged\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the requirements for the options; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prices", choices=LISTS, help="a price list; other options override it")
    for field in fields(Case):
        option = f"--{field.name.replace('_', '-')}"
        parser.add_argument(option, type=type(field.default), default=argparse.SUPPRESS)
    options = vars(parser.parse_args(arguments))
    listed: dict[str, Any] = dict(LISTS.get(options.pop("prices"), {}))
    required = need(Case(**{**listed, **options}))
    for name in (*(field.name for field in fields(Need)), "price"):
        sys.stdout.write(f"{name:<12}{getattr(required, name):>16,.0f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
