"""CPU time of staging good and bad records: ``python -m tests.ingest.measure_letters``."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC

from tabletopic_kernel.adapters.catalog import create_table, open_catalog
from tabletopic_kernel.commit.snapshot import TopicTable, base_properties
from tabletopic_kernel.core.dead_letter import SCHEMA as LETTERS
from tabletopic_kernel.core.evolution import table_schema
from tabletopic_kernel.core.settings import TopicSettings
from tabletopic_kernel.core.wire import prefix
from tabletopic_kernel.ingest.decoders import make_decoder
from tabletopic_kernel.ingest.plan import StagePlan, WriterSchema
from tabletopic_kernel.ingest.stage import LoadedPlan, Stage
from tests.ingest.measure_avro import CLICK, clicks
from tests.ingest.test_stage import SOURCE

RECORDS = 65_536
ROUNDS = 5


def make_plan(root: str) -> StagePlan:
    """A plan for the clicks, schema id 7, and another schema of the same columns, id 8."""
    catalog = open_catalog(
        {"name": "lake", "type": "sql", "uri": f"sqlite:///{root}/c.db", "warehouse": f"file://{root}/w"}
    )
    writer, spec = WriterSchema(json.dumps(CLICK)), UNPARTITIONED_PARTITION_SPEC
    schema = table_schema(make_decoder(7, writer).iceberg_schema, TopicSettings())
    table = TopicTable.create(catalog, ("default", "clicks"), schema, spec, "clicks", TopicSettings())
    letters = create_table(catalog, ("default", "letters"), LETTERS, spec, base_properties())
    return StagePlan(
        topic="clicks",
        table=table.plan(),
        dead_letters=TopicTable(letters).plan(),
        epoch=1,
        schemas={7: writer, 8: writer},
        refused_schemas={9: ("unknown_schema", "the registry has no schema id 9")},
        covers_tombstones=False,
        transform="flatten",
        framed=True,
        errors="dead_letter",
        key_format="raw",
        metadata_columns=("key", "header", "metadata"),
    )


def batch(values: list[bytes]) -> pa.RecordBatch:
    """What the source gives for them."""
    count = len(values)
    columns = [
        pa.array(values, pa.binary()),
        pa.array([b"k"] * count, pa.binary()),
        pa.nulls(count, SOURCE.field("headers").type),
        pa.array([0] * count, pa.int32()),
        pa.array(range(count), pa.int64()),
        pa.array([0] * count, pa.timestamp("us", "UTC")),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SOURCE)


def measure(name: str, plan: StagePlan, bad: Callable[[int, bytes], bytes], against: float = 0) -> float:
    """µs of CPU per record, the best of some rounds; printed with its ratio to ``against``."""
    values = batch([bad(at, value) for at, value in enumerate(clicks(RECORDS))])
    loaded = LoadedPlan(plan)
    best = float("inf")
    for _ in range(ROUNDS):
        stage = Stage(loaded)
        began = time.process_time()
        stage.take(values)
        stage.finish()
        best = min(best, (time.process_time() - began) / RECORDS * 1e6)
    ratio = f"  {best / against:5.2f} x" if against else ""
    sys.stdout.write(f"{name:44} {best:6.2f} µs{ratio}\n")
    return best


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as root:
        plan = make_plan(root)
        good = measure("all good", plan, lambda _, value: value)
        two = {1: prefix(8)}
        measure("two ids, alternating", plan, lambda at, v: two[1] + v[5:] if at % 2 else v, good)
        measure("1 of 1,000 cut", plan, lambda at, v: v if at % 1000 else v[:-3], good)
        measure("1 of 1,000 without a schema id", plan, lambda at, v: v if at % 1000 else b"bad", good)
        measure("1 of 1,000 of an unknown id", plan, lambda at, v: v if at % 1000 else prefix(9) + b"x", good)
        measure("all cut", plan, lambda _, v: v[:-3])
        measure("all without a schema id", plan, lambda _, v: v[5:])
        measure("all of an unknown id", plan, lambda _, v: prefix(9) + v[5:])
        measure("all cut, skipped", replace(plan, errors="skip"), lambda _, v: v[:-3])


if __name__ == "__main__":
    main()
