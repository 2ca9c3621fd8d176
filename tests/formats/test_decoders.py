"""Decoders of unforeseen schemas, and who may use one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tabletopic_kernel.formats.avro import decoder as avro
from tabletopic_kernel.formats.decoder import BadSchemaError, cached_decoder, make_decoder
from tabletopic_kernel.formats.wire import WriterSchema
from tabletopic_kernel.model.errors import RetryableError


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
    def fail(*_: Any) -> None:
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
