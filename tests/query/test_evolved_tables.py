"""DuckDB reads tables whose schema changed as PyIceberg does."""

from __future__ import annotations

import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tabletopic_kernel.query.duckdb import DuckLake

_FIRST = Schema(
    NestedField(1, "id", IntegerType(), required=True),
    NestedField(2, "f", FloatType()),
    NestedField(3, "d", DecimalType(9, 2)),
    NestedField(
        4,
        "geo",
        StructType(
            NestedField(5, "country", StringType(), required=True), NestedField(6, "n", IntegerType())
        ),
    ),
    NestedField(
        7,
        "items",
        ListType(
            8,
            StructType(NestedField(9, "sku", StringType()), NestedField(10, "qty", IntegerType())),
            element_required=False,
        ),
    ),
    NestedField(
        11,
        "props",
        MapType(12, StringType(), 13, StructType(NestedField(14, "v", IntegerType())), value_required=False),
    ),
    NestedField(15, "at", TimestamptzType()),
    NestedField(16, "u", UUIDType()),
    NestedField(17, "fx", FixedType(4)),
    NestedField(18, "t", TimeType()),
    NestedField(19, "day", DateType()),
    NestedField(20, "ints", ListType(21, IntegerType(), element_required=False)),
    NestedField(22, "bin", BinaryType()),
    NestedField(23, "lt", TimestampType()),
    NestedField(24, "old", StringType()),
)


def _row(number: int, *, evolved: bool) -> dict[str, Any]:
    def more(**fields: Any) -> dict[str, Any]:
        return fields if evolved else {}

    return {
        "id": number + (2**40 if evolved else 0), "f": 1.5, "d": Decimal("1.25"),
        "geo": None if number == 2 else {"country": "NL", "n": number, **more(city="Utrecht")},
        "items": [{"sku": "a", "qty": number, **more(price=2.5)}, None] if number else [],
        "props": [("k", {"v": number, **more(w="w")}), ("none", None)],
        "at": datetime(2026, 1, 1, 12, tzinfo=UTC), "u": uuid.UUID(int=number).bytes, "fx": b"abcd",
        "t": time(1, 2, 3, 4), "day": date(2026, 1, 2), "ints": [1, None, number], "bin": b"\x00\xff",
        "lt": datetime(2026, 1, 1, 12), "renamed" if evolved else "old": "o",
        **more(new="n", extra={"a": 1, "b": ["z", None]}, new_time=datetime(2026, 1, 1, tzinfo=UTC)),
    }  # fmt: skip


def _append(table: Table, *, evolved: bool) -> None:
    rows = [_row(number, evolved=evolved) for number in range(4)]
    table.append(pa.Table.from_pylist(rows, schema=table.schema().as_arrow()))


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """Rows of a first schema, then every change that this project makes, then rows of the second."""
    made = catalog.create_table(
        "default.evolved",
        _FIRST,
        partition_spec=PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "b")),
    )
    _append(made, evolved=False)
    with made.update_schema() as update:
        update.update_column("id", LongType())
        update.make_column_optional("id")
        update.update_column("f", DoubleType())
        update.update_column("d", DecimalType(18, 2))
        update.update_column(("geo", "n"), LongType())
        update.make_column_optional(("geo", "country"))
        update.add_column(("geo", "city"), StringType())
        update.add_column(("items", "price"), DoubleType())
        update.update_column(("items", "element", "qty"), LongType())
        update.add_column(("props", "w"), StringType())
        update.update_column(("props", "value", "v"), LongType())
        update.update_column(("ints", "element"), LongType())
        update.add_column("new", StringType())
        update.rename_column("old", "renamed")
        update.add_column(
            "extra",
            StructType(
                NestedField(100, "a", IntegerType()),
                NestedField(101, "b", ListType(102, StringType(), element_required=False)),
            ),
        )
        update.add_column("new_time", TimestamptzType())
    _append(made, evolved=True)
    return made


def _plain(rows: pa.Table) -> list[dict[str, Any]]:
    listed = sorted(rows.to_pylist(), key=lambda row: str(row["id"]))
    return [{**row, "u": str(row["u"])} for row in listed]


def test_rows_are_the_same_by_both_readers(table: Table, own: DuckLake) -> None:
    """Added, widened, relaxed and renamed columns, nested ones too, read as PyIceberg reads them."""
    by_duckdb = _plain(own.sql("FROM evolved"))
    assert len(by_duckdb) == 8
    assert by_duckdb == _plain(table.scan().to_arrow())


def test_filters_on_new_and_old_columns(table: Table, own: DuckLake) -> None:
    """Filters that reach the files by statistics find rows of files older than the column."""
    counts = {
        "new IS NULL": 4, "geo.city IS NULL": 5, "geo.city = 'Utrecht'": 3, "f = 1.5 AND d = 1.25": 8,
        "id < 10": 4, f"id >= {2**40}": 4, "geo.n > 1": 2, "items[1].price = 2.5": 3, "renamed = 'o'": 8,
        "extra.b[1] = 'z'": 4, "props['k'].w = 'w'": 4,
    }  # fmt: skip
    found = {
        where: own.sql(f"SELECT count(*) FROM evolved WHERE {where}").column(0)[0].as_py() for where in counts
    }
    assert found == counts


def test_the_first_snapshot_has_the_first_schema(table: Table, own: DuckLake) -> None:
    """Time travel shows the columns of its time."""
    first = table.history()[0].snapshot_id
    then = own.sql("FROM evolved", at=first)
    assert then.column_names == [field.name for field in _FIRST.fields]
    assert _plain(then) == _plain(table.scan(snapshot_id=first).to_arrow())
