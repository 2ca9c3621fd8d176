"""What rows and records say in a table that is kept by key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import LongType, NestedField, StringType, StructType, UUIDType

from tabletopic_kernel.model.columns.table_columns import metadata_columns
from tabletopic_kernel.model.columns.upsert_columns import UpsertColumns, upsert_columns
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.conform import conform, file_schema
from tabletopic_kernel.pipeline.transform.columns import CDC_STRUCT
from tabletopic_kernel.pipeline.transform.deletes import (
    ALL_KEYS,
    Followers,
    changes_of,
    former_rows,
    moved_keys,
)
from tests.pipeline.whole_path import Path as Topic
from tests.table.samples import sqlite_catalog

UNCHANGED = b"__debezium_unavailable_value"
ID = NestedField(1, "id", LongType(), required=False)


def _table(*fields: NestedField, **settings: Any) -> tuple[pa.Schema, UpsertColumns]:
    given = TopicSettings(mode="upsert", **settings)
    schema = assign_fresh_schema_ids(Schema(*fields, *metadata_columns(given)))
    return file_schema(schema), upsert_columns(given, schema)


def _rows(target: pa.Schema, **columns: list[Any]) -> pa.RecordBatch:
    count = len(next(iter(columns.values())))
    arrays = {name: pa.array(values, target.field(name).type) for name, values in columns.items()}
    return conform(arrays, count, target)


def test_change_events_write_delete_and_empty() -> None:
    """A delete needs its key alone, a truncate none; without a key, nothing can be said."""
    cdc = NestedField(1, "_cdc", CDC_STRUCT, required=False)
    target, columns = _table(ID, cdc, key=("id",), transform="flatten_debezium")
    ops = [{"op": op, "lsn": lsn, "tx_order": 1} for lsn, op in enumerate("IUDTI")]
    changes = changes_of(_rows(target, id=[1, 2, 3, None, None], _cdc=ops), columns)
    assert changes.writes.tolist() == [True, True, False, False, False]
    assert changes.keyless.tolist() == [False, False, False, False, True]
    key, lsn = (f"column_{leaf.field_id}" for leaf in (columns.key[0], columns.order[0]))
    names = (key, lsn, ALL_KEYS.name)
    deletes = [tuple(row[name] for name in names) for row in changes.deletes.to_pylist()]
    assert (deletes, changes.truncates) == ([(3, 2, False), (None, 3, True)], 1)


def test_flat_events_say_deleted_in_text() -> None:
    """As ExtractNewRecordState writes them."""
    target, columns = _table(ID, NestedField(2, "__deleted", StringType(), required=False), key=("id",))
    changes = changes_of(_rows(target, id=[1, 2, 3], __deleted=["false", "true", None]), columns)
    assert changes.writes.tolist() == [True, False, True]


@pytest.mark.parametrize("name", ["id", "other"])
def test_a_record_without_a_value_deletes_its_kafka_key(name: str) -> None:
    """A key of columns is found in the Kafka key's fields of these names, or not at all."""
    kafka_key = NestedField(9, "_kafka_key", StructType(NestedField(10, name, LongType())), required=False)
    schema = assign_fresh_schema_ids(
        Schema(ID, kafka_key, *metadata_columns(TopicSettings(metadata_columns=("metadata",))))
    )
    target = file_schema(schema)
    rows = _rows(target, _kafka_key=[{name: 5}])
    by_record = upsert_columns(TopicSettings(mode="upsert", key_format="by_schema_id"), schema)
    assert len(changes_of(rows, by_record, without_value=True).deletes) == 1
    by_column = upsert_columns(TopicSettings(mode="upsert", key=("id",)), schema)
    changes = changes_of(rows, by_column, without_value=True)
    assert (len(changes.deletes), changes.keyless.tolist()) == ((1, [False]) if name == "id" else (0, [True]))


def test_a_delete_without_its_row_deletes_its_kafka_key() -> None:
    """Of a key of columns, too, if it has fields of their names; a truncate and a row have no such key."""
    key = StructType(NestedField(10, "id", LongType()))
    fields = ID, NestedField(2, "_cdc", CDC_STRUCT), NestedField(9, "_kafka_key", key, required=False)
    given = TopicSettings(
        mode="upsert", key=("id",), transform="flatten_debezium", metadata_columns=("metadata",)
    )
    schema = assign_fresh_schema_ids(Schema(*fields, *metadata_columns(given)))
    ops = [{"op": op} for op in "DDTI"]
    rows = _rows(
        file_schema(schema), id=[1, None, None, None], _cdc=ops, _kafka_key=[{"id": n} for n in range(5, 9)]
    )
    columns = upsert_columns(given, schema)
    changes = changes_of(rows, columns)
    name = f"column_{columns.key[0].field_id}"
    assert (changes.deletes[name].to_pylist(), changes.keyless.tolist()) == (
        [1, 6, None],
        [False] * 3 + [True],
    )


