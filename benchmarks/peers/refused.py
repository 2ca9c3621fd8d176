"""``python -m benchmarks.peers.refused``: one record in a thousand cannot be decoded; what becomes of it?

Each runs as its documentation shows it; then, where it has an option for such records, with that option.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, NestedField
from rich.console import Console

from benchmarks.load import Format, Load, make_load
from benchmarks.peers import kafka_connect, programs
from benchmarks.peers.measure import prepare, running
from benchmarks.peers.site import NAMESPACE, Site, growth, own_stack, rows_of, wrong_rows
from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.model.errors import TableTopicError

_EVERY = 1_000
_REST_S = 180.0  # without a new row: the program has stopped, or is done
_RUNS: Final[tuple[tuple[str, Format, bool], ...]] = (
    ("ours", "avro", False),
    ("spark", "avro", False),
    ("spark", "avro", True),
    ("connect", "avro", False),
    ("connect", "avro", True),
    ("flink", "avro", False),
    ("flink", "json", True),
    ("loop", "avro", False),
)
_REJECTED: Final = Schema(NestedField(1, "value", BinaryType()))
_OPTIONS: Final = (
    "mode",
    "errors.tolerance",
    "errors.deadletterqueue.topic.name",
    "json.ignore-parse-errors",
)


@dataclass(frozen=True)
class Outcome:
    """Of ``refused`` records among ``records``: ``kept`` are in a table or topic of their own.

    ``missing``: good records without a row. ``doubled``: rows that no good record accounts for. ``option``:
    how the program was told to go on; empty: as it comes.
    """

    program: str
    format: str
    option: str
    records: int
    refused: int
    kept: int
    missing: int
    doubled: int
    has_ended: bool


def damaged(load: Load) -> Load:
    """Every thousandth record is cut in half, and has no event."""
    records, events = list(load.records), list(load.event_ids)
    for at in range(_EVERY - 1, len(records), _EVERY):
        key, value = records[at]
        records[at], events[at] = (key, value[: len(value) // 2]), ""
    return replace(load, records=records, event_ids=tuple(events))


def outcome(folder: Path, name: str, format_: Format, records: int, *, tolerant: bool) -> Outcome:
    """One program on a stack of its own; raises TableTopicError if its table never gets a row."""
    with own_stack(folder) as bench:
        load = damaged(make_load(bench, "load", format_))
        records = max(1, records // len(load.records)) * len(load.records)
        load.send(bench, records, lambda _: None)
        site = Site(bench, load, parallelism=2, interval_s=5, tolerant=tolerant)
        table = prepare(site, name)
        if tolerant and name == "spark":
            site.catalog().create_table((NAMESPACE, programs.REJECTS), _REJECTED)
        refused = records // len(load.records) * load.event_ids.count("")
        program = programs.PROGRAMS[name](site, folder)
        with running(program, folder) as process:
            for _, rows in growth(site, table, _REST_S, lambda: process.poll() is None):
                if rows >= records - refused and _kept(site, name) >= (refused if tolerant else 0):
                    break
            has_ended = process.poll() is not None
        good = replace(load, event_ids=tuple(event for event in load.event_ids if event))
        missing, doubled = wrong_rows(replace(site, load=good), table, records - refused)
        kept = _kept(site, name)
    option = ", ".join(f"{key} {program.settings[key]}" for key in _OPTIONS if key in program.settings)
    return Outcome(name, format_, option, records, refused, kept, missing, doubled, has_ended)


def _kept(site: Site, name: str) -> int:
    """Refused records that are in a table or topic of their own so far."""
    if name == "ours":
        return site.bench.status(site.load.topic)[0].dead_letters
    if name == "spark":
        return rows_of(site.catalog(), f"{NAMESPACE}.{programs.REJECTS}")
    if name == "connect":
        broker = Broker(site.bench.servers.kafka)
        if kafka_connect.REJECTS in broker.topics():
            return sum(broker.end_offsets([kafka_connect.REJECTS])[kafka_connect.REJECTS].values())
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Print what became of the records as JSON; returns the exit code: 1 if a program could not be tried."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.refused", description=__doc__)
    parser.add_argument("--records", type=int, default=500_000, help="of each run (default: %(default)s)")
    parser.add_argument("--programs", default=",".join(programs.PROGRAMS), help="some of %(default)s")
    options = parser.parse_args(arguments)
    outcomes, failed = list[Outcome](), False
    with tempfile.TemporaryDirectory(prefix="tabletopic-peers-") as name:
        for program, format_, tolerant in _RUNS:
            if program not in options.programs.split(","):
                continue
            folder = Path(name) / f"{program}-{format_}-{tolerant}"
            try:
                outcomes.append(outcome(folder, program, format_, options.records, tolerant=tolerant))
                Console(stderr=True).print(outcomes[-1])
            except TableTopicError as error:
                Console(stderr=True).print(f"{program}: {error}")
                failed = True
    sys.stdout.write(json.dumps([asdict(outcome) for outcome in outcomes], indent=1) + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
