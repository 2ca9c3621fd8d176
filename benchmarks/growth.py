"""``python -m benchmarks.growth``: what a record costs with more columns, and a query with more files.

One process, no broker, no Spark; CPU time. Records are Avro of 5 to 200 columns, decoded and written to
Parquet. The files have the same million rows of the clickstream, whether one has all or 10,000 share them.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids

from benchmarks import wide
from benchmarks.aging import QUERY, Life, cpu_ms
from benchmarks.load import Load
from benchmarks.measure import cpu_of_floor
from tabletopic_kernel.clients.catalog.catalog import create_table, open_catalog
from tabletopic_kernel.query.duckdb import DuckLake

_WIDTHS: Final = (5, 13, 50, 100, 200)
_FILES: Final = (1, 10, 100, 1_000, 10_000)
_DISTINCT, _RECORDS, _EVENTS = 5_000, 200_000, 10_000


@dataclass(frozen=True)
class Width:
    """Records of so many columns: bytes, and µs of CPU to decode one and write it to Parquet."""

    columns: int
    bytes_per_record: int
    cpu_us: float


@dataclass(frozen=True)
class Files:
    """A table of so many files: ms of CPU for PyIceberg's plan, and for DuckDB's sum over all rows."""

    files: int
    plan_ms: float
    query_ms: float


@dataclass(frozen=True)
class Growth:
    """What grows with what; ``rows`` of the tables of files."""

    widths: tuple[Width, ...]
    rows: int
    files: tuple[Files, ...]


def width(folder: Path, columns: int) -> Width:
    """Measure records of so many columns."""
    names = wide.columns(columns)
    text = wide.schema(names)
    encode = wide.encoder(7, text)
    records = [(b"", encode(event)) for event in wide.events(_DISTINCT, columns=names)]
    load = Load("load", "wide", 7, records, schema=text)
    uri, warehouse = f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse"
    with closing(open_catalog({"type": "sql", "uri": uri, "warehouse": warehouse})) as catalog:
        schema = assign_fresh_schema_ids(load.decoder(Schema()).iceberg_schema)
        metadata = create_table(catalog, ("default", f"wide_{columns}"), schema, PartitionSpec(), {}).metadata
    cpu_us = cpu_of_floor(metadata.model_dump_json(), load, _RECORDS)
    return Width(columns, round(load.bytes_per_record), round(cpu_us, 2))


def files(folder: Path, count: int, rows: int) -> Files:
    """Measure a table whose rows are in so many files; all come in one commit."""
    folder.mkdir()
    each = rows // count
    life = Life(folder, min(each, _EVENTS), max(1, each // _EVENTS))
    life.append(count)
    with closing(life.catalog), closing(DuckLake(life.catalog)) as lake:
        table = life.table.table
        return Files(count, cpu_ms(lambda: [*table.scan().plan_files()]), cpu_ms(lambda: lake.sql(QUERY)))


def main(arguments: list[str] | None = None) -> int:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of a table (default: %(default)s)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="tabletopic-bench-") as name:
        folder = Path(name)
        widths = tuple(width(folder, columns) for columns in _WIDTHS)
        counts = tuple(files(folder / str(count), count, options.rows) for count in _FILES)
    sys.stdout.write(json.dumps(asdict(Growth(widths, options.rows, counts)), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
