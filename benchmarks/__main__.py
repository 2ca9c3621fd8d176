"""``make bench``: CPU per record of the whole path and of its lower bound, and freshness at a low rate.

Instead, with and without maintenance: ``--commits``: how a table ages (``--calls``: counted, not timed);
``--day``: what a record costs. ``--topics``: what many topics cost one host.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table as Screen

from benchmarks.aging import Age, age, calls
from benchmarks.day import WARM_UP_S, day
from benchmarks.load import FORMATS, Format, make_load
from benchmarks.measure import (
    cpu_of_path,
    floor,
    freshness_ms,
    rewriting,
    running_host,
    seconds_of_batches,
)
from benchmarks.topics import PARTITIONS, Topics, many_topics, screen_of
from tabletopic_kernel.local.progress import CountBar, TerminalReport
from tabletopic_kernel.local.stack import LocalStack, StackInfo
from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.workbench import Workbench

_WARM_UP = 4_000_000  # records before the measurement, while the JVM compiles its hot paths
_BATCH_AIMS_S = {4: 0.6, 10: 1.0, 100: 2.0}
_AIMS_US: dict[Format, float] = {"avro": 2.0, "protobuf": 2.3, "json": 5.0}


@dataclass(frozen=True)
class Result:
    """CPU in µs per record; freshness in ms from a record's timestamp to its commit, None if not measured.

    ``batch_seconds``: of a batch of 2,000 records, by the topic's partitions.
    """

    format: Format
    bytes_per_record: int
    records: int
    cpu_us_per_record: float
    cpu_us_jvm: float
    cpu_us_python: float
    floor_us_per_record: float
    rewrite_us_per_row: float
    records_per_second: float
    freshness_records: int
    freshness_p50_ms: float | None
    freshness_p99_ms: float | None
    batch_seconds: dict[int, float]


def main(arguments: list[str] | None = None) -> int:
    """Run the requested benchmark; returns the exit code."""
    options = (parser := _parser()).parse_args(arguments)
    if options.calls and not options.commits:
        parser.error("--calls needs --commits")
    if options.calls:
        return _calls(options.commits, as_json=options.json)
    if options.commits:
        return _aging(options.commits, as_json=options.json)
    if options.day:
        return _day(options.day, options.noon, as_json=options.json)
    with tempfile.TemporaryDirectory(prefix="tabletopic-bench-") as folder:
        local = LocalStack(Path(folder), TerminalReport())
        try:
            stack = local.up(die_with_parent=True)
            if options.topics:
                return _topics(stack, options)
            result = _measure(
                stack, options.format, options.records, options.warm_up, options.seconds, options.partitions
            )
        except TableTopicError as error:
            sys.stderr.write(f"error: {error}\n")
            return 1
        finally:
            local.down()
    if options.json:
        sys.stdout.write(json.dumps(asdict(result), indent=2) + "\n")
    else:
        Console().print(_screen(result))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--format", choices=FORMATS, default="avro", help="format of the values (default: avro)"
    )
    parser.add_argument(
        "--records", type=int, default=4_000_000, help="records to measure (default: %(default)s)"
    )
    parser.add_argument(
        "--warm-up", type=int, default=_WARM_UP, help="records before these (default: %(default)s)"
    )
    parser.add_argument(
        "--seconds",
        type=int,
        default=60,
        help="length of the freshness run at 500 records/s, 0: no run; with --topics, of each run",
    )
    parser.add_argument(
        "--partitions",
        type=_numbers,
        default="4,10,100",
        help="partitions of the topics whose batches are timed, or with --topics of further runs of one "
        "topic; empty: none (default: %(default)s)",
    )
    parser.add_argument(
        "--commits",
        type=int,
        help="measure how a table ages over this many commits, with and without maintenance",
    )
    parser.add_argument(
        "--calls",
        action="store_true",
        help="with --commits: count the function calls of each commit, with maintenance, instead of CPU time",
    )
    parser.add_argument(
        "--day",
        type=int,
        metavar="SECONDS",
        help="measure what maintenance costs over a day that is compressed to this many seconds",
    )
    parser.add_argument(
        "--topics",
        type=_numbers,
        metavar="COUNTS",
        help="measure what so many topics cost a host, such as 1,10,100",
    )
    parser.add_argument(
        "--noon", type=int, default=1_500, help="records per second at the day's peak (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    return parser


def _aging(commits: int, *, as_json: bool) -> int:
    ages: dict[str, Age] = {}
    for name, maintained in (("with maintenance", True), ("without", False)):
        with (
            tempfile.TemporaryDirectory(prefix="tabletopic-bench-") as folder,
            CountBar(commits, name, "commits") as bar,
        ):
            ages[name] = age(Path(folder), commits, bar.to, maintained=maintained)
    if as_json:
        results = {name: asdict(result) for name, result in ages.items()}
        sys.stdout.write(json.dumps(results, indent=1) + "\n")
    else:
        Console().print(_ages(ages))
    return 0


def _calls(commits: int, *, as_json: bool) -> int:
    with (
        tempfile.TemporaryDirectory(prefix="tabletopic-bench-") as folder,
        CountBar(commits, "counting calls", "commits") as bar,
    ):
        spread = calls(Path(folder), commits, bar.to)
    if as_json:
        sys.stdout.write(json.dumps(asdict(spread)) + "\n")
    else:
        sys.stdout.write(
            f"function calls of a commit, as multiples of the first hundred's median: "
            f"median {spread.median}, 99 of 100 at most {spread.p99}, most {spread.slowest}\n"
        )
    return 0


def _day(seconds: int, noon: int, *, as_json: bool) -> int:
    with (
        tempfile.TemporaryDirectory(prefix="tabletopic-bench-") as folder,
        CountBar(WARM_UP_S + seconds, "a day", "seconds") as bar,
    ):
        days = day(Path(folder), seconds, noon, bar.to)
    if as_json:
        sys.stdout.write(json.dumps({name: asdict(result) for name, result in days.items()}, indent=1) + "\n")
        return 0
    screen = Screen(title="The shape of a day", title_justify="left")
    for column in ("", "records", "CPU per record", "data files", "compactions", "expiries"):
        screen.add_column(column, justify="right" if column else "left")
    for name, result in days.items():
        counts = result.data_files, result.compactions, result.expiries
        screen.add_row(name, f"{result.records:,}", f"{result.cpu_us_per_record} µs", *map(str, counts))
    costs = [result.cpu_us_per_record for result in days.values()]
    screen.caption = f"with maintenance {costs[0] / costs[1]:.2f} times as much; aim: ≤ 1.5"
    Console().print(screen)
    return 0


def _topics(stack: StackInfo, options: argparse.Namespace) -> int:
    seconds = options.seconds
    runs = [(count, PARTITIONS) for count in options.topics]
    runs += [(1, partitions) for partitions in options.partitions]
    workbench = Workbench(Settings(state_dir=str(stack.state_dir)))
    results: list[Topics] = []
    for count, partitions in runs:
        with CountBar(2 * seconds, f"{count} topics", "seconds") as bar:
            results.append(many_topics(stack, workbench, count, partitions, seconds, bar.to))
    if options.json:
        sys.stdout.write(json.dumps([asdict(result) for result in results], indent=1) + "\n")
        return 0
    Console().print(screen_of(results))
    return 0


def _ages(ages: Mapping[str, Age]) -> Screen:
    screen = Screen(title="A table ages: CPU time, ms", title_justify="left")
    columns = "commits", "commit", "fresh table", "slowest", "plan", "query", "metadata", "files", "snapshots"
    for column in ("", *columns):
        screen.add_column(column, justify="right" if column else "left")
    for name, result in ages.items():
        every = max(1, len(result.samples) // 5)
        for sample in result.samples[every - 1 :: every]:
            commit_ms = sample.commit_ms, sample.fresh_ms, sample.slowest_ms
            figures = (*commit_ms, sample.plan_ms, sample.query_ms)
            counts = f"{sample.data_files:,}", f"{sample.snapshots:,}"
            size = f"{sample.metadata_bytes / 1024:,.0f} KB"
            screen.add_row(name, f"{sample.commits:,}", *map(str, figures), size, *counts)
    maintained = ages["with maintenance"]
    screen.caption = (
        f"with maintenance a commit costs {maintained.commits.median} times a fresh table's, 99 of 100 "
        f"at most {maintained.commits.p99} times; compaction and expiry: "
        f"{maintained.maintenance_us} µs per row"
    )
    return screen


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


def _measure(
    stack: StackInfo, format_: Format, records: int, warm_up: int, seconds: int, partitions: list[int]
) -> Result:
    workbench = Workbench(Settings(state_dir=str(stack.state_dir)))
    load = make_load(workbench, "load", format_)
    total = records + warm_up
    with CountBar(total, "filling the topic", "records") as bar:
        load.send(workbench, total, bar.to)
    with running_host(stack) as host:
        jvm, python, rate = cpu_of_path(workbench, host, load, records, warm_up)
        waits = freshness_ms(workbench, seconds) if seconds else np.empty(0)
        batches = seconds_of_batches(workbench, partitions)
    p50, p99 = (round(float(np.percentile(waits, part))) if len(waits) else None for part in (50, 99))
    return Result(
        format=format_,
        bytes_per_record=round(load.bytes_per_record),
        records=records,
        cpu_us_per_record=round(jvm + python, 2),
        cpu_us_jvm=round(jvm, 2),
        cpu_us_python=round(python, 2),
        floor_us_per_record=round(floor(workbench, load, records // 4), 2),
        rewrite_us_per_row=round(rewriting(workbench, load), 2),
        records_per_second=round(rate),
        freshness_records=len(waits),
        freshness_p50_ms=p50,
        freshness_p99_ms=p99,
        batch_seconds=batches,
    )


def _screen(result: Result) -> Screen:
    title = f"Clickstream, {result.format}, 13 fields, {result.bytes_per_record} bytes"
    screen = Screen(title=title, title_justify="left")
    screen.add_column("what")
    screen.add_column("measured", justify="right")
    screen.add_column("aim", justify="right")
    aim = _AIMS_US.get(result.format)
    screen.add_row(
        f"CPU per record, {result.records:,} records",
        f"{result.cpu_us_per_record} µs",
        f"≤ {aim} µs" if aim else "",
    )
    screen.add_row("  of it in the JVM", f"{result.cpu_us_jvm} µs", "")
    screen.add_row("  of it in Python", f"{result.cpu_us_python} µs", "")
    screen.add_row("floor: decode + Parquet, one process", f"{result.floor_us_per_record} µs", "")
    screen.add_row("compaction, per row", f"{result.rewrite_us_per_row} µs", "≤ 1.9 µs")
    screen.add_row("records per second, wall clock", f"{result.records_per_second:,.0f}", "")
    if result.freshness_p50_ms is not None and result.freshness_p99_ms is not None:
        screen.add_row("record to queryable at 500/s, median", f"{result.freshness_p50_ms:,.0f} ms", "")
        screen.add_row(
            "record to queryable at 500/s, p99", f"{result.freshness_p99_ms:,.0f} ms", "≤ 1,500 ms"
        )
    for partitions, seconds in result.batch_seconds.items():
        aim = _BATCH_AIMS_S.get(partitions)
        name = f"a batch of 2,000 records in {partitions} partitions"
        screen.add_row(name, f"{seconds} s", f"≤ {aim} s" if aim else "")
    return screen


if __name__ == "__main__":
    sys.exit(main())
