"""``partition_by``: expressions such as ``hour(event_time)`` to an Iceberg partition spec.

Transforms and the types they take: Iceberg spec, "Partition Transforms".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import IcebergType

from tabletopic_kernel.core.errors import UsageError

_CALL = re.compile(r"^\s*([A-Za-z]+)\s*\((.*)\)\s*$", re.DOTALL)
_PLAIN: dict[str, type[Transform[Any, Any]]] = {
    "identity": IdentityTransform,
    "year": YearTransform,
    "month": MonthTransform,
    "day": DayTransform,
    "hour": HourTransform,
}
_SIZED: dict[str, Callable[[int], Transform[Any, Any]]] = {
    "bucket": BucketTransform,
    "truncate": TruncateTransform,
}
_SUFFIX = {"identity": "", "truncate": "_trunc"}
_HELP = "write a column, or identity, year, month, day, hour (column), or bucket, truncate (number, column)"


@dataclass(frozen=True)
class PartitionExpression:
    """One parsed entry: ``transform`` on ``column`` (dots reach into structs)."""

    text: str
    name: str
    column: str
    size: int | None = None

    @property
    def transform(self) -> Transform[Any, Any]:
        """PyIceberg's transform."""
        return _SIZED[self.name](self.size) if self.size is not None else _PLAIN[self.name]()

    @property
    def field_name(self) -> str:
        """The partition field's name, as Iceberg's engines choose it: ``event_time_hour``."""
        return self.column.replace(".", "_") + _SUFFIX.get(self.name, f"_{self.name}")


def parse_partition(text: str) -> PartitionExpression:
    """Read one expression; ``bucket(16, user_id)`` and ``bucket(user_id, 16)`` are the same.

    Raises:
        UsageError: unknown transform, wrong arguments.
    """
    call = _CALL.match(text)
    if call is None:
        column = _column(text, text)
        return PartitionExpression(text, "identity", column)
    name, arguments = call[1].lower(), [part.strip() for part in call[2].split(",")]
    name = name if name in _PLAIN or name in _SIZED else name.removesuffix("s")
    if name in _PLAIN:
        if len(arguments) != 1:
            raise UsageError(f"partition {text!r}: {name} takes one column; {_HELP}")
        return PartitionExpression(text, name, _column(arguments[0], text))
    if name not in _SIZED:
        raise UsageError(f"partition {text!r}: {call[1]!r} is no transform; {_HELP}")
    numbers = [part for part in arguments if part.isdigit()]
    columns = [part for part in arguments if not part.isdigit()]
    if len(numbers) != 1 or len(columns) != 1 or int(numbers[0]) < 1:
        raise UsageError(f"partition {text!r}: {name} takes a number above 0 and a column; {_HELP}")
    return PartitionExpression(text, name, _column(columns[0], text), int(numbers[0]))


def partition_spec(expressions: Iterable[str], schema: Schema) -> PartitionSpec:
    """The partition spec for ``schema``; checked, so that nothing is created on a bad one.

    Raises:
        UsageError: unknown column, a type the transform cannot take, the same field twice.
    """
    fields: list[PartitionField] = []
    for position, text in enumerate(expressions):
        parsed = parse_partition(text)
        source_id, source_type = _source(parsed, schema)
        if not source_type.is_primitive or not parsed.transform.can_transform(source_type):
            raise UsageError(f"partition {text!r}: {parsed.name} cannot take {parsed.column} ({source_type})")
        if any(field.name == parsed.field_name for field in fields):
            raise UsageError(f"partition {text!r}: the partition field {parsed.field_name} is there twice")
        fields.append(
            PartitionField(
                source_id=source_id,
                field_id=PARTITION_FIELD_ID_START + position,
                transform=parsed.transform,
                name=parsed.field_name,
            )
        )
    return PartitionSpec(*fields)


def _column(text: str, whole: str) -> str:
    column = text.strip().strip('`"')
    if not column or any(mark in column for mark in "(),"):
        raise UsageError(f"partition {whole!r} is not understood; {_HELP}")
    return column


def _source(parsed: PartitionExpression, schema: Schema) -> tuple[int, IcebergType]:
    try:
        field = schema.find_field(parsed.column)
    except ValueError:
        names = ", ".join(sorted(schema.column_names))
        raise UsageError(
            f"partition {parsed.text!r}: there is no column {parsed.column!r}; the table has {names}"
        ) from None
    return field.field_id, field.field_type
