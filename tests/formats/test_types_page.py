"""Every example of ``docs/reference/types.md``, from a record to what PyIceberg and DuckDB read."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import text_format
from google.protobuf.message_factory import GetMessageClass
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from docs import type_examples
from docs.type_examples import JSON_DEFINITIONS, PROTOBUF_TYPES, Example
from tabletopic_kernel.formats.decoder import inferring_decoder, make_decoder
from tabletopic_kernel.formats.protobuf.schema.protoc import compile_schema
from tabletopic_kernel.formats.protobuf.schema.tree import load
from tabletopic_kernel.formats.wire import WriterSchema, prefix
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.plan import WHOLE_TOPIC, SchemaPlan, StagePlan, StageResult
from tabletopic_kernel.pipeline.stage import StageTask
from tabletopic_kernel.query.duckdb import DuckLake
from tabletopic_kernel.table.topic_table import TopicTable
from tests.formats.avro_cases import plain_rows
from tests.formats.lake import as_pyiceberg_reads, duckdb_rows
from tests.pipeline.test_stage import batch
from tests.table.samples import sqlite_catalog

Sent = tuple[list[Example], WriterSchema, bytes]  # of one format: the examples, their schema, the record


def _avro() -> Sent:
    examples = type_examples.AVRO
    fields = [{"name": example.name, "type": example.schema} for example in examples]
    schema = {"type": "record", "name": "Row", "fields": fields}
    out = io.BytesIO()
    row = {one.name: one.value for one in examples}
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), row)
    return examples, WriterSchema(json.dumps(schema)), prefix(7) + out.getvalue()


def _protobuf() -> Sent:
    examples = type_examples.PROTOBUF
    known = ("timestamp", "duration", "struct", "wrappers", "any")
    imports = "".join(f'import "google/protobuf/{name}.proto";\n' for name in known)
    fields = "\n  ".join(example.schema for example in examples if example.schema)
    schema = f'syntax = "proto3";\n{imports}message Row {{\n{PROTOBUF_TYPES}  {fields}\n}}\n'
    files, name = compile_schema(schema)
    message = GetMessageClass(load(files).FindFileByName(name).message_types_by_name["Row"])()
    text_format.Parse("\n".join(one.value for one in examples), message)
    writer = WriterSchema(schema, kind="PROTOBUF")
    return examples, writer, prefix(7) + b"\x00" + message.SerializeToString()


def _object(examples: list[Example]) -> bytes:
    parts = [
        example.value if example.name.startswith("_kafka") else f"{json.dumps(example.name)}: {example.value}"
        for example in examples
        if example.value is not None
    ]
    return ("{" + ", ".join(parts) + "}").encode()


def _json_schema() -> Sent:
    examples = type_examples.JSON_SCHEMA
    properties = {example.name: example.schema for example in examples if example.schema is not None}
    schema = {
        "type": "object",
        "properties": properties,
        "required": ["needed"],
        "$defs": JSON_DEFINITIONS,
    }
    return examples, WriterSchema(json.dumps(schema), kind="JSON"), prefix(7) + _object(examples)


def _json() -> Sent:
    return type_examples.JSON, WriterSchema(kind="INFERRED"), _object(type_examples.JSON)


def _whole(kind: str) -> Sent:
    (example,) = type_examples.WHOLE[kind]
    return [example], WriterSchema(kind=kind.upper()), example.value


SENT = {
    "avro": _avro,
    "protobuf": _protobuf,
    "json_schema": _json_schema,
    "json": _json,
    "string": lambda: _whole("string"),
    "raw": lambda: _whole("raw"),
}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """A catalog for this module."""
    root = tmp_path_factory.mktemp("types")
    return sqlite_catalog(root)


@pytest.fixture(scope="module")
def lake(catalog: Catalog) -> Iterator[DuckLake]:
    """DuckDB over it."""
    made = DuckLake(catalog)
    yield made
    made.close()


def _columns(writer: WriterSchema, record: bytes) -> Schema:
    """The columns that a record of this writer needs."""
    if writer.kind != "INFERRED":
        return make_decoder(7, writer).iceberg_schema
    decoder = inferring_decoder(Schema())
    decoder.decode(pa.array([record], pa.binary()))
    needed: Schema = decoder.needed  # type: ignore[attr-defined]
    return needed


def _told(field: NestedField) -> str:
    return f"required {_type(field.field_type)}" if field.required else _type(field.field_type)


def _type(kind: IcebergType) -> str:
    match kind:
        case StructType():
            return f"struct<{', '.join(f'{one.name}: {_told(one)}' for one in kind.fields)}>"
        case ListType():
            return f"list<{_told(kind.element_field)}>"
        case MapType():
            return f"map<{_type(kind.key_type)}, {_told(kind.value_field)}>"
    return str(kind)


@pytest.mark.parametrize("name", SENT)
def test_every_example_of_the_page(name: str, catalog: Catalog, lake: DuckLake) -> None:
    """Types, and values after a commit, are those of the page; both readers agree."""
    examples, writer, record = SENT[name]()
    schema = _columns(writer, record)
    columns = {field.name: field for field in schema.fields}
    assert {one.name: _told(columns[one.name]) for one in examples} == {
        one.name: one.iceberg for one in examples
    }
    assert list(columns) == [one.name for one in examples]

    settings = TopicSettings(metadata_columns=())
    table = TopicTable.create(
        catalog, ("default", name), schema, UNPARTITIONED_PARTITION_SPEC, name, settings
    )
    framed = writer.kind in ("AVRO", "PROTOBUF", "JSON")
    plan = StagePlan(
        topic=name,
        table=table.plan(),
        dead_letters=None,
        epoch=1,
        values=SchemaPlan({7 if framed else WHOLE_TOPIC: writer}),
        covers_tombstones=False,
        settings=settings if framed else settings.model_copy(update={"value_format": "json"}),
        inferred=schema if writer.kind == "INFERRED" else None,
    )
    count = 100  # so that the fast engines read them
    result = StageResult()
    for sent in (batch(*[record] * count), batch(record)):  # the exact engine reads a single one
        for answer in StageTask(plan)(iter([sent])):
            result.add(answer.column("result")[0].as_py())
    assert (result.refused, result.rows) == ({}, count + 1)
    with table.table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for file in result.files:
            append.append_data_file(file)

    shown = ", ".join(f'CAST("{one.name}" AS VARCHAR) AS "{one.name}"' for one in examples)
    found = lake.sql(f"SELECT DISTINCT {shown} FROM {name}").to_pylist()
    assert len(found) == 1  # both engines say the same
    wrong = {
        example.name: (found[0][example.name], example.read)
        for example in examples
        if found[0][example.name] != example.read
    }
    assert wrong == {}

    by_duckdb = lake.sql(f"SELECT * FROM {name}").combine_chunks().to_batches()[0]
    stored = duckdb_rows(by_duckdb, schema)
    table.reload()
    scanned = table.table.scan().to_arrow().combine_chunks().to_batches()[0]
    assert plain_rows(scanned) == as_pyiceberg_reads(stored, schema)
    assert len(stored) == count + 1
