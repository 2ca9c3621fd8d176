"""Fuzzed records between good ones, on the real broker, registry and Spark."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema

from tabletopic_kernel.formats.wire import VALUE_HEADER
from tabletopic_kernel.workbench.workbench import Workbench
from tests.formats import damage
from tests.integration.conftest import METADATA, Sender, dead_letters_by_offset, rows_by_offset
from tests.integration.rows import FAST, V1, V2, field, record, row_v1, row_v2

pytestmark = [pytest.mark.story, pytest.mark.usefixtures("host")]
COUNT = 1_500
DAMAGES: list[damage.Damage] = [
    *damage.ANYWHERE,
    lambda rng, raw: rng.randbytes(rng.randrange(40)),
    lambda rng, raw: raw[:1] + rng.randrange(40).to_bytes(4, "big") + raw[5:],
    lambda rng, raw: raw[:5] + bytes([2, rng.randrange(256)]) + raw[5:],
]


def test_fuzzed_records_between_good_ones(
    bench: Workbench, new_topic: Callable[..., Sender], caught_up: Callable[..., Any]
) -> None:
    """Every good record is a row with its values, the others are rows or letters; no column is foreign."""
    sender, other, rng = new_topic(partitions=2), new_topic(), random.Random(7)
    wide = " ".join(f"int32 f{at} = {at + 20_000};" for at in range(9_000))
    other.avro(record(field("foreign", "string"), name="Foreign"), {"foreign": "x"})
    subject = f"{other.topic}-wide"
    sender.registry.register_schema(subject, Schema(f'syntax = "proto3"; message W {{ {wide} }}', "PROTOBUF"))
    sender.avro(V1, row_v1(0))
    bench.enable(sender.topic, {**FAST, "max_refused_share": 1})
    for number in range(1, COUNT):
        schema, value = (V1, row_v1(number)) if number % 2 else (V2, row_v2(number))
        whole = sender.serialize(schema, value)
        sender.raw(whole, value)
        for _ in range(rng.randint(1, 3)):
            whole = rng.choice(DAMAGES)(rng, whole)
        headers = [(VALUE_HEADER, rng.randbytes(rng.randrange(20)))] if rng.random() < 0.2 else None
        sender.raw(whole, headers=headers)
    sender.flush()
    caught_up(sender.topic, timeout_s=600)
    rows, dead_letters = rows_by_offset(bench, sender.topic), dead_letters_by_offset(bench, sender.topic)
    assert not rows.keys() & dead_letters.keys()
    assert rows.keys() | dead_letters.keys() == {(one.partition, one.offset) for one in sender.sent}
    for sent in sender.sent:
        if sent.value is not None:
            row = rows[sent.partition, sent.offset]
            for name in ("id", "name", "count", "price", "at", "tags", "note"):
                assert row[name] == sent.value[name], sent
            assert row[METADATA]["offset"] == sent.offset
    columns = bench.open_catalog().load_table(bench.table_of(sender.topic)).schema().column_names
    assert "foreign" not in columns
    assert {one["reason"] for one in dead_letters.values()} >= {
        "unknown_schema",
        "bad_schema",
        "no_schema_id",
    }
    assert "internal_error" not in {one["reason"] for one in dead_letters.values()}
    bench.disable(sender.topic)
