"""Partition expressions."""

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DoubleType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from tabletopic_kernel.model.columns.partitions import (
    NONE,
    next_spec,
    parse_partition,
    partition_spec,
    partition_texts,
)
from tabletopic_kernel.model.errors import UsageError

SCHEMA = Schema(
    NestedField(1, "event_time", TimestamptzType()),
    NestedField(2, "user_id", LongType()),
    NestedField(3, "url", StringType()),
    NestedField(4, "price", DoubleType()),
    NestedField(5, "device", StructType(NestedField(6, "kind", StringType()))),
    NestedField(7, "tags", ListType(8, StringType())),
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("hour(event_time)", "event_time_hour: hour(1)"),
        ("hours(event_time)", "event_time_hour: hour(1)"),
        ("DAY( event_time )", "event_time_day: day(1)"),
        ("month(event_time)", "event_time_month: month(1)"),
        ("years(event_time)", "event_time_year: year(1)"),
        ("bucket(16, user_id)", "user_id_bucket: bucket[16](2)"),
        ("bucket(user_id,16)", "user_id_bucket: bucket[16](2)"),
        ("truncate(4, url)", "url_trunc: truncate[4](3)"),
        ("truncate(url, 4)", "url_trunc: truncate[4](3)"),
        ("identity(url)", "url: identity(3)"),
        ("url", "url: identity(3)"),
        ("device.kind", "device_kind: identity(6)"),
    ],
)
def test_good_expressions(text: str, shown: str) -> None:
    """Every transform, both argument orders, plurals, nested columns."""
    (field,) = partition_spec([text], SCHEMA).fields
    assert str(field).startswith(f"1000: {shown}")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "cannot be parsed"),
        ("hour()", "cannot be parsed"),
        ("hour(event_time, 3)", "takes one column"),
        ("bucket(user_id)", "a number above 0 and a column"),
        ("bucket(0, user_id)", "a number above 0"),
        ("bucket(4, 5)", "a number above 0 and a column"),
        ("week(event_time)", "'week' is not a transform"),
        ("hour(event_time", "cannot be parsed"),
        ("hour(nowhere)", "no column 'nowhere'"),
        ("hour(url)", "cannot take url"),
        ("bucket(4, price)", "cannot take price"),
        ("tags", "cannot take tags"),
        ("device", "cannot take device"),
    ],
)
def test_bad_expressions(text: str, told: str) -> None:
    """A wrong expression names itself and what is wrong."""
    with pytest.raises(UsageError, match=told):
        partition_spec([text], SCHEMA)


def test_expressions_need_no_schema() -> None:
    """None are no partitions, as ``none``; the same field twice is refused."""
    assert partition_spec([], SCHEMA).is_unpartitioned()
    assert parse_partition("bucket(16, user_id)").size == 16
    assert partition_spec([NONE], SCHEMA).is_unpartitioned()
    with pytest.raises(UsageError, match="twice"):
        partition_spec(["bucket(4, user_id)", "bucket(8, user_id)"], SCHEMA)


def test_a_column_is_found_by_the_names_it_had() -> None:
    """By that of its schema, which its doc tells, and by one from before it was renamed."""
    renamed = Schema(
        NestedField(1, "at", TimestamptzType()), NestedField(2, "ID_2", LongType(), doc='field "ID"')
    )
    spec = partition_spec(["day(event_time)", "bucket(4, ID)"], renamed, {1: ("event_time",)})
    assert [field.source_id for field in spec.fields] == [1, 2]
    assert partition_texts(spec, renamed) == ["day(at)", "bucket(4, ID_2)"]


def test_a_partition_field_has_no_name_of_another_column() -> None:
    """Iceberg's libraries could not read such a table."""
    schema = Schema(NestedField(1, "at", TimestamptzType()), NestedField(2, "at_day", LongType()))
    assert [field.name for field in partition_spec(["day(at)", "at_day"], schema).fields] == [
        "at_day_",
        "at_day",
    ]


def test_specs_follow_each_other() -> None:
    """Ids and names are never used for another thing, and a spec that was there comes back."""
    first = partition_spec(["bucket(4, user_id)", "url"], SCHEMA)
    wanted = partition_spec(["url", "bucket(8, user_id)", "day(event_time)"], SCHEMA)
    second = next_spec(wanted, [first], 1001)
    assert [(field.field_id, field.name) for field in second.fields] == [
        (1001, "url"),
        (1002, "user_id_bucket_"),
        (1003, "event_time_day"),
    ]
    assert second.spec_id == 1
    assert next_spec(partition_spec(["bucket(4, user_id)", "url"], SCHEMA), [first, second], 1003) == first
    assert next_spec(partition_spec([NONE], SCHEMA), [first, second], 1003).is_unpartitioned()
