"""How tables age, as measured by ``benchmarks``: pictures and tables of small commits, a table of changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tabletopic_kernel.render.picture import lines

MEASURED = Path(__file__).with_name("evidence") / "aging.json"
Rows = tuple[list[str], list[list[str]]]

# For each picture: what it shows, the unit, and the figure of a sample.
_PICTURES: dict[str, tuple[str, str, Callable[[dict[str, Any]], float]]] = {
    "commit": (
        "CPU time of a commit, beside a fresh table's",
        "times as much, medians",
        lambda sample: sample["commit_ms"] / sample["fresh_ms"],
    ),
    "plan": ("CPU time to plan a scan of all files", "ms", lambda sample: sample["plan_ms"]),
    "query": ("CPU time of a sum over all rows by DuckDB", "ms", lambda sample: sample["query_ms"]),
    "metadata": ("Size of metadata.json", "KB", lambda sample: sample["metadata_bytes"] / 1024),
}


def _ages() -> dict[str, dict[str, Any]]:
    ages: dict[str, dict[str, Any]] = json.loads(MEASURED.read_text("utf-8"))
    return ages


def pictures() -> dict[Path, Callable[[], str]]:
    """The files of all pictures, each with the function that makes it."""
    return {MEASURED.with_name(f"aging-{name}.svg"): partial(_picture, name) for name in _PICTURES}


def _picture(name: str) -> str:
    title, unit, figure = _PICTURES[name]
    series = {
        variant: [(float(sample["commits"]), figure(sample)) for sample in age["samples"]]
        for variant, age in _ages().items()
    }
    return lines(series, title, "commits", unit).svg + "\n"


def figures() -> Rows:
    """First and last value of each figure, with and without maintenance."""
    ages = _ages()
    rows = []
    for title, unit, figure in _PICTURES.values():
        values = [_short(figure(age["samples"][at])) for age in ages.values() for at in (0, -1)]
        rows.append([title, unit.split(",")[0], *values])
    for title, key in (("data files", "data_files"), ("snapshots", "snapshots")):
        rows.append([title, "", *(f"{age['samples'][at][key]:,}" for age in ages.values() for at in (0, -1))])
    commits = [f"{age['samples'][at]['commits']:,}" for age in ages.values() for at in (0, -1)]
    variants = [variant for variant in ages for _ in (0, -1)]
    head = [f"{variant}, {count}" for variant, count in zip(variants, commits, strict=True)]
    return ["", "unit", *head], rows


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.1f}"


def ratio() -> str:
    """Commits compared with those of a fresh table, and the cost of maintenance."""
    ages = _ages()
    sentences = []
    for variant, age in ages.items():
        commits, fresh = age["commits"], age["fresh"]
        sentences.append(
            f"{variant}: a commit costs {commits['median']:.1f} times as much as a fresh table's at the "
            f"same time, 99 of 100 at most {commits['p99']:.1f} times, the slowest {commits['slowest']:.1f}. "
            f"The fresh tables' own commits vary as well: 99 of 100 cost at most {fresh['p99']:.1f} times "
            f"their median, the slowest {fresh['slowest']:.1f}"
        )
    cost = f"compaction and expiry cost {ages['with maintenance']['maintenance_us']:.1f} µs of CPU per row"
    return "".join(f"- {sentence}.\n" for sentence in [*sentences, cost])


def changes() -> Rows:
    """What changes cost in tables kept by key, and a sum over these before and after."""
    head = [
        "rows",
        "changes of a commit",
        "CPU per change",
        "in the cheapest commit",
        "DuckDB, sum",
        "after 20 commits",
    ]
    return head, [
        [f"{run['rows']:,}", f"{run['changes']:,}", f"{run['stage_us'] + run['commit_us']:.0f} µs"]
        + [f"{run['stage_us'] + run['commit_us_least']:.0f} µs"]
        + [f"{run[name]:,.0f} ms" for name in ("query_ms", "query_ms_after")]
        for run in _read("upserts")
    ]


def freshness() -> Rows:
    """How long after a change in a database a query sees it."""
    run = _read("freshness")
    head = ["rows", "changes per second", "interval", "commits in a minute", "median", "99 of 100", "longest"]
    times = [f"{run[name]} s" for name in ("p50_s", "p99_s", "longest_s")]
    return head, [[f"{run['rows']:,}", str(run["rate"]), run["interval"], str(run["commits"]), *times]]


def columns() -> Rows:
    """What a record costs with more columns."""
    rows = [
        [
            str(run["columns"]),
            f"{run['bytes_per_record']:,}",
            f"{run['cpu_us']:.2f} µs",
            f"{1e3 * run['cpu_us'] / run['columns']:.0f} ns",
            f"{1e3 * run['cpu_us'] / run['bytes_per_record']:.1f} ns",
        ]
        for run in _read("growth")["widths"]
    ]
    return ["columns", "bytes of a record", "CPU per record", "per value", "per byte"], rows


def files() -> Rows:
    """What the same rows cost in more files."""
    rows = [
        [f"{run['files']:,}", f"{run['plan_ms']:,.0f} ms", f"{run['query_ms']:,.0f} ms"]
        for run in _read("growth")["files"]
    ]
    return ["files", "PyIceberg's plan", "DuckDB's sum"], rows


def topics() -> Rows:
    """What more topics and more partitions cost a host."""
    head = ["topics", "partitions of each", "cores without records", "memory", "cores with records"]
    rows = [
        [
            *(str(run[name]) for name in ("topics", "partitions", "quiet_cores")),
            f"{run['quiet_mib']:,} MiB",
            str(run["busy_cores"]),
            f"{run['commit_ms']} ms",
            f"{run['slowest_s']} s",
        ]
        for run in _read("topics")
    ]
    return [*head, "CPU of a commit", "slowest record"], rows


def _read(name: str) -> Any:
    return json.loads(MEASURED.with_name(f"{name}.json").read_text("utf-8"))
