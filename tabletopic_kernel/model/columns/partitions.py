"""``partition_by``: from expressions such as ``hour(event_time)`` to an Iceberg partition spec.

Transforms and the types they accept: Iceberg spec, "Partition Transforms". Without expressions a table's spec
is unchanged; the single word ``none`` removes its partitions.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyiceberg import transforms
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField
from pyiceberg.types import IcebergType, NestedField, StructType

from tabletopic_kernel.model.columns.names import original_name
from tabletopic_kernel.model.errors import UsageError

_CALL = re.compile(r"^\s*([A-Za-z]+)\s*\((.*)\)\s*$", re.DOTALL)
_PLAIN: dict[str, type[transforms.Transform[Any, Any]]] = {
    "identity": transforms.IdentityTransform,
    "year": transforms.YearTransform,
    "month": transforms.MonthTransform,
    "day": transforms.DayTransform,
    "hour": transforms.HourTransform,
}
_SIZED: dict[str, Callable[[int], transforms.Transform[Any, Any]]] = {
    "bucket": transforms.BucketTransform,
    "truncate": transforms.TruncateTransform,
}
_SUFFIX = {"identity": "", "truncate": "_trunc"}
NONE = "none"
_HELP = "write a column, or identity, year, month, day, hour (column), or bucket, truncate (number, column)"


@dataclass(frozen=True)
class PartitionExpression:
    """One parsed entry: ``transform`` on ``column`` (dots reach into structs)."""

    text: str
    name: str
    column: str
    size: int | None = None
    use: str = "partition"  # the purpose, for errors

    @property
    def transform(self) -> transforms.Transform[Any, Any]:
        """PyIceberg's transform."""
        return _SIZED[self.name](self.size) if self.size is not None else _PLAIN[self.name]()

    @property
    def field_name(self) -> str:
        """The partition field's name, as Iceberg's engines choose it: ``event_time_hour``."""
        return self.column.replace(".", "_") + _SUFFIX.get(self.name, f"_{self.name}")


def parse_partition(text: str, use: str = "partition") -> PartitionExpression:
    """One expression; ``bucket(16, user_id)`` is ``bucket(user_id, 16)``. Errors begin with ``use``."""
    call = _CALL.match(text)
    if call is None:
        return PartitionExpression(text, "identity", _column(text, text, use), use=use)
    name, arguments = call[1].lower(), [part.strip() for part in call[2].split(",")]
    name = name if name in _PLAIN or name in _SIZED else name.removesuffix("s")
    if name in _PLAIN:
        if len(arguments) != 1:
            raise UsageError(f"{use} {text!r}: {name} takes one column; {_HELP}")
        return PartitionExpression(text, name, _column(arguments[0], text, use), use=use)
    if name not in _SIZED:
        raise UsageError(f"{use} {text!r}: {call[1]!r} is not a transform; {_HELP}")
    numbers = [part for part in arguments if part.isdigit()]
    columns = [part for part in arguments if not part.isdigit()]
    if len(numbers) != 1 or len(columns) != 1 or int(numbers[0]) < 1:
        raise UsageError(f"{use} {text!r}: {name} takes a number above 0 and a column; {_HELP}")
    return PartitionExpression(text, name, _column(columns[0], text, use), int(numbers[0]), use)


def partition_spec(
    expressions: Iterable[str], schema: Schema, former: Mapping[int, tuple[str, ...]] | None = None
) -> PartitionSpec:
    """The spec for ``schema``; expressions may use ``former`` names of its columns. Raises UsageError."""
    fields: list[PartitionField] = []
    chosen = list(expressions)
    for text in chosen if chosen != [NONE] else ():
        parsed = parse_partition(text)
        source = source_of(parsed, schema, former or {})
        source_type = source.field_type
        if not source_type.is_primitive or not parsed.transform.can_transform(source_type):
            raise UsageError(f"partition {text!r}: {parsed.name} cannot take {parsed.column} ({source_type})")
        name = _free_name(parsed, source.field_id, schema)
        if any(field.name == name for field in fields):
            raise UsageError(f"partition {text!r}: the partition field {name} occurs twice")
        field_id = PARTITION_FIELD_ID_START + len(fields)
        fields.append(
            PartitionField(
                source_id=source.field_id, field_id=field_id, transform=parsed.transform, name=name
            )
        )
    return PartitionSpec(*fields)


