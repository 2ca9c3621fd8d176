"""Other programs beside this one, as measured by ``make bench-peers``, and what a billion records cost."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from docs.sizing import LISTS
from tabletopic_kernel.render.picture import bars

Rows = tuple[list[str], list[list[str]]]

_EVIDENCE = Path(__file__).with_name("evidence")
_NAMES: Final = {
    "ours": "Table Topic",
    "spark": "Spark, Iceberg's sink",
    "connect": "Kafka Connect, Iceberg's sink",
    "flink": "Flink SQL, Iceberg's sink",
    "loop": "loop with PyIceberg",
}
_TITLES: Final = {
    "avro": "Avro, 13 columns",
    "json": "JSON, 13 columns",
    "wide": "Avro, 100 columns",
    "two_ids": "Avro, 13 columns, schema ids of two versions in turns",
    "partitioned": "Avro, 13 columns, 50 partitions of the table at once",
}
_BY_KEY: Final = {"ours": _NAMES["ours"], "spark": "Spark, `MERGE INTO`", "flink": "Flink SQL, upsert"}
_READERS: Final = "DuckDB, sum", "PyIceberg, sum"
_PRICES: Final = LISTS["aws-s3"]
_CORE_HOUR: Final = _PRICES["price_core_hour"]
_WRITES: Final = ("PUT", "POST")  # DELETE is free, all others cost as much as GET


def _runs() -> dict[str, list[dict[str, Any]]]:
    """The results of each format's run; formats of one run share a file."""
    measured = [result for path in sorted(_EVIDENCE.glob("peers-*.json")) for result in _read(path.stem)]
    formats = [name for name in _TITLES if any(result["format"] == name for result in measured)]
    return {
        name: [result for result in measured if result["format"] == name and result["figures"]]
        for name in formats
    }


def _read(name: str) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = json.loads((_EVIDENCE / f"{name}.json").read_text("utf-8"))
    return results


def pictures() -> dict[Path, Callable[[], str]]:
    """The pictures, each with the function that makes it."""
    return {
        _EVIDENCE / f"peers-{name}.svg": partial(_picture, name, results) for name, results in _runs().items()
    }


def _picture(name: str, results: list[dict[str, Any]]) -> str:
    costs = {_NAMES[_program(result)]: result["figures"]["cpu_us"] for result in results}
    return bars(costs, f"CPU per record, {_TITLES[name]}", "µs").svg + "\n"


def figures() -> dict[str, Rows]:
    """What each program costs, by format."""
    head = [
        "",
        "CPU per record",
        "times ours",
        "floor",
        "times the floor",
        "records/s",
        "memory at peak",
        "files",
        "of each",
    ]
    return {_TITLES[name]: (head, _figures(results)) for name, results in _runs().items()}


def _figures(results: list[dict[str, Any]]) -> list[list[str]]:
    ours = next(result["figures"]["cpu_us"] for result in results if _program(result) == "ours")
    return [
        [
            _NAMES[_program(result)],
            f"{measured['cpu_us']:.2f} µs",
            f"{measured['cpu_us'] / ours:.1f}",
            f"{result['floor_us']:.2f} µs",
            f"{measured['cpu_us'] / result['floor_us']:.1f}",
            f"{measured['records_per_second']:,}",
            f"{measured['memory_mib']:,} MiB",
            f"{measured['files']:,}",
            f"{measured['file_mib']:.2g} MiB",
        ]
        for result in results
        for measured in [result["figures"]]
    ]


def _program(result: dict[str, Any]) -> str:
    return str(result["figures"]["program"])


def promises() -> dict[str, Rows]:
    """What a kill costs, and how fresh the tables are, by format."""
    head = ["", "next commit after `kill -9`", "rows lost", "rows doubled", "freshness, median", "99 of 100"]
    return {_TITLES[name]: (head, _promises(results)) for name, results in _runs().items()}