def test_an_update_of_the_key_deletes_the_old_one() -> None:
    """Only where it is known and another one."""
    target, columns = _table(ID, key=("id",))
    image = pa.struct([("id", pa.int64())])
    before = pa.array([{"id": 1}, {"id": 2}, {"id": None}, None, {"id": 9}], image)
    ops = pa.array(["u", "u", "u", "u", "d"])
    chosen, events = former_rows(pa.RecordBatch.from_arrays([before, ops], ["before", "op"]))
    assert (chosen.tolist(), set(events["op"].to_pylist())) == ([0, 1, 2], {"d"})
    old = _rows(target, id=[1, 2, None])
    new = (np.array([10, 11, 12, 13]), _rows(target, id=[1, 20, 3, 4]))
    assert moved_keys(old, np.array([10, 11, 12]), [new], columns.key)["id"].to_pylist() == [2]


def test_keys_of_each_type_are_compared() -> None:
    """Arrow has no comparison of UUIDs."""
    target, columns = _table(NestedField(1, "id", UUIDType(), required=False), key=("id",))
    old, new = (_rows(target, id=ids) for ids in ([b"a" * 16, b"b" * 16], [b"a" * 16, b"c" * 16]))
    moved = moved_keys(old, np.arange(2), [(np.arange(2), new)], columns.key)
    assert len(changes_of(moved, columns).keyless) == 1


@pytest.mark.parametrize(("kind", "good"), [(LongType(), "5"), (UUIDType(), None)])
def test_a_kafka_key_of_another_type_is_none(kind: Any, good: str | None) -> None:
    """As far as it has no value of the column's type."""
    kafka_key = NestedField(9, "_kafka_key", StructType(NestedField(10, "id", StringType())), required=False)
    given = TopicSettings(mode="upsert", key=("id",), metadata_columns=("metadata",))
    value = NestedField(1, "id", kind, required=False)
    schema = assign_fresh_schema_ids(Schema(value, kafka_key, *metadata_columns(given)))
    rows = _rows(file_schema(schema), _kafka_key=[{"id": "x" * 16}, {"id": "5"}, {"id": "y"}])
    changes = changes_of(rows, upsert_columns(given, schema), without_value=True)
    assert changes.keyless.tolist() == [True, good is None, True]


def test_a_part_of_the_key_may_have_a_dot_in_its_name() -> None:
    """Columns are found by the structure of the schema."""
    whole = NestedField(1, "k", StructType(NestedField(2, "a.b", LongType())), required=False)
    target, columns = _table(whole, key=("k",))
    assert changes_of(_rows(target, k=[{"a.b": 1}, None]), columns).writes.tolist() == [True, False]


def test_deleted_that_is_no_text_says_nothing() -> None:
    """A struct of that name is the topic's own."""
    own = NestedField(2, "__deleted", StructType(NestedField(3, "by", StringType())), required=False)
    target, columns = _table(ID, own, key=("id",))
    assert changes_of(_rows(target, id=[1], __deleted=[{"by": "me"}]), columns).writes.tolist() == [True]


def test_a_record_without_a_value_adds_nothing_to_the_delete_before_it() -> None:
    """With the same key and in the same partition, also across batches; any other one is a delete itself."""
    records = pa.record_batch(
        {
            "partition": [0, 0, 0, 0, 0, 1, 0, 0],
            "key": pa.array([b"a", b"a", b"b", b"c", b"c", b"c", b"d", b"d"], pa.large_binary()),
        }
    )
    followers = Followers()
    followers.begin(records)
    followers.deleted(np.array([0, 3]))
    marks = [True, False, True, False, False]
    assert followers.among(np.array([1, 2, 4, 5, 7])).tolist() == marks  # the last follows no delete
    followers.deleted(np.array([5]))
    followers.begin(records[:0])
    followers.begin(records[5:6])
    assert followers.among(np.array([0])).tolist() == [True]
    followers.begin(records[3:6])
    assert followers.among(np.array([2])).tolist() == [False]


def test_a_record_without_a_value_deletes_unless_the_record_before_it_did(tmp_path: Path) -> None:
    """Flat events say that in ``__deleted``; a row before it says nothing of it."""
    catalog = sqlite_catalog(tmp_path)
    settings = TopicSettings(mode="upsert", value_format="json", key_format="string", order_by="lsn")
    topic = Topic(catalog, settings)
    row, gone = (b'{"lsn": %d, "__deleted": "%s"}' % values for values in ((1, b"false"), (2, b"true")))
    for values, deletes in (((row, None), 1), ((row, gone, None), 1), ((gone, None, None), 2)):
        topic.send(*values)
        assert sum(file.record_count for file in topic.result.deletes) == deletes
        assert not topic.result.unavailable
    topic.send(b'{"lsn": 3, "__deleted": "%s"}' % UNCHANGED, b'{"lsn": 4, "__deleted": "false"}')
    (field_id,) = topic.result.unavailable  # the column in which a row keeps its value
    table = topic.keeper.needed_table().table
    assert table.schema().find_column_name(field_id) == "__deleted"
