"""The records of a drill, read by others."""

from __future__ import annotations

import io
import json
import uuid
from dataclasses import replace
from typing import Any

import fastavro
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from tabletopic_kernel.drill import streams
from tabletopic_kernel.drill.streams import Fate, Sent, StreamPlan, avro_schema, poisoned, value_of
from tabletopic_kernel.local.stack import StackInfo

NUMBERS = st.integers(0, 1 << 40)


@given(NUMBERS, st.integers(1, 9))
def test_avro_records_are_avro(number: int, version: int) -> None:
    """fastavro reads the value that the verdict expects, and nothing is left over."""
    schema = fastavro.parse_schema(json.loads(avro_schema(version)))
    body = io.BytesIO(streams._avro(value_of(number, version)))
    assert fastavro.schemaless_reader(body, schema, None) == value_of(number, version)
    assert body.read() == b""


@given(st.integers(2, 9))
def test_each_version_reads_the_one_before(version: int) -> None:
    """As a registry that demands BACKWARD wants it."""
    older, newer = (fastavro.parse_schema(json.loads(avro_schema(v))) for v in (version - 1, version))
    body = io.BytesIO(streams._avro(value_of(7, version - 1)))
    read = fastavro.schemaless_reader(body, older, newer)
    assert isinstance(read, dict)
    assert {name: read[name] for name in ("id", "text", "count")} == {
        name: value_of(7, version - 1)[name] for name in ("id", "text", "count")
    }


@given(NUMBERS, st.integers(1, 200))
def test_a_schema_that_is_held_back_is_like_no_other(number: int, held: int) -> None:
    """Its records are read by it, and it can follow any version, and any version it."""
    schema = fastavro.parse_schema(json.loads(avro_schema(2, held)))
    assert avro_schema(2, held) not in {avro_schema(version) for version in range(1, 9)}
    assert avro_schema(2, held) != avro_schema(2, held + 1)
    value = value_of(number, 2, held)
    body = streams._avro(value)
    assert fastavro.schemaless_reader(io.BytesIO(body), schema, None) == value
    newest = fastavro.parse_schema(json.loads(avro_schema(6)))
    read = fastavro.schemaless_reader(io.BytesIO(body), schema, newest)
    assert isinstance(read, dict)
    assert (read["id"], read["late_6"]) == (number, None)
    back = fastavro.schemaless_reader(io.BytesIO(streams._avro(value_of(number, 6))), newest, schema)
    assert back == value_of(number, 2) | dict.fromkeys(streams.held_names(held))


def row_message() -> Any:
    """The class of the Protobuf message, made by google's library."""
    file = descriptor_pb2.FileDescriptorProto(name="row.proto", syntax="proto3")
    message = file.message_type.add(name="Row")
    kinds = {"id": 3, "text": 9, "count": 3}  # int64, string, int64
    for at, (name, kind) in enumerate(kinds.items(), 1):
        message.field.add(name=name, number=at, type=kind, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Row"))


@given(NUMBERS)
def test_protobuf_records_are_protobuf(number: int) -> None:
    """Google's library reads the value that the verdict expects."""
    value = value_of(number, 1)
    read = row_message().FromString(streams._protobuf(value))
    assert {"id": read.id, "text": read.text, "count": read.count} == value


@pytest.mark.parametrize("kind", ["avro", "protobuf", "json"])
def test_poison_is_poison(kind: str) -> None:
    """Each of the three ways changes the bytes."""
    good = b"\x00\x00\x00\x00\x01" + streams._avro(value_of(1, 1)) if kind != "json" else b'{"id": 1}'
    assert len({poisoned(good, number, kind) for number in range(3)} | {good}) == 4


@pytest.mark.integration
def test_the_log_says_how_a_transaction_ended(stack: StackInfo) -> None:
    """Of a producer that died with a transaction open, and of one that died after its commit."""
    kafka = {"bootstrap.servers": stack.bootstrap_servers}
    name = f"ended-{uuid.uuid4().hex[:8]}"
    admin = AdminClient(kafka)
    admin.create_topics([NewTopic(name, 2, 1)])[name].result()
    plan = StreamPlan(name, "json", 2, True, {})
    stream = streams.Stream(plan, kafka, {"url": stack.registry_url}, seed=1)
    stream._producer.init_transactions(60)
    for is_committed in (True, False):
        records: list[Sent] = []
        stream._producer.begin_transaction()
        for _ in range(6):
            stream._send_one(records)
        stream._producer.flush(60)
        assert len(records) == 6
        if is_committed:
            stream._producer.commit_transaction(60)
        stream._begin_anew(records)
        assert records == []
    assert sorted(one.number for one in stream.sent) == list(range(6))
    assert {one.fate for one in stream.sent} == {Fate.ROW}
    # Of one that is no longer in the log nobody can say.
    stream._producer.begin_transaction()
    stream._send_one(records)
    stream._producer.flush(60)
    (last,) = records
    place = TopicPartition(name, last.partition, -1)
    stream._producer.commit_transaction(60)
    admin.delete_records([place])[place].result()
    stream._begin_anew(records)
    assert stream.sent[-1] == replace(last, fate=Fate.UNSURE)
    stream._producer.flush()
