"""Decoders of unforeseen schemas, and who may use one."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema

from tabletopic_kernel.formats.avro import decoder as avro
from tabletopic_kernel.formats.decoder import (
    BadSchemaError,
    InferringDecoder,
    cached_decoder,
    inferring_decoder,
    make_decoder,
)
from tabletopic_kernel.formats.wire import WriterSchema
from tabletopic_kernel.model.columns.table_columns import key_type, table_schema
from tabletopic_kernel.model.columns.types import levels
from tabletopic_kernel.model.errors import RetryableError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.conform import file_schema
from tabletopic_kernel.pipeline.transform.columns import value_columns


def _proto(count: int, kind: str) -> str:
    fields = " ".join(f"{kind} f{at} = {at + 20_000};" for at in range(count))
    return f'syntax = "proto3"; message Big {{ {fields} }}'


def _deep(levels: int) -> str:
    return '{"type": "array", "items": ' * levels + '"int"' + "}" * levels


def _columns(kind: str, text: str) -> int | None:
    """The number of columns of a schema's decoder; None if the schema is invalid."""
    try:
        return len(make_decoder(7, WriterSchema(text, kind=kind)).iceberg_schema.fields)
    except BadSchemaError:
        return None


def _avro_chain(count: int, around: str) -> str:
    kind = '"int"'
    for at in range(count):
        kind = around.replace("NAME", f"R{at}").replace("INNER", kind)
    return f'{{"type": "record", "name": "Top", "fields": [{{"name": "c", "type": {kind}}}]}}'


def _proto_chain(count: int, around: str) -> str:
    inner = "".join(
        f"message M{at} {{ {around} f = 1; }} ".replace("NEXT", f"M{at + 1}") for at in range(count)
    )
    return f'syntax = "proto3"; {inner} message M{count} {{ int32 n = 1; }}'


_ARRAY = '{"type": "array", "items": INNER}'
_RECORD = '{"type": "record", "name": "NAME", "fields": [{"name": "c", "type": INNER}]}'


@pytest.mark.parametrize(
    ("kind", "most", "chain"),
    [
        ("AVRO", 30, lambda count: _avro_chain(count, _ARRAY)),
        ("AVRO", 30, lambda count: _avro_chain(count, '{"type": "map", "values": INNER}')),
        ("AVRO", 61, lambda count: _avro_chain(count, _RECORD)),
        (
            "AVRO",
            15,
            lambda count: _avro_chain(count, _ARRAY.replace("INNER", f'["null", "int", {_RECORD}]')),
        ),
        ("PROTOBUF", 61, lambda count: _proto_chain(count, "NEXT")),
        ("PROTOBUF", 20, lambda count: _proto_chain(count, "repeated NEXT")),
        ("PROTOBUF", 20, lambda count: _proto_chain(count, "map<string, NEXT>")),
    ],
)
def test_a_table_has_no_more_levels_than_readers_take(
    kind: str, most: int, chain: Callable[[int], str], tmp_path: Path
) -> None:
    """Files open in PyArrow, and pass from library to library, with the value in a column of its own, too."""
    decoded = make_decoder(7, WriterSchema(chain(most), kind=kind)).iceberg_schema
    columns = table_schema(value_columns(decoded, "none"), TopicSettings(), key_type(decoded))
    schema = file_schema(columns)
    pq.write_table(schema.empty_table(), tmp_path / "file.parquet")
    assert pq.read_schema(tmp_path / "file.parquet").field(0).type == schema.field(0).type
    passed = pa.RecordBatchReader.from_stream(pa.RecordBatchReader.from_batches(schema, []))
    assert passed.schema.field(0).type == schema.field(0).type
    with pytest.raises(BadSchemaError, match="levels in Parquet"):
        make_decoder(7, WriterSchema(chain(most + 1), kind=kind))


@pytest.mark.parametrize("around", [_ARRAY, '{"type": "object", "additionalProperties": INNER}'])
def test_json_has_as_many_levels_as_duckdb_reads_at_once(around: str) -> None:
    """Arrays and maps count twice, as their columns take twice as long for each further one."""
    text = '{"type": "integer"}'
    for _ in range(60):
        text = around.replace("INNER", text)
    columns = make_decoder(7, WriterSchema(f'{{"properties": {{"c": {text}}}}}', kind="JSON")).iceberg_schema
    assert levels(columns.as_struct()) < 35
    record = b'{"c": ' + b"[" * 60 + b"7" + b"]" * 60 + b', "d": ' + b"[" * 14 + b"7" + b"]" * 14 + b"}"
    inferring = inferring_decoder(Schema())
    inferring.decode(pa.array([record], pa.binary()))
    assert isinstance(inferring, InferringDecoder)
    needed = inferring.needed
    assert needed is not None
    assert (str(needed.find_type("c")), levels(needed.find_type("d"))) == ("string", 29)


