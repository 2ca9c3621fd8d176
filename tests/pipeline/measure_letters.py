"""CPU time of staging good and bad records: ``python -m tests.pipeline.measure_letters [format…]``.

Decode, conform and write, as a task does; 1 of 1,000 and all records bad, and two schema ids in turns.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema

from tabletopic_kernel.clients.catalog.catalog import create_table, open_catalog
from tabletopic_kernel.formats.decoder import inferring_decoder, make_decoder
from tabletopic_kernel.formats.wire import WriterSchema, prefix
from tabletopic_kernel.model.columns.table_columns import table_schema
from tabletopic_kernel.model.dead_letter import SCHEMA as LETTERS
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.decode import LoadedPlan
from tabletopic_kernel.pipeline.plan import WHOLE_TOPIC, SchemaPlan, StagePlan
from tabletopic_kernel.pipeline.stage import stage_files
from tabletopic_kernel.table.topic_table import TopicTable, base_properties
from tests.formats import measure_avro, measure_json, measure_protobuf
from tests.pipeline.source import SOURCE

RECORDS = 65_536
ROUNDS = 5
Damage = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Format:
    """Records of a format, as Kafka has them, and what may be wrong with one."""

    writer: WriterSchema
    values: Callable[[int], list[bytes]]
    damage: dict[str, Damage]


def _json_values(count: int) -> list[bytes]:
    return [prefix(7) + value for value in measure_json.clicks(count)]


CUT: dict[str, Damage] = {"cut": lambda value: value[:-3]}
FRAMED: dict[str, Damage] = {
    "without a schema id": lambda value: b"bad" + value[5:],
    "of an unknown id": lambda value: prefix(9) + value[5:],
}
FORMATS = {
    "avro": Format(WriterSchema(json.dumps(measure_avro.CLICK)), measure_avro.clicks, CUT | FRAMED),
    "protobuf": Format(
        WriterSchema(measure_protobuf.CLICK, kind="PROTOBUF"),
        measure_protobuf.clicks,
        CUT
        | {
            "of a year 12000": measure_protobuf.far_away,
            "with another message": lambda value: value[:5] + b"\x02\x02" + value[6:],
        }
        | FRAMED,
    ),
    "json_schema": Format(
        WriterSchema(json.dumps(measure_json.CLICK), kind="JSON"), _json_values, measure_json.DAMAGE | FRAMED
    ),
    "json": Format(WriterSchema(kind="INFERRED"), measure_json.clicks, measure_json.DAMAGE),
}


def make_plan(root: str, form: Format) -> StagePlan:
    """A plan for the records, schema id 7, and another schema of the same columns, id 8."""
    catalog = open_catalog(
        {"name": "lake", "type": "sql", "uri": f"sqlite:///{root}/c.db", "warehouse": f"file://{root}/w"}
    )
    writer, spec = form.writer, UNPARTITIONED_PARTITION_SPEC
    framed = writer.kind != "INFERRED"
    columns = _columns(form)
    schema = table_schema(columns, TopicSettings())
    table = TopicTable.create(catalog, ("default", "clicks"), schema, spec, "clicks", TopicSettings())
    dead_letters = create_table(catalog, ("default", "letters"), LETTERS, spec, base_properties())
    return StagePlan(
        topic="clicks",
        table=table.plan(),
        dead_letters=TopicTable(dead_letters).plan(),
        epoch=1,
        values=SchemaPlan(
            {7: writer, 8: writer} if framed else {WHOLE_TOPIC: writer},
            {9: ("unknown_schema", "the registry has no schema id 9")},
        ),
        covers_tombstones=False,
        settings=TopicSettings(value_format="by_schema_id" if framed else "json"),
        inferred=None if framed else columns,
    )


def _columns(form: Format) -> Schema:
    if form.writer.kind != "INFERRED":
        return make_decoder(7, form.writer).iceberg_schema
    decoder = inferring_decoder(Schema())
    decoder.decode(pa.array([*form.values(1_000), b'{"x": 1, "more": {}}'], pa.binary()))
    needed: Schema = decoder.needed  # type: ignore[attr-defined]
    return needed


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


def measure(name: str, plan: StagePlan, values: list[bytes], against: float = 0) -> float:
    """µs of CPU per record, the best of some rounds; printed with its ratio to ``against``."""
    records = batch(values)
    loaded = LoadedPlan(plan)
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        stage_files(loaded, [records])
        best = min(best, (time.process_time() - began) / RECORDS * 1e6)
    ratio = f"  {best / against:5.2f} x" if against else ""
    sys.stdout.write(f"{name:55} {best:6.2f} µs{ratio}\n")
    return best


def _some(values: list[bytes], damage: Damage) -> list[bytes]:
    return [value if at % 1_000 else damage(value) for at, value in enumerate(values)]


def measure_format(name: str) -> None:
    """Print the figures of a format."""
    form = FORMATS[name]
    values = form.values(RECORDS)
    with tempfile.TemporaryDirectory() as root:
        plan = make_plan(root, form)
        good = measure(f"{name}, all good", plan, values)
        if plan.settings.value_format == "by_schema_id":
            turns = [prefix(8) + value[5:] if at % 2 else value for at, value in enumerate(values)]
            measure(f"{name}, two ids in turns", plan, turns, good)
        for what, damage in form.damage.items():
            measure(f"{name}, 1 of 1,000 {what}", plan, _some(values, damage), good)
        for what, damage in form.damage.items():
            measure(f"{name}, all {what}", plan, list(map(damage, values)))
        measure(
            f"{name}, all cut, skipped", plan.with_settings(errors="skip"), [value[:-3] for value in values]
        )


def main() -> None:
    """Print the figures."""
    for name in sys.argv[1:] or FORMATS:
        measure_format(name)


if __name__ == "__main__":
    main()
