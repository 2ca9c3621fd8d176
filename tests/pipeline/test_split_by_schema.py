"""Where records name their schema: in front of the body or in a header, by id or by GUID."""

from __future__ import annotations

import json
import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import (
    SchemaRegistryClient,
    header_schema_id_serializer,
    prefix_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from tabletopic_kernel.formats.decoder import make_decoder
from tabletopic_kernel.formats.protobuf.schema.protoc import compile_schema
from tabletopic_kernel.formats.protobuf.schema.tree import load
from tabletopic_kernel.formats.wire import KEY_HEADER, VALUE_HEADER, WriterSchema, prefix
from tabletopic_kernel.pipeline.plan import WHOLE_TOPIC
from tabletopic_kernel.pipeline.split_by_schema import Group, split, split_connect

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
GUID = uuid.UUID("6da336d8-f1d3-0f98-4c47-d03ee8a14a10")
AVRO = '{"type":"record","name":"Row","fields":[{"name":"id","type":"long"},{"name":"text","type":"string"}]}'
JSON = json.dumps(
    {
        "title": "Row",
        "type": "object",
        "properties": {"id": {"type": "integer"}, "text": {"type": "string"}},
        "additionalProperties": False,
    }
)
PROTO = 'syntax = "proto3"; message Other { int32 x = 1; } message Row { int64 id = 1; string text = 2; }'

Headers = list[tuple[str, bytes | None]]


def headers_of(rows: list[Headers | None]) -> pa.Array:
    """Headers as the source gives them."""
    entries = [None if row is None else [{"key": key, "value": value} for key, value in row] for row in rows]
    return pa.array(entries, HEADERS)


def with_id(schema_id: int, indexes: bytes = b"") -> Headers:
    """The headers of a record whose header names an id."""
    return [("trace", b"x"), (VALUE_HEADER, prefix(schema_id) + indexes)]


def by_key(values: list[bytes | None], headers: list[Headers | None]) -> Any:
    """What ``split`` makes: positions and values by schema, and the reason of each record without one."""
    groups, unframed = split(pa.array(values, pa.binary()), headers_of(headers))
    found = {
        (group.schema_id, group.indexes): (group.positions.tolist(), group.values.to_pylist())
        for group in groups
    }
    bare = {at: one.reason(n) for one in unframed for n, at in enumerate(one.positions.tolist())}
    return found, bare


def test_the_last_header_goes_before_others_and_before_a_prefix() -> None:
    """As for Confluent's reader: the last of the name, or if it is empty, the value's prefix."""
    value = prefix(9) + b"a"
    found, bare = by_key(
        [value, value, value, value],
        [
            with_id(1) + with_id(2),
            [*with_id(1), (VALUE_HEADER, None)],
            [(KEY_HEADER, prefix(3))],
            [(VALUE_HEADER, b"\0\0\0")],
        ],
    )
    assert {key: positions for key, (positions, _) in found.items()} == {(2, b""): [0], (9, None): [1, 2]}
    assert bare == {3: "bad_schema_header"}


@pytest.mark.parametrize("header", [b"", b"\0\0\0\1", b"\1" + GUID.bytes[:-1], b"\2" + bytes(16), b"7"])
def test_a_damaged_header_is_told(header: bytes) -> None:
    """It names no schema, and a good prefix does not make up for it."""
    values = pa.array([prefix(7) + b"a", prefix(7) + b"b"], pa.binary())
    groups, (unframed,) = split(values, headers_of([None, [(VALUE_HEADER, header)]]))
    assert [group.positions.tolist() for group in groups] == [[0]]
    assert unframed.positions.tolist() == [1]
    assert unframed.reason(0) == "bad_schema_header"
    assert unframed.message(0).startswith(f"the header {VALUE_HEADER} ")


@pytest.mark.parametrize(
    ("kind", "indexes", "fits"),
    [
        ("AVRO", b"", True),
        ("AVRO", b"\0", False),
        ("JSON", b"\0", False),
        ("PROTOBUF", b"", False),
        ("PROTOBUF", b"\0", True),
        ("PROTOBUF", b"\x02\x02", True),
        ("PROTOBUF", b"\x04\x02", False),
        ("PROTOBUF", b"\0\0", False),
    ],
)
def test_what_stands_behind_the_id_must_be_message_indexes(kind: str, indexes: bytes, fits: bool) -> None:
    """All of them, of Protobuf alone: else the body would begin in the wrong place."""
    (group,), _ = split(pa.array([b"a"], pa.binary()), headers_of([with_id(7, indexes)]))
    assert (group.header_fault(kind) is None) == fits


NAMED = st.one_of(
    st.none(),
    st.lists(
        st.tuples(
            st.sampled_from([VALUE_HEADER, KEY_HEADER, "other"]),
            st.none() | st.binary(max_size=20) | st.integers(0, 3).map(prefix),
        ),
        max_size=3,
    ),
)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.none() | st.binary(max_size=8) | st.integers(0, 3).map(prefix), NAMED)),
    st.integers(0, 3),
)
def test_every_record_is_in_one_place(records: list[tuple[bytes | None, Headers | None]], cut: int) -> None:
    """Whatever the bytes, each record of a batch, also of a slice, is in one group or refused, once."""
    values = pa.array([value for value, _ in records], pa.binary())[cut:]
    headers = headers_of([headers for _, headers in records])[cut:]
    groups, unframed = split(values, headers)
    parts: Any = (*groups, *unframed)
    placed = [at for part in parts for at in part.positions.tolist()]
    assert sorted(placed) == list(range(len(values)))
    for group in groups:
        originals = [values[at].as_py() for at in group.positions.tolist()]
        if group.indexes is None:
            assert group.values.to_pylist() == originals
        else:
            skipped = len(prefix(0)) + len(group.indexes)
            assert [value[skipped:] for value in group.values.to_pylist()] == originals


