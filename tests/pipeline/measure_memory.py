"""Peak memory of a task over large records: ``python -m tests.pipeline.measure_memory``.

A process for each case stages batches as Spark hands them over: 16 MiB, or one record if it is longer.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema

from tabletopic_kernel.clients.catalog.catalog import create_table
from tabletopic_kernel.formats.decoder import inferring_decoder, make_decoder
from tabletopic_kernel.formats.wire import WriterSchema, prefix
from tabletopic_kernel.model.columns.table_columns import table_schema
from tabletopic_kernel.model.dead_letter import SCHEMA as LETTERS
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.plan import WHOLE_TOPIC, SchemaPlan, StagePlan
from tabletopic_kernel.pipeline.stage import StageTask
from tabletopic_kernel.table.topic_table import TopicTable, base_properties
from tests.formats.avro_cases import zigzag
from tests.formats.protobuf_cases import text
from tests.pipeline.source import SOURCE
from tests.table.samples import sqlite_catalog

BATCH_BYTES = 16 * 1024**2
TOTAL_BYTES = 512 * 1024**2
AVRO = {"type": "record", "name": "Row", "fields": [{"name": "text", "type": "string"}]}
JSON = {"type": "object", "properties": {"text": {"type": "string"}}, "additionalProperties": False}
PROTO = 'syntax = "proto3"; message Row { string text = 1; }'


def _avro(body: bytes) -> bytes:
    return prefix(7) + zigzag(len(body)) + body


def _protobuf(body: bytes) -> bytes:
    return prefix(7) + b"\0" + text(1, body)


def _json(body: bytes) -> bytes:
    return b'{"text": "' + body + b'"}'


def _json_schema(body: bytes) -> bytes:
    return prefix(7) + _json(body)


FORMATS = {
    "avro": (WriterSchema(json.dumps(AVRO)), _avro),
    "protobuf": (WriterSchema(PROTO, kind="PROTOBUF"), _protobuf),
    "json_schema": (WriterSchema(json.dumps(JSON), kind="JSON"), _json_schema),
    "json": (WriterSchema(kind="INFERRED"), _json),
}


def make_plan(root: str, writer: WriterSchema) -> StagePlan:
    """A plan for the records, with schema id 7."""
    catalog = sqlite_catalog(root)
    spec = UNPARTITIONED_PARTITION_SPEC
    framed = writer.kind != "INFERRED"
    columns = _columns(writer)
    schema = table_schema(columns, TopicSettings())
    table = TopicTable.create(catalog, ("default", "clicks"), schema, spec, "clicks", TopicSettings())
    dead_letters = create_table(catalog, ("default", "letters"), LETTERS, spec, base_properties())
    return StagePlan(
        topic="clicks",
        table=table.plan(),
        dead_letters=TopicTable(dead_letters).plan(),
        epoch=1,
        values=SchemaPlan({7: writer} if framed else {WHOLE_TOPIC: writer}),
        covers_tombstones=False,
        settings=TopicSettings(value_format="by_schema_id" if framed else "json"),
        inferred=None if framed else columns,
    )


def _columns(writer: WriterSchema) -> Schema:
    if writer.kind != "INFERRED":
        return make_decoder(7, writer).iceberg_schema
    decoder = inferring_decoder(Schema())
    decoder.decode(pa.array([_json(b"x")] * 1_000 + [b'{"x": 1, "more": {}}'], pa.binary()))
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


@dataclass(frozen=True)
class Case:
    """Records of a size, good or cut, in batches of so many bytes."""

    name: str
    bytes: int
    bad: bool
    batch_bytes: int = BATCH_BYTES


def _batches(case: Case) -> Iterator[pa.RecordBatch]:
    _, frame = FORMATS[case.name]
    count = max(1, case.batch_bytes // case.bytes)
    body = frame(b"x" * case.bytes)
    made = batch([body[:-3] if case.bad else body] * count)
    for _ in range(max(1, TOTAL_BYTES // (count * case.bytes))):
        yield made


def _run(case: Case, answers: multiprocessing.Queue[tuple[int, int]]) -> None:
    writer, frame = FORMATS[case.name]
    with tempfile.TemporaryDirectory() as root:
        task = StageTask(make_plan(root, writer))
        for _ in task(iter([batch([frame(b"x")] * 100)])):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in task(_batches(case)):
            answers.put((before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))


def main() -> None:
    """Print the figures."""
    spawn = multiprocessing.get_context("spawn")
    for name in sys.argv[1:] or FORMATS:
        for size in (2_000, 1024**2, 10 * 1024**2):
            for bad in (False, True):
                for batch_bytes in (BATCH_BYTES, 16 * BATCH_BYTES):
                    case = Case(name, size, bad, batch_bytes)
                    answers: multiprocessing.Queue[tuple[int, int]] = spawn.Queue()
                    process = spawn.Process(target=_run, args=(case, answers))
                    process.start()
                    before, peak = answers.get(timeout=600)
                    process.join()
                    what = f"{size:>10,} B, {'cut' if bad else 'good'}"
                    told = f"{name}, {what}, batches of {batch_bytes >> 20} MiB"
                    print(f"{told:60} {before >> 10:6,} MiB, then {peak >> 10:6,} MiB")  # noqa: T201


if __name__ == "__main__":
    main()
