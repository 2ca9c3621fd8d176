"""Statistics and manifests of our own: what PyIceberg's say, and can read."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
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

from tabletopic_kernel.clients.catalog.pyiceberg_seams.footers import Footers
from tabletopic_kernel.pipeline.conform import file_schema

_dice = random.Random(7)


def _of(*values: Any) -> Callable[[], Any]:
    return lambda: _dice.choice(values)


def _decimal(digits: int, scale: int) -> Callable[[], Decimal]:
    return lambda: Decimal(_dice.randrange(1 - 10**digits, 10**digits)).scaleb(-scale)


def _text() -> str:
    return "".join(_dice.choices("aé\U0010ffffz\x00😀", k=_dice.choice((0, 1, 15, 16, 17, 40))))


def _bytes() -> bytes:
    return bytes(_dice.choices((0, 65, 255), k=_dice.choice((0, 1, 16, 17))))


_MOMENTS = _of(-62_135_596_800_000_000, -1, 0, 253_402_300_799_999_999)
_FLOATS = _of(float("nan"), 0.0, -0.0, 1.5, float("inf"), -float("inf"))
_VALUES: Final[dict[PrimitiveType, Callable[[], Any]]] = {
    BooleanType(): _of(True, False),
    IntegerType(): _of(-(2**31), 0, 2**31 - 1),
    LongType(): _of(-(2**63), 0, 2**63 - 1),
    FloatType(): _FLOATS,
    DoubleType(): _FLOATS,
    DateType(): _of(-719_162, 0, 2_932_896),
    TimeType(): _of(0, 86_399_999_999),
    TimestampType(): _MOMENTS,
    TimestamptzType(): _MOMENTS,
    StringType(): _text,
    BinaryType(): _bytes,
    FixedType(2): _of(b"\0\0", b"a\xff", b"\xff\xff"),
    UUIDType(): lambda: uuid.UUID(int=_dice.getrandbits(128)).bytes,
    DecimalType(9, 2): _decimal(9, 2),
    DecimalType(18, 3): _decimal(18, 3),
    DecimalType(38, 10): _decimal(38, 10),
}


def _schema() -> Schema:
    fields = [NestedField(at, f"c{at}", kind) for at, kind in enumerate(_VALUES, 1)]
    struct = StructType(NestedField(101, "x.y", LongType()), NestedField(102, "z", StringType()))
    return Schema(
        *fields, NestedField(100, "struct", struct), NestedField(103, "list", ListType(104, DoubleType()))
    )


def _column(field: pa.Field, rows: int, nulls: float) -> pa.Array:
    makers = dict(zip((f"c{at}" for at in range(1, 99)), _VALUES.values(), strict=False))
    makers["struct"] = lambda: {"x.y": _dice.randrange(9), "z": _text()}
    makers["list"] = lambda: [_FLOATS() for _ in range(_dice.randrange(3))]
    values = [None if _dice.random() < nulls else makers[field.name]() for _ in range(rows)]
    if isinstance(field.type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(field.type, pa.array(values, field.type.storage_type))
    return pa.array(values, field.type)


@pytest.mark.parametrize("mode", ["truncate(1)", "truncate(16)", "full", "counts", "none"])
@pytest.mark.parametrize(("rows", "nulls"), [(0, 0.0), (1, 0.0), (20, 0.3), (3, 1.0)])
def test_statistics_are_those_of_pyiceberg(mode: str, rows: int, nulls: float, tmp_path: Path) -> None:
    """Of all types, over several row groups, however decimals and strings are written."""
    schema = _schema()
    target, paths = file_schema(schema), parquet_path_to_id_mapping(schema)
    plan = compute_statistics_plan(schema, {"write.metadata.metrics.default": mode})
    for compact in (False, True):
        table = pa.Table.from_arrays([_column(f, rows, nulls) for f in target], schema=target)
        options: Any = {"store_decimal_as_integer": compact, "use_dictionary": compact, "row_group_size": 7}
        pq.write_table(table, tmp_path / "file", write_statistics=rows != 1 or compact, **options)
        footer = pq.read_metadata(tmp_path / "file")
        expected = data_file_statistics_from_parquet_metadata(footer, plan, paths).to_serialized_dict()
        assert Footers(plan, paths).statistics(footer) == expected
