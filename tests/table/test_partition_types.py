"""Partitions by columns of all types: rows are staged, committed, read and compacted."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec, _to_partition_representation
from pyiceberg.schema import Schema
from pyiceberg.table.update import AddPartitionSpecUpdate, SetDefaultSpecUpdate
from pyiceberg.transforms import IdentityTransform, VoidTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tabletopic_kernel.model.columns.partitions import partition_spec
from tabletopic_kernel.model.errors import UsageError
from tests.table.lake import Lake

_NOON = dt.datetime(2026, 1, 2, 12, 30, 1, 5)
_BEFORE = dt.datetime(1969, 3, 4, 5, 6)
# Two values of each type that a column of the topic can have.
VALUES: dict[PrimitiveType, list[Any]] = {
    BooleanType(): [True, False],
    IntegerType(): [-1, 25],
    LongType(): [-(2**62), 25],
    FloatType(): [0.0, -0.0],
    DoubleType(): [-2.5, float("inf")],
    DecimalType(9, 2): [Decimal("1.25"), Decimal("-9999999.99")],
    DecimalType(38, 4): [Decimal("1.2500"), Decimal("-12.5000")],
    DateType(): [dt.date(2026, 1, 2), dt.date(1, 1, 1)],
    TimeType(): [dt.time(1, 2, 3, 4), dt.time(23)],
    TimestampType(): [_NOON, _BEFORE],
    TimestamptzType(): [_NOON.replace(tzinfo=dt.UTC), _BEFORE.replace(tzinfo=dt.UTC)],
    StringType(): ["ä😀日b", "null"],
    UUIDType(): [uuid.UUID(int=1), uuid.UUID(int=2**127)],
    FixedType(4): [b"abcd", b"\xff\x00\x01\x02"],
    BinaryType(): [b"abcd", b"\xff\x00"],
}
TRANSFORMS = ["x", "bucket(97, x)", "truncate(3, x)", "year(x)", "month(x)", "day(x)", "hour(x)"]


def _schema(kind: PrimitiveType) -> Schema:
    return Schema(
        NestedField(1, "x", kind, required=False), NestedField(2, "n", IntegerType(), required=False)
    )


def _takes(text: str, kind: PrimitiveType) -> bool:
    try:
        partition_spec([text], _schema(kind))
    except UsageError:
        return False
    return True


def _expected(field: PartitionField, kind: PrimitiveType, value: Any) -> Any:
    """What PyIceberg makes of one value, as a manifest is read."""
    raw = _to_partition_representation(kind, value)
    found = field.transform.transform(kind)(raw)
    is_uuid = isinstance(kind, UUIDType) and isinstance(field.transform, IdentityTransform)
    return uuid.UUID(bytes=found) if is_uuid and found is not None else found


def _read_whole(lake: Lake, numbers: list[int], values: list[Any]) -> None:
    found = [(row["n"], str(row["x"])) for row in lake.rows()]
    assert sorted(found) == sorted((n, str(x)) for n, x in zip(numbers, values, strict=True))


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_rows_are_in_the_partition_of_their_value(catalog: Catalog, kind: PrimitiveType) -> None:
    """They are what PyIceberg makes of each value; all rows are read; small files become one of each."""
    by = tuple(text for text in TRANSFORMS if _takes(text, kind))
    lake = Lake(catalog, _schema(kind), by)
    one, two = VALUES[kind]
    values = [one, None, two, one, two, None]
    for start in (0, 6):
        lake.append({"x": values, "n": list(range(start, start + 6))})
    fields = lake.table.spec().fields

    def partitions() -> list[str]:
        return sorted(repr([file.partition[at] for at in range(len(by))]) for file in lake.files())

    expected = {repr([_expected(field, kind, value) for field in fields]) for value in (one, two, None)}
    assert partitions() == sorted([*expected] * 2)
    _read_whole(lake, list(range(12)), values * 2)
    assert lake.compact().left == {}
    assert partitions() == sorted(expected)
    _read_whole(lake, list(range(12)), values * 2)


@pytest.mark.parametrize(
    "by", [("day(x)", "hour(x)"), ("x", "bucket(7, x)"), ("bucket(2, n)", "x", "n")], ids=str
)
def test_a_column_may_have_several_fields(catalog: Catalog, by: tuple[str, ...]) -> None:
    """Each field has its value, and rows that differ in one of them are in different files."""
    lake = Lake(catalog, _schema(TimestampType()), by)
    values = [_NOON, None, _BEFORE, _NOON]
    for start in (0, 0):
        lake.append({"x": values, "n": list(range(start, start + 4))})
    _read_whole(lake, [*range(4)] * 2, values * 2)
    before = {tuple(file.partition[at] for at in range(len(by))) for file in lake.files()}
    assert lake.compact().left == {}
    assert {tuple(file.partition[at] for at in range(len(by))) for file in lake.files()} == before
    assert len(lake.files()) == len(before)
    _read_whole(lake, [*range(4)] * 2, values * 2)


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_a_field_may_be_void(catalog: Catalog, kind: PrimitiveType) -> None:
    """As tables of version 1 have it where a field was taken away, beside the field that took its place."""
    lake = Lake(catalog, _schema(kind), ("n",))
    spec = lake.table.spec()
    void = PartitionField(source_id=1, field_id=1005, transform=VoidTransform(), name="x_gone")
    with lake.table.transaction() as transaction:
        transaction._apply(
            (
                AddPartitionSpecUpdate(spec=PartitionSpec(void, *spec.fields, spec_id=7)),
                SetDefaultSpecUpdate(spec_id=-1),
            )
        )
    values = [*VALUES[kind], None, None]
    for _ in range(2):
        lake.append({"x": values, "n": [0, 0, 0, 1]})
    assert sorted(str(file.partition) for file in lake.files()) == sorted(
        [str(Record(None, 0)), str(Record(None, 1))] * 2
    )
    assert lake.compact().left == {}
    assert len(lake.files()) == 2
    _read_whole(lake, [0, 0, 0, 1] * 2, values * 2)


def test_a_long_value_has_a_short_path(catalog: Catalog) -> None:
    """No file system takes a folder's name of more than 255 bytes; rows of such a value are rows."""
    lake = Lake(catalog, _schema(StringType()), ("x",))
    values = ["日" * 1000, "日" * 999, "a/../b"]
    lake.append({"x": values, "n": [0, 1, 2]})
    assert sorted(file.partition[0] for file in lake.files()) == sorted(values)
    assert all(len(part) <= 255 for file in lake.files() for part in file.file_path.split("/"))
    _read_whole(lake, [0, 1, 2], values)


def test_a_column_of_a_struct(catalog: Catalog) -> None:
    """Null where the struct is."""
    inner = StructType(NestedField(3, "u", UUIDType(), required=False))
    lake = Lake(catalog, Schema(NestedField(1, "x", inner, required=False)), ("x.u",))
    key = uuid.UUID(int=5)
    rows = [{"u": key.bytes}, None, {"u": None}]
    lake.append({"x": pa.array(rows, pa.struct([("u", pa.binary(16))]))})
    assert sorted(str(file.partition[0]) for file in lake.files()) == sorted([str(key), "None"])
    assert len(lake.rows()) == 3