def _promises(results: list[dict[str, Any]]) -> list[list[str]]:
    return [
        [
            _NAMES[_program(result)],
            f"{measured['recovery_s']} s",
            f"{measured['missing']:,}",
            f"{measured['doubled']:,}",
            f"{measured['freshness_p50_ms'] / 1000:.1f} s",
            f"{measured['freshness_p99_ms'] / 1000:.1f} s",
        ]
        for result in results
        for measured in [result["figures"]]
    ]


def refused() -> Rows:
    """What becomes of records that cannot be decoded, and of the others."""
    head = ["", "option for such records", "good rows missing", "rows too many", "bad records kept"]
    rows = [
        [
            f"{_NAMES[run['program']]}, {_TITLES[run['format']].partition(',')[0]}",
            f"`{run['option']}`" if run["option"] else "",
            f"{run['missing']:,} of {run['records'] - run['refused']:,}",
            f"{run['doubled']:,}",
            f"{run['kept']:,} of {run['refused']:,}",
        ]
        for run in _read("refused")
    ]
    return head, rows


def changes() -> Rows:
    """What changes by key cost, and who can read the result."""
    head = [
        "",
        "rows",
        "changes",
        "CPU per change",
        "a round, median",
        "memory at peak",
        "delete files",
        *_READERS,
    ]
    rows = [
        [
            _BY_KEY[run["program"]],
            f"{run['rows']:,}",
            f"{run['changes']:,}",
            f"{run['cpu_us']:,.0f} µs",
            f"{run['seconds']} s",
            f"{run['peak_mib']:,} MiB",
            f"{run['delete_files']:,}",
            *(_reading(run, reader) for reader in ("duckdb", "pyiceberg")),
        ]
        for run in _read("changes")
    ]
    return head, rows


def _reading(run: dict[str, Any], reader: str) -> str:
    return str(run["wrong"].get(reader) or f"{run[f'{reader}_ms']:,} ms")


def settings() -> Rows:
    """What differs from each program's defaults."""
    shown = {_program(each): each["figures"]["settings"] for run in _runs().values() for each in run}
    rows = [
        [_NAMES[name], ", ".join(f"`{key}` {text}" for key, text in settings.items())]
        for name, settings in shown.items()
    ]
    return ["", "settings"], rows


def price() -> str:
    """The published shape: what was measured, and what a billion records cost at list prices."""
    run: dict[str, Any] = json.loads((_EVIDENCE / "published.json").read_text("utf-8"))
    hours = run["cpu_us"] * 1e9 / 1e6 / 3600
    billions = (run["records"] + run["warm_up"]) / 1e9
    a_billion = {method: count / billions for method, count in sorted(run["requests"].items())}
    writes = sum(a_billion.get(method, 0) for method in _WRITES)
    reads = sum(a_billion.values()) - writes - a_billion.get("DELETE", 0)
    requests = (writes * _PRICES["price_1000_put"] + reads * _PRICES["price_1000_get"]) / 1000
    rows = run["records"] + run["warm_up"]
    row_bytes = run["files"] * run["file_mib"] * 2**20 / rows
    lines = [
        f"measured: {run['records']:,} records of {run['bytes_per_record']} bytes, {run['commits']} commits, "
        f"{run['files']} files of {run['file_mib']} MiB, {run['records_per_second']:,} records/s",
        f"CPU: {run['cpu_us']} µs per record, {run['cpu_us'] / run['floor_us']:.1f} times the floor of "
        f"{run['floor_us']} µs",
        f"compute: {hours:.2f} core hours a billion at ${_CORE_HOUR:.4f}: "
        f"**${hours * _CORE_HOUR:.3f} a billion records**",
        f"requests to S3 a billion: {writes:,.0f} that write, {reads:,.0f} that read: ${requests:.3f}",
        f"files: a row takes {row_bytes:.1f} bytes of Parquet, a million records {row_bytes:.1f} MB, so a "
        f"file of 64 MiB needs {64 * 2**20 / row_bytes / 1e6:.1f} million records of one task",
    ]
    return "".join(f"- {line}.\n" for line in lines)
