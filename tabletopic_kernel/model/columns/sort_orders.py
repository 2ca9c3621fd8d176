"""``sort_by``: from entries such as ``event_time desc nulls first`` to an Iceberg sort order.

Iceberg spec, "Sort Orders". Columns and transforms are written as in ``partition_by``. Without entries a
table's order is unchanged; the single word ``none`` removes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder

from tabletopic_kernel.model.columns.partitions import NONE, expression_text, parse_partition, source_of
from tabletopic_kernel.model.errors import SettingsError

# "event_time desc nulls first": the words after the column, from the end.
_ENTRY = re.compile(
    r"^(.*?)(?:(?<!\s)\s+(asc|desc))?(?:(?<!\s)\s+nulls\s+(first|last))?(?<!\s)\s*$",
    re.IGNORECASE | re.DOTALL,
)
_DIRECTIONS = {"asc": SortDirection.ASC, "desc": SortDirection.DESC}
_NULLS = {"first": NullOrder.NULLS_FIRST, "last": NullOrder.NULLS_LAST}
_DEFAULT_NULLS = {SortDirection.ASC: "first", SortDirection.DESC: "last"}
_USE = "sort_by"


def sort_order(
    entries: Iterable[str], schema: Schema, former: Mapping[int, tuple[str, ...]] | None = None
) -> SortOrder:
    """The order for ``schema``; entries may use ``former`` names of its columns. Raises UsageError."""
    fields: list[SortField] = []
    chosen = list(entries)
    for text in chosen if chosen != [NONE] else ():
        field = _field(text, schema, former or {})
        if any(_identity(earlier) == _identity(field) for earlier in fields):
            name = expression_text(field, schema)
            raise SettingsError(f"{_USE} {text!r}: {name} occurs twice; name it once")
        fields.append(field)
    return SortOrder(*fields) if fields else UNSORTED_SORT_ORDER


def check_sort_entry(text: str) -> None:
    """Check that an entry can be parsed; raises UsageError."""
    parse_partition(_words(text)[0], _USE)


def _field(text: str, schema: Schema, former: Mapping[int, tuple[str, ...]]) -> SortField:
    expression, direction, nulls = _words(text)
    parsed = parse_partition(expression, _USE)
    source = source_of(parsed, schema, former)
    kind = source.field_type
    if not kind.is_primitive:
        raise SettingsError(
            f"{_USE} {text!r}: {parsed.column} is a {str(kind).partition('<')[0]}, which has no order; "
            "use a column of single values, or such a field of a struct (struct.field)"
        )
    if not parsed.transform.can_transform(kind):
        raise SettingsError(
            f"{_USE} {text!r}: {parsed.name} cannot take {parsed.column} ({kind}); "
            f"write {parsed.column} alone"
        )
    return SortField(source.field_id, parsed.transform, direction, nulls)


def _words(text: str) -> tuple[str, SortDirection, NullOrder]:
    """An entry's column or transform, its direction, and where its nulls are."""
    match = _ENTRY.match(text)
    assert match is not None  # matches any text
    direction = _DIRECTIONS[(match[2] or "asc").lower()]
    return match[1], direction, _NULLS[(match[3] or _DEFAULT_NULLS[direction]).lower()]


def _identity(field: SortField) -> tuple[int, str]:
    return field.source_id, str(field.transform)


def next_order(wanted: SortOrder, orders: Sequence[SortOrder]) -> SortOrder:
    """The table's sort order for ``wanted``: a former one if possible, or a new one."""
    for order in orders:
        if order.fields == wanted.fields:
            return order
    if wanted.is_unsorted:
        return UNSORTED_SORT_ORDER
    return SortOrder(*wanted.fields, order_id=1 + max((order.order_id for order in orders), default=0))


def order_without_lost(order: SortOrder, orders: Sequence[SortOrder], schema: Schema) -> SortOrder | None:
    """What remains of an order whose columns were dropped, see ``next_order``; None if none was dropped.

    Iceberg's Java and Python libraries refuse to drop such a column, and to commit after another program did.
    """
    remaining = [field for field in order.fields if field.source_id in schema.field_ids]
    return None if len(remaining) == len(order.fields) else next_order(SortOrder(*remaining), orders)


def sort_texts(order: SortOrder, schema: Schema) -> list[str]:
    """The entries of an order, in the form used by ``sort_by``.

    >>> from pyiceberg.types import NestedField, StringType
    >>> schema = Schema(NestedField(1, "town", StringType()))
    >>> sort_texts(sort_order(["bucket(4, town)", "town desc nulls first"], schema), schema)
    ['bucket(4, town)', 'town desc nulls first']
    """
    return [_text(field, schema) for field in order.fields]


def _text(field: SortField, schema: Schema) -> str:
    nulls = "first" if field.null_order is NullOrder.NULLS_FIRST else "last"
    direction = " desc" if field.direction is SortDirection.DESC else ""
    placed = "" if nulls == _DEFAULT_NULLS[field.direction] else f" nulls {nulls}"
    return f"{expression_text(field, schema)}{direction}{placed}"