def _free_name(parsed: PartitionExpression, source_id: int, schema: Schema) -> str:
    """A partition field may share a column's name only if it is that column's value (Iceberg's libraries)."""
    others = {c.name for c in schema.fields if c.field_id != source_id or parsed.name != "identity"}
    name = parsed.field_name
    while name in others:
        name += "_"
    return name


def next_spec(wanted: PartitionSpec, specs: Sequence[PartitionSpec], last_field_id: int) -> PartitionSpec:
    """The table's spec for ``wanted``: a former one if possible, or a new one.

    Iceberg spec, "Partition Evolution": field ids are never reused for other fields; nor are names here.

    Args:
        wanted: see ``partition_spec``.
        specs: all specs that the table ever had.
        last_field_id: the table metadata's ``last-partition-id``; ids of new partition fields follow it.
    """
    for spec in specs:
        if same_partitions(spec, wanted):
            return spec
    former = {_identity(field): field for spec in specs for field in spec.fields}
    used = {field.name for field in former.values()}
    ids = itertools.count(last_field_id + 1)
    fields = []
    for field in wanted.fields:
        name = field.name
        while name in used:
            name += "_"
        new = {"field_id": next(ids), "name": name} if _identity(field) not in former else {}
        fields.append(field.model_copy(update=new) if new else former[_identity(field)])
    return PartitionSpec(*fields, spec_id=1 + max((spec.spec_id for spec in specs), default=-1))


def same_partitions(spec: PartitionSpec, other: PartitionSpec) -> bool:
    """Whether both partition a table in the same way; names do not matter."""
    return [_identity(field) for field in spec.fields] == [_identity(field) for field in other.fields]


def _identity(field: PartitionField) -> tuple[int, str]:
    return field.source_id, str(field.transform)


def partition_texts(spec: PartitionSpec, schema: Schema) -> list[str]:
    """The expressions of a spec, in the form used by ``partition_by``.

    >>> from pyiceberg.types import NestedField, StringType
    >>> schema = Schema(NestedField(1, "town", StringType()))
    >>> partition_texts(partition_spec(["bucket(4, town)"], schema), schema)
    ['bucket(4, town)']
    """
    return [expression_text(field, schema) for field in spec.fields]


def expression_text(field: PartitionField | SortField, schema: Schema) -> str:
    """The field as text for ``parse_partition``."""
    column = schema.find_column_name(field.source_id) or "?"
    if isinstance(field.transform, transforms.IdentityTransform) and column != NONE:
        return column
    sized = re.fullmatch(r"(\w+)\[(\d+)\]", str(field.transform))
    return f"{sized[1]}({sized[2]}, {column})" if sized else f"{field.transform}({column})"


def _column(text: str, expression: str, use: str) -> str:
    column = text.strip().strip('`"')
    if not column or any(mark in column for mark in "(),"):
        raise UsageError(f"{use} {expression!r} cannot be parsed; {_HELP}")
    return column


def source_of(
    parsed: PartitionExpression, schema: Schema, former: Mapping[int, tuple[str, ...]]
) -> NestedField:
    """The column of an expression; ``former`` as in ``partition_spec``. Raises UsageError."""
    column: NestedField | None = None
    struct: IcebergType = schema.as_struct()
    for part in parsed.column.split("."):
        column = _named(part, struct, former) if isinstance(struct, StructType) else None
        if column is None:
            names = ", ".join(sorted(schema.column_names))
            raise UsageError(
                f"{parsed.use} {parsed.text!r}: there is no column {parsed.column!r}; the table has {names}"
            )
        struct = column.field_type
    assert column is not None
    return column


def _named(name: str, struct: StructType, former: Mapping[int, tuple[str, ...]]) -> NestedField | None:
    columns = struct.fields
    return next(
        itertools.chain(
            (column for column in columns if column.name == name),
            (column for column in columns if original_name(column.name, column.doc) == name),
            (column for column in columns if name in former.get(column.field_id, ())),
        ),
        None,
    )