def in_header_by_id(payload: bytes, context: Any, schema_id: Any) -> bytes:
    """As Confluent's header serializer, with the id instead of the GUID."""
    context.headers.append((VALUE_HEADER, schema_id.id_to_bytes()))
    return payload


def _serializer(kind: str, registry: Any, how: Any) -> tuple[Any, Any]:
    """Confluent's serializer of ``kind``, and what makes a message of a number."""
    conf = {"schema.id.serializer": how}
    if kind == "AVRO":
        return AvroSerializer(registry, AVRO, conf=conf), lambda n: {"id": n, "text": f"t{n}"}
    if kind == "JSON":
        return JSONSerializer(JSON, registry, conf=conf), lambda n: {"id": n, "text": f"t{n}"}
    files, name = compile_schema(PROTO, {})
    message = GetMessageClass(load(files).FindFileByName(name).message_types_by_name["Row"])
    made = ProtobufSerializer(message, registry, {"use.deprecated.format": False, **conf})
    return made, lambda n: message(id=n, text=f"t{n}")


def _rows(group: Group, registry: Any) -> list[dict[str, Any]]:
    found = (
        registry.get_schema_by_guid(group.schema_id)
        if isinstance(group.schema_id, str)
        else registry.get_schema(group.schema_id)
    )
    schema = WriterSchema(found.schema_str, (), found.schema_type, "Row")
    assert group.schema_id is not None
    assert group.header_fault(schema.kind) is None
    rows, refused = make_decoder(group.schema_id, schema).decode(group.values)
    assert refused == []
    return rows.to_pylist()


@pytest.mark.parametrize("kind", ["AVRO", "JSON", "PROTOBUF"])
def test_what_serializers_write_is_read(kind: str) -> None:
    """Confluent's own serializers, with ids in front, in headers, and GUIDs in headers, in one batch."""
    registry = SchemaRegistryClient.new_client({"url": f"mock://frame-{kind}"})
    ways = (prefix_schema_id_serializer, header_schema_id_serializer, in_header_by_id)
    values: list[bytes | None] = []
    headers: list[Headers | None] = []
    for number in range(30):
        serializer, message = _serializer(kind, registry, ways[number % 3])
        own: Headers = []
        values.append(serializer(message(number), SerializationContext("t", MessageField.VALUE, own)))
        headers.append(own)
    groups, unframed = split(pa.array(values, pa.binary()), headers_of(headers))
    assert unframed == []
    assert len(groups) == 3
    found = {
        at: row
        for group in groups
        for at, row in zip(group.positions.tolist(), _rows(group, registry), strict=True)
    }
    assert found == {number: {"id": number, "text": f"t{number}"} for number in range(30)}


def test_json_is_one_group_per_schema_in_it() -> None:
    """Whatever the layout, and however many schemas; JSON that is none of Connect's is one group."""
    fields = [{"field": "id", "type": "int32"}]
    texts = [json.dumps({"type": "struct", "fields": fields, "name": str(at)}) for at in range(20)]
    values: list[bytes] = []
    for at, text in enumerate(texts * 3):
        values += [
            f'{{"schema":{text},"payload":{{"id":{at}}}}}'.encode(),
            f'{{"schema": {text}, "payload": {{"id":{at}}}}}\r\n'.encode(),
            f'{{"payload":{{"id":{at}}},"schema":{text}}}'.encode(),
            f'{{"schema":"public","id":{at}}}'.encode(),
            f'{{"payload":{{"id":{at}}}}}'.encode(),
            f'{{"schema":{at},"payload":{{"id":{at}}}}}'.encode(),
        ]
    groups, found = split_connect(pa.array([*values, None], pa.large_binary()))
    assert [len(group) for group in groups] == [
        1,
        *[180 if group.schema_id == WHOLE_TOPIC else 9 for group in groups[1:]],
    ]
    assert len(found) == len(groups) - 2 == len(texts)
    for group in groups[1:]:
        assert list(group.positions) == sorted(group.positions)
        payloads = [json.loads(value) for value in group.values.to_pylist()]
        if group.schema_id == WHOLE_TOPIC:
            assert payloads == [json.loads(values[at]) for at in group.positions]
        else:
            assert payloads == [json.loads(values[at])["payload"] for at in group.positions]
            assert {json.dumps(json.loads(values[at])["schema"]) for at in group.positions} == {
                json.dumps(json.loads(found[group.schema_id]))
            }
    assert sorted(np.concatenate([group.positions for group in groups])) == list(range(len(values) + 1))
