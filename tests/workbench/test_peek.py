"""What ``peek`` shows of records: decoded values and keys, or why they cannot become rows."""

from __future__ import annotations

import json
from typing import Any, cast

import pyarrow as pa
import pytest

from tabletopic_kernel.clients.registry.registry import Registry
from tabletopic_kernel.formats.wire import KEY_HEADER, prefix
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.source import SOURCE_SCHEMA, KafkaRanges, Limits
from tabletopic_kernel.workbench.peek import PeekedRecord, decoded
from tests.pipeline.test_debezium import plain
from tests.pipeline.whole_path import avro_values
from tests.table.test_foreign_schemas import FIRST, FOREIGN, ManySubjects

KEY = {"type": "record", "name": "Key", "fields": [{"name": "user", "type": "long"}]}


def registry() -> ManySubjects:
    """Schemas of values (1), of keys (3), and of another topic (9)."""
    schemas = {1: json.dumps(FIRST), 3: json.dumps(KEY), 4: '{"type": "nonsense"}', 9: json.dumps(FOREIGN)}
    schemas[5] = '"string"'
    own = {
        1: ("clicks-value",),
        3: ("clicks-key",),
        5: ("clicks-key",),
        4: ("clicks-value",),
        9: ("refunds-value",),
    }
    return ManySubjects(schemas, subjects=own)


def shown(
    *values: bytes | None, keys: tuple[bytes | None, ...] = (), headers: Any = None, **settings: Any
) -> list[PeekedRecord]:
    """Records of the topic ``clicks``, with their keys."""
    rows = [
        {"value": value, "key": key, "headers": headers, "partition": 0, "offset": at, "timestamp": at * 1000}
        for at, (value, key) in enumerate(zip(values, keys or (b"k",) * len(values), strict=True))
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=SOURCE_SCHEMA)
    return decoded(batch, "clicks", TopicSettings(**settings), cast(Registry, registry()))


ONE = avro_values(1, FIRST, {"id": 7})[0]
LATEST = {"value_format": "by_latest_schema"}
# Settings, the value, what is shown of it, and a part of its error.
CASES: list[tuple[dict[str, Any], bytes | None, dict[str, Any] | None, str | None]] = [
    ({}, ONE, {"id": 7}, None),
    ({}, None, None, None),
    ({}, b"bare", None, "no_schema_id: "),
    ({}, prefix(1) + b"", None, "avro_"),
    ({}, prefix(77) + b"x", None, "no 77"),
    ({}, prefix(4) + b"x", None, "nonsense"),
    ({}, prefix(9) + b"x", None, "bad_schema: the schema 9 belongs to refunds-value"),
    (LATEST, ONE[5:], {"id": 7}, None),
    ({"value_format": "string"}, b"text", {"_kafka_value": "text"}, None),
    ({"value_format": "string"}, b"\xff", None, "not_text: "),
    ({"value_format": "raw"}, b"\xff", {"_kafka_value": b"\xff"}, None),
    ({"value_format": "json"}, b'{"a": {"b": [1]}}', {"a": {"b": [1]}}, None),
    ({"value_format": "json"}, b"{}", {}, None),
    ({"value_format": "json"}, b"[1]", {"_kafka_value_rest": "[1]"}, None),
    ({"value_format": "json"}, b"", None, "json_"),
    ({"projection": "SELECT id * 2 AS twice FROM batch"}, ONE, {"id": 7}, None),
]


@pytest.mark.parametrize(("settings", "value", "row", "error"), CASES, ids=str)
def test_a_value_is_shown_as_it_was_written_or_with_its_error(
    settings: dict[str, Any], value: bytes | None, row: dict[str, Any] | None, error: str | None
) -> None:
    """Before transform and projection; also beside records that can be decoded."""
    (first, other) = shown(value, value, **settings)
    assert (first.value, first.raw, first.offset, first.timestamp_ms) == (row, value, 0, 0)
    assert (error is None) == (first.error is None)
    assert (error or "") in (first.error or "")
    assert (other.value, other.error, other.timestamp_ms) == (first.value, first.error, 1)


def test_a_change_event_is_shown_before_the_transform() -> None:
    """Peek is how one sees what Debezium sends."""
    event = {"op": "c", "after": {"id": 1}}
    (one,) = shown(plain(event), value_format="json", transform="flatten_debezium")
    assert one.value == event


def test_keys_are_decoded_by_their_own_schema() -> None:
    """By prefix or by header; a bad key does not hide the value, and its error says that it is the key's."""
    good = avro_values(3, KEY, {"user": 5})[0]
    first, bad, none = shown(ONE, ONE, ONE, keys=(good, b"bare", None), key_format="by_schema_id")
    assert (first.key_value, first.error, first.schema_id) == ({"user": 5}, None, 1)
    assert (bad.value, bad.key_value, bad.key) == ({"id": 7}, None, b"bare")
    assert (first.readable_key, bad.readable_key, none.readable_key) == ({"user": 5}, "bare", None)
    (number,) = shown(ONE, keys=(b"\x00\x05",))
    assert number.readable_key == b"\x00\x05"
    assert str(bad.error).startswith("key: no_schema_id: ")
    assert (none.key_value, none.error) == (None, None)
    headers = [{"key": KEY_HEADER, "value": prefix(3)}]
    (named,) = shown(ONE, keys=(good[5:],), headers=headers, key_format="by_schema_id")
    assert (named.key_value, named.value) == ({"user": 5}, {"id": 7})


def test_a_batch_is_bounded_by_records_and_ends() -> None:
    """Short partitions are read whole, and the others have equal shares of what is left."""
    source = KafkaRanges("t", {}, headers=True)
    batch = source.next({0: 5}, Limits({0: 100, 1: 3}, records=20))
    assert (batch.start, batch.end) == ({0: 5, 1: 0}, {0: 22, 1: 3})
    assert source.next({0: 100, 1: 3}, Limits({0: 100, 1: 3}, records=20)) is None
