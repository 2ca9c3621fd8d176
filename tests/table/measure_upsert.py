"""What a commit of a table that is kept by key costs: python -m tests.table.measure_upsert.

Prints CPU microseconds a change of a commit with its look-up, and the CPU time of a sum by DuckDB before and
after; ``--rows`` and ``--changes`` may be repeated.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import uuid

import numpy as np
import pyarrow as pa

from tabletopic_kernel.model.ledger import StagedOffsets
from tabletopic_kernel.pipeline.conform import conform
from tabletopic_kernel.pipeline.write import DataFileWriter
from tabletopic_kernel.query.duckdb import DuckLake
from tabletopic_kernel.table.changes.change import appended
from tabletopic_kernel.table.changes.upsert.staged import Upsert
from tabletopic_kernel.table.changes.upsert.upserted import upserted
from tests.table.samples import sqlite_catalog
from tests.table.test_upsert import Upserts

_PER_FILE = 1_000_000
_COMMITS = 20


def _files(table: Upserts, keys: np.ndarray, lsn: int) -> tuple[object, ...]:
    plan = table.lake.topic.plan()
    writer = DataFileWriter(plan.metadata, plan.io_properties, 1)
    offsets = pa.array(np.arange(lsn, lsn + len(keys)))
    metadata = writer.target.field("_kafka_metadata").type
    place = pa.StructArray.from_arrays(
        [pa.repeat(pa.scalar(0, pa.int32()), len(keys)), offsets, offsets.cast(metadata[2].type)],
        fields=list(metadata),
    )
    columns = {
        "id": pa.array(keys),
        "value": pa.array(keys % 1000).cast(pa.int32()),
        "lsn": offsets,
        "text": pa.array([f"text {key % 97}" for key in keys.tolist()]),
        "_kafka_metadata": place,
    }
    return tuple(writer.write(pa.Table.from_batches([conform(columns, len(keys), writer.target)])))


def _sum(table: Upserts) -> float:
    lake = DuckLake(table.catalog)
    lake.sql("SELECT sum(value) FROM lake.default.clicks")
    began = time.process_time()
    lake.sql("SELECT sum(value) FROM lake.default.clicks")
    return time.process_time() - began


def measure(rows: int, changes: int) -> str:
    """One line."""
    dice = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        table = Upserts(sqlite_catalog(folder))
        keys, lsn = dice.permutation(rows), 1
        for start in range(0, rows, _PER_FILE):
            after = table.lake.ledger.advanced(StagedOffsets({0: 0}, {0: 0}), str(uuid.uuid4()))
            files = _files(table, keys[start : start + _PER_FILE], lsn)
            table.lake.topic.commit(table.lake.ledger, appended(after, files))  # type: ignore[arg-type]
            table.lake.ledger, lsn = after, lsn + _PER_FILE
        before, costs = _sum(table), []
        for _ in range(_COMMITS):
            updated = dice.choice(rows, changes * 85 // 100, replace=False)
            files = _files(table, np.concatenate([updated, np.arange(rows, rows + changes * 15 // 100)]), lsn)
            after = table.lake.ledger.advanced(StagedOffsets({0: 0}, {0: 0}), str(uuid.uuid4()))
            began = time.process_time()
            change = upserted(after, Upsert(table.settings, files, ()))  # type: ignore[arg-type]
            table.lake.topic.commit(table.lake.ledger, change)
            costs.append((time.process_time() - began) / changes * 1e6)
            table.lake.ledger, lsn = after, lsn + changes
        ratio = _sum(table) / before
    figures = f"{np.mean(costs):>11.1f} {np.min(costs):>8.1f} {before:>10.2f} {ratio:>7.2f}"
    return f"{rows:>12,} {changes:>9,} {figures}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, action="append")
    parser.add_argument("--changes", type=int, action="append")
    given = parser.parse_args()
    print("        rows   changes  µs/change  least   sum CPU s  after/before")  # noqa: T201
    for rows in given.rows or [1_000_000]:
        for changes in given.changes or [10_000]:
            print(measure(rows, changes), flush=True)  # noqa: T201
