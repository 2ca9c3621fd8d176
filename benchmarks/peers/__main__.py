"""``make bench-peers``: this product beside what people use instead: same topic, broker, catalog and machine.

Each program runs alone, one after the other; the floor (decode and Parquet in one process) is measured before
each, as a machine's speed changes. Then each is killed, started again, and its rows are counted.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table as Screen

from benchmarks.load import Format, make_load
from benchmarks.measure import cpu_of_floor
from benchmarks.peers.measure import Figures, Sizes, measure
from benchmarks.peers.programs import PROGRAMS
from benchmarks.peers.site import Site, own_stack
from tabletopic_kernel.local.progress import CountBar
from tabletopic_kernel.model.errors import TableTopicError

_UNIT = 50_000  # distinct events of the load: each part is a multiple
_SHARE = {"loop": 10}  # of the records that others get, one in so many


@dataclass(frozen=True)
class Result:
    """A program's figures, and the floor that was measured just before it; None if it failed."""

    format: str
    floor_us: float
    figures: Figures | None
    error: str = ""


def main(arguments: list[str] | None = None) -> int:
    """Run all programs; returns the exit code: 1 if one failed."""
    options = _parser().parse_args(arguments)
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="tabletopic-peers-") as folder:
        for format_ in options.formats:
            for name in options.programs:
                results.append(_result(Path(folder) / f"{name}-{format_}", name, format_, options))
                Console(stderr=True).print(results[-1])
    if options.json:
        sys.stdout.write(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    else:
        Console().print(_screen(results))
    return int(any(result.error for result in results))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    names, shapes = ",".join(PROGRAMS), "avro,json,wide,two_ids,partitioned"
    parser.add_argument("--programs", type=_words, default=names, help=f"some of {names} (default: all)")
    parser.add_argument("--formats", type=_words, default="avro", help=f"some of {shapes} (default: avro)")
    parser.add_argument("--records", type=int, default=4_000_000, help="measured (default: %(default)s)")
    parser.add_argument("--warm-up", type=int, default=2_000_000, help="before (default: %(default)s)")
    parser.add_argument("--interval", type=int, default=5, help="seconds between commits (default: 5)")
    parser.add_argument(
        "--rate", type=int, default=500, help="records/s of the freshness part (default: 500)"
    )
    parser.add_argument("--seconds", type=int, default=40, help="of the freshness part (default: 40)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    return parser


def _result(folder: Path, name: str, format_: Format, options: argparse.Namespace) -> Result:
    """One program's measurement."""
    share = _SHARE.get(name, 1)
    parts = (options.warm_up // share, options.records // share, 200_000)
    warm_up, records, after_kill = (max(_UNIT, part // _UNIT * _UNIT) for part in parts)
    sizes = Sizes(warm_up, records, after_kill, options.rate, options.seconds)
    floor_us = 0.0
    try:
        with own_stack(folder) as bench:
            load = make_load(bench, "load", format_)
            with CountBar(sizes.warm_up + sizes.records, f"{name}: filling the topic", "records") as bar:
                load.send(bench, sizes.warm_up + sizes.records, bar.to)
            site = Site(bench, load, parallelism=2, interval_s=options.interval)
            metadata = site.create("floor").metadata.model_dump_json()
            floor_us = round(cpu_of_floor(metadata, load, 500_000), 2)
            return Result(format_, floor_us, measure(site, name, folder, sizes))
    except TableTopicError as error:
        return Result(format_, floor_us, None, f"{name}: {error}")


def _words(text: str) -> list[str]:
    return text.split(",")


def _screen(results: list[Result]) -> Screen:
    screen = Screen(title="Kafka to Iceberg, one machine", title_justify="left")
    columns = (
        "CPU µs",
        "floors",
        "records/s",
        "MiB",
        "files",
        "MiB a file",
        "after kill -9",
        "lost",
        "doubled",
    )
    for column in ("", *columns, "fresh p50", "p99"):
        screen.add_column(column, justify="right" if column else "left")
    for result in results:
        if (figures := result.figures) is None:
            screen.add_row(result.error.partition(":")[0], "failed")
            continue
        screen.add_row(
            f"{figures.program}, {result.format}",
            str(figures.cpu_us),
            f"{figures.cpu_us / result.floor_us:.1f}",
            f"{figures.records_per_second:,}",
            f"{figures.memory_mib:,}",
            f"{figures.files:,}",
            str(figures.file_mib),
            f"{figures.recovery_s} s",
            f"{figures.missing:,}",
            f"{figures.doubled:,}",
            f"{figures.freshness_p50_ms:,} ms",
            f"{figures.freshness_p99_ms:,} ms",
        )
    return screen


if __name__ == "__main__":
    sys.exit(main())