@pytest.mark.parametrize("kind", ["int32", "int64", "string", "repeated int32"])
@pytest.mark.parametrize("count", [9_000, 16_000])
def test_a_message_of_more_fields_than_a_library_takes(kind: str, count: int) -> None:
    """There is a decoder, or the schema is bad; no error of a library comes through."""
    assert _columns("PROTOBUF", _proto(count, kind)) in (None, count)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("AVRO", "not avro"),
        ("AVRO", "{}"),
        ("AVRO", '{"type": 5}'),
        ("AVRO", '{"type": {"type": {"type": []}}}'),
        ("AVRO", '{"type": "record", "name": "R", "fields": {"a": 1}}'),
        ("AVRO", '{"type": "record", "name": 5, "fields": [{"name": null, "type": "int"}]}'),
        ("AVRO", '{"type": "record", "name": "R", "fields": [5]}'),
        ("AVRO", '{"type": "fixed", "name": "F", "size": -1}'),
        ("AVRO", '{"type": "fixed", "name": "F", "size": 1e400}'),
        ("AVRO", _deep(3_000)),
        ("AVRO", _deep(100_000)),
        ("JSON", "[" * 100_000),
        ("JSON", '{"type": 5}'),
        ("JSON", '{"properties": 5}'),
        ("JSON", '{"$ref": "#"}'),
        ("JSON", '{"$ref": "#/a", "a": {"$ref": "#/b"}, "b": {"$ref": "#/a"}}'),
        ("JSON", '{"allOf": [{"$ref": "#"}, {"$ref": "#"}]}'),
        ("JSON", '{"properties": {"a": ' * 3_000 + "{}" + "}}" * 3_000),
        ("PROTOBUF", ""),
        ("PROTOBUF", "not a schema"),
        ("PROTOBUF", 'syntax = "proto3"; message A { B b = 1; }'),
        ("PROTOBUF", 'syntax = "proto3"; import "gone.proto"; message A {}'),
        ("PROTOBUF", "AAAA"),
        ("PROTOBUF", "message A { " * 3_000 + "}" * 3_000),
        ("PROTOBUF", 'syntax = "proto3"; message A { string a = 1; \x00 }'),
        ("PROTOBUF", 'syntax = "proto3"; message \ud800 {}'),
        ("UNHEARD", "{}"),
    ],
)
def test_an_odd_schema_is_bad_or_has_a_decoder(kind: str, text: str) -> None:
    """Whatever the text is, nothing but a bad schema comes of it."""
    assert _columns(kind, text) in (None, 1)


def test_references_in_a_circle() -> None:
    """Files that import each other are a bad schema; types that do are JSON text."""
    files = (
        ("a.proto", 'syntax = "proto3"; import "b.proto"; message A { B b = 1; }'),
        ("b.proto", 'syntax = "proto3"; import "a.proto"; message B { A a = 1; }'),
    )
    text = 'syntax = "proto3"; import "a.proto"; message C { A a = 1; }'
    with pytest.raises(BadSchemaError):
        make_decoder(7, WriterSchema(text, files, kind="PROTOBUF"))
    schemas = (("a", '{"$ref": "b"}'), ("b", '{"$ref": "a"}'))
    assert make_decoder(7, WriterSchema('{"$ref": "a"}', schemas, kind="JSON")).iceberg_schema.fields


class Panic(BaseException):
    """As native code raises it."""


@pytest.mark.parametrize("error", [KeyError("x"), RecursionError("deep"), TypeError("pool"), Panic("index")])
def test_whatever_a_library_raises_is_a_bad_schema(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message has the error's type and text."""
    _raise(monkeypatch, error)
    with pytest.raises(BadSchemaError, match=rf"{type(error).__name__}: .*{error.args[0]}"):
        make_decoder(7, WriterSchema('"int"'))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RetryableError("later"), RetryableError),
        (MemoryError(), RetryableError),
        (OSError("disk"), RetryableError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_trouble_says_nothing_of_a_schema(
    error: BaseException, kind: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory, storage and the compiler's trouble are waited out (I9)."""
    _raise(monkeypatch, error)
    with pytest.raises(kind):
        make_decoder(7, WriterSchema('"int"'))


def _raise(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(avro, "AvroDecoder", fail)


def test_a_thread_keeps_its_decoders_and_plans() -> None:
    """They are costly to make; another thread gets others, as none is for two threads at once."""
    schema = WriterSchema('"int"')
    mine = cached_decoder(7, schema)
    assert cached_decoder(7, schema) is mine
    with ThreadPoolExecutor(1) as other:
        theirs = other.submit(cached_decoder, 7, schema).result()
        assert theirs is not mine
        assert other.submit(cached_decoder, 7, schema).result() is theirs
