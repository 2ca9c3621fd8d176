"""Which columns of an upsert table say that rows are one row, and which of them is the newest.

Columns are known by field id, so a rename or a wider type changes nothing. A struct means all values in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, DoubleType, FixedType, FloatType, IcebergType, NestedField, StructType

from tabletopic_kernel.model.columns.evolution import KEY, METADATA
from tabletopic_kernel.model.columns.partitions import PartitionExpression, source_of
from tabletopic_kernel.model.errors import ActionNeededError, UsageError
from tabletopic_kernel.model.ledger import PREFIX
from tabletopic_kernel.model.settings.sections import TopicSettings

UPSERT_PROPERTY: Final = f"{PREFIX}upsert"  # of an upsert table: its key and order, as set
CHANGE: Final = "_cdc"  # the column with what an event of Debezium says about a row
# By what the newest event of a key is found if the settings do not say: as far as a table has them.
_DEBEZIUM_ORDER: Final = (f"{CHANGE}.lsn", f"{CHANGE}.tx_order")
_PLACE: Final = tuple(f"{METADATA}.{name}" for name in ("partition", "offset", "timestamp"))
Former = Mapping[int, tuple[str, ...]]


@dataclass(frozen=True)
class Leaf:
    """A column, or a field in a struct, with a single value: ``path`` has its names from the outside."""

    field_id: int
    path: tuple[str, ...]
    kind: IcebergType


@dataclass(frozen=True)
class UpsertColumns:
    """What an upsert reads of a row: its key, its order, and its record's partition, offset and timestamp.

    Without ``order``, the place of the record decides: the offset in a partition, else the timestamp.
    """

    key: tuple[Leaf, ...]
    order: tuple[Leaf, ...]
    place: tuple[Leaf, ...]

    @property
    def by_record(self) -> bool:
        """Whether the key is that of the Kafka record, also of one without a value."""
        return all(leaf.path[0] == KEY for leaf in self.key)

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """All of them, each once."""
        return tuple({leaf.field_id: leaf for leaf in (*self.key, *self.order, *self.place)}.values())


def upsert_columns(settings: TopicSettings, schema: Schema, former: Former | None = None) -> UpsertColumns:
    """The columns of a table for these settings; UsageError with the way out if it cannot be kept by key."""
    check_upsert(settings)
    known = former or {}
    if settings.transform == "flatten_debezium" and CHANGE not in schema.column_names:
        raise UsageError(f"mode upsert: the projection has to keep {CHANGE}, which says what was deleted")
    keys = settings.key or (KEY,)
    if not settings.key and KEY not in schema.column_names:
        raise UsageError(
            "upsert needs a key, and no schema of the topic's keys is known yet: name columns with --key, or "
            "wait until the registry has it"
        )
    key = [leaf for name in keys for leaf in _leaves(_column(name, "key", schema, known), schema, "key")]
    orders = _order_names(settings, schema)
    order = [
        leaf for name in orders for leaf in _leaves(_column(name, "order_by", schema, known), schema, "")
    ]
    if len(order) > len(orders) or any(isinstance(leaf.kind, BinaryType | FixedType) for leaf in order):
        raise UsageError(f"order_by {settings.order_by!r}: the order needs one value, which can be compared")
    place = [leaf for name in _PLACE for leaf in _leaves(_column(name, "order_by", schema, {}), schema, "")]
    return UpsertColumns(tuple(key), tuple(order), tuple(place))


def check_upsert(settings: TopicSettings) -> None:
    """Check that settings without columns fit an upsert table; raises UsageError with the way out."""
    given = set(settings.metadata_columns)
    reasons = (
        ("metadata" not in given, "it compares where records came from: leave metadata in metadata_columns"),
        (
            not settings.key and (settings.key_format == "none" or "key" not in given),
            "it needs a key: name columns with --key, or keep the Kafka key in metadata_columns",
        ),
        (
            settings.on_truncation == "rewind",
            "rows that a lost record replaced cannot come back: set on_truncation to stop",
        ),
        (
            settings.on_truncation == "mark"
            and settings.order_by is None
            and settings.transform != "flatten_debezium",
            "rows of lost records would win over newer ones, which have smaller offsets: set on_truncation "
            "to stop, or order_by to a column",
        ),
    )
    if reason := next((reason for applies, reason in reasons if applies), None):
        raise UsageError(f"mode upsert: {reason}")


def upsert_property(settings: TopicSettings) -> dict[str, str]:
    """The property of a new table that notes how its rows are kept; nothing for one of all records."""
    if settings.mode != "upsert":
        return {}
    return {UPSERT_PROPERTY: json.dumps({"key": list(settings.key), "order_by": settings.order_by})}


def check_same_mode(settings: TopicSettings, properties: Mapping[str, str], table: str) -> None:
    """Check that a table was created with the settings' mode, key and order; raises UsageError."""
    if upsert_property(settings).get(UPSERT_PROPERTY) == (noted := properties.get(UPSERT_PROPERTY)):
        return
    mode = f"in mode upsert with {noted}" if noted else "in mode append"
    raise UsageError(
        f"the table {table} was created {mode}, and keeps that: use the same settings, or fill another table "
        "with --table OTHER"
    )


def check_same_key(settings: TopicSettings, before: Schema, after: Schema, former: Former) -> None:
    """Check that a change of columns adds none to the key of an upsert table; raises ActionNeededError.

    The rows that are there would have no value in it, so a key would have two rows.
    """
    if settings.mode != "upsert":
        return
    old, new = (upsert_columns(settings, schema, former).key for schema in (before, after))
    known = {leaf.field_id for leaf in old}
    if added := [".".join(leaf.path) for leaf in new if leaf.field_id not in known]:
        raise ActionNeededError(
            f"the key has another field, {', '.join(added)}, which the rows of the table lack, so a key "
            "would have two rows. Enable with another --table, or there name columns of the value with --key"
        )


def _order_names(settings: TopicSettings, schema: Schema) -> tuple[str, ...]:
    if settings.order_by is not None:
        return (settings.order_by,)
    debezium = settings.transform == "flatten_debezium"
    return tuple(name for name in _DEBEZIUM_ORDER if debezium and name in schema.column_names)


def _column(name: str, use: str, schema: Schema, former: Former) -> NestedField:
    return source_of(PartitionExpression(name, "identity", name, use=use), schema, former)


def _leaves(column: NestedField, schema: Schema, use: str) -> list[Leaf]:
    """The values in a column; floats are no key, as equal ones may not be the same."""
    kind = column.field_type
    if isinstance(kind, StructType):
        return [leaf for field in kind.fields for leaf in _leaves(field, schema, use)]
    name = schema.find_column_name(column.field_id) or column.name
    if not kind.is_primitive or (use == "key" and isinstance(kind, FloatType | DoubleType)):
        raise UsageError(f"{name} is {kind}, which cannot be {f'a {use}' if use else 'an order'}")
    return [Leaf(column.field_id, _path_to(column.field_id, schema.fields), kind)]


def _path_to(field_id: int, fields: Iterable[NestedField]) -> tuple[str, ...]:
    """The names from the outside, which may have dots; empty if the field is not there."""
    for field in fields:
        if field.field_id == field_id:
            return (field.name,)
        kind = field.field_type
        if isinstance(kind, StructType) and (inner := _path_to(field_id, kind.fields)):
            return (field.name, *inner)
    return ()
