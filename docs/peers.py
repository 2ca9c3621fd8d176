"""Other programs beside this one, as measured by ``make bench-peers``, and what a billion records cost."""

from __future__ import annotations

import json
from collections.abc import Callable
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
_TITLES: Final = {"avro": "Avro, 13 columns", "json": "JSON, 13 columns", "wide": "Avro, 100 columns"}
_PRICES: Final = LISTS["aws-s3"]
_CORE_HOUR: Final = _PRICES["price_core_hour"]
_WRITES: Final = ("PUT", "POST")  # DELETE is free, all others cost as much as GET


def _results() -> list[dict[str, Any]]:
    measured: list[dict[str, Any]] = json.loads((_EVIDENCE / "peers.json").read_text("utf-8"))
    return [result for result in measured if result["figures"]]


def pictures() -> dict[Path, Callable[[], str]]:
    """The picture, with the function that makes it."""
    return {_EVIDENCE / "peers-cpu.svg": _picture}


def _picture() -> str:
    costs = {
        _NAMES[result["figures"]["program"]]: result["figures"]["cpu_us"]
        for result in _results()
        if result["format"] == "avro"
    }
    return bars(costs, "CPU per record, Avro with 13 columns", "µs").svg + "\n"


def figures() -> Rows:
    """What each program costs in each format."""
    head = ["", "CPU per record", "times ours", "floor", "records/s", "memory at peak", "files", "of each"]
    results = _results()
    ours = {each["format"]: each["figures"]["cpu_us"] for each in results if _program(each) == "ours"}
    rows = [
        [
            _title(result),
            f"{(one := result['figures'])['cpu_us']:.2f} µs",
            f"{one['cpu_us'] / ours[result['format']]:.1f}",
            f"{result['floor_us']:.2f} µs",
            f"{one['records_per_second']:,}",
            f"{one['memory_mib']:,} MiB",
            f"{one['files']:,}",
            f"{one['file_mib']} MiB",
        ]
        for result in results
    ]
    return head, rows


def _program(result: dict[str, Any]) -> str:
    return str(result["figures"]["program"])


def _title(result: dict[str, Any]) -> str:
    return f"{_NAMES[_program(result)]}; {_TITLES[result['format']]}"


def promises() -> Rows:
    """What a kill costs, and how fresh the tables are."""
    head = ["", "next commit after `kill -9`", "rows lost", "rows doubled", "freshness, median", "99 of 100"]
    rows = [
        [
            _title(result),
            f"{(one := result['figures'])['recovery_s']} s",
            f"{one['missing']:,}",
            f"{one['doubled']:,}",
            f"{one['freshness_p50_ms'] / 1000:.1f} s",
            f"{one['freshness_p99_ms'] / 1000:.1f} s",
        ]
        for result in _results()
    ]
    return head, rows


def settings() -> Rows:
    """What differs from each program's defaults."""
    shown = {result["figures"]["program"]: result["figures"]["settings"] for result in _results()}
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
    lines = [
        f"measured: {run['records']:,} records of {run['bytes_per_record']} bytes, {run['commits']} commits, "
        f"{run['files']} files of {run['file_mib']} MiB, {run['records_per_second']:,} records/s",
        f"CPU: {run['cpu_us']} µs per record, {run['cpu_us'] / run['floor_us']:.1f} times the floor of "
        f"{run['floor_us']} µs",
        f"compute: {hours:.2f} core hours a billion at ${_CORE_HOUR:.4f}: "
        f"**${hours * _CORE_HOUR:.3f} a billion records**",
        f"requests to S3 a billion: {writes:,.0f} that write, {reads:,.0f} that read: ${requests:.3f}",
    ]
    return "".join(f"- {line}.\n" for line in lines)
