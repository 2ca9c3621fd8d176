"""Transforms: the table's columns for decoded columns, and the reverse mapping.

The same step for rows is ``pipeline/transform/transform.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType, StructType, TimestamptzType, UUIDType

from tabletopic_kernel.formats.arrays import Positions
from tabletopic_kernel.formats.json.infer import merged_columns
from tabletopic_kernel.formats.json.types import REST
from tabletopic_kernel.formats.rejection import Refused
from tabletopic_kernel.model.columns.connect_types import native_columns
from tabletopic_kernel.model.columns.evolution import HEADER, KEY, METADATA, VALUE, evolve
from tabletopic_kernel.model.errors import ActionNeededError


@dataclass(frozen=True)
class Rows:
    """Columns by name, and which of the input rows they are.

    ``kept`` are their indexes, ascending. The others are ``refused``, or describe no row and are counted in
    ``passed_over``: together, each row once.
    """

    columns: dict[str, pa.Array]
    kept: Positions
    refused: list[Refused] = field(default_factory=list)
    passed_over: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Projection:
    """A SELECT, and the columns of ``batch`` that it reads."""

    text: str
    columns: Schema


def every(count: int) -> Positions:
    """The indexes of ``count`` rows."""
    return np.arange(count, dtype=np.int64)


Transform = Literal["flatten", "none", "flatten_debezium"]

CDC: Final = "_cdc"
# Where a change event has the row: Debezium's documentation, "Data change events".
AFTER, BEFORE, OP, TS, SOURCE, TRANSACTION = "after", "before", "op", "ts_ms", "source", "transaction"
# The operation for an event's ``op``, and the image with its row; a truncate's row is null. r is a row of a
# snapshot.
ROW_OPS: Final = {"c": ("I", AFTER), "r": ("I", AFTER), "u": ("U", AFTER), "d": ("D", BEFORE), "t": ("T", "")}
# Events that describe no row, and the word under which they are counted: t, if a column is required.
ROWLESS_OPS: Final = {"t": "truncate", "m": "message"}
TOMBSTONE: Final = "tombstone"
OTHER_SUBJECT: Final = "other_subject"  # an event that is not the table's
FILTERED: Final = "filtered"  # by the WHERE of a projection

CDC_STRUCT: Final = StructType(
    NestedField(1, "op", StringType(), required=False, doc="I insert, U update, D delete, T truncate"),
    NestedField(2, "ts", TimestamptzType(), required=False, doc="when the connector read the change"),
    NestedField(3, "offset", LongType(), required=False, doc="of the Kafka record"),
    NestedField(4, "source", StringType(), required=False, doc="schema, or database, and table"),
    NestedField(5, "source_ts", TimestamptzType(), required=False, doc="when the database made the change"),
    NestedField(
        6, "lsn", LongType(), required=False, doc="the connector's position: the larger is the later"
    ),
    NestedField(7, "tx_id", StringType(), required=False, doc="the database's transaction"),
    NestedField(8, "tx_order", LongType(), required=False, doc="of the change in its transaction"),
    NestedField(9, "snapshot", StringType(), required=False, doc="whether the row is of a snapshot"),
)
# The fields of ``source`` that are read: the others differ from connector to connector.
_SOURCE_TEXTS: Final = ("db", "schema", "table")
# The content of an image until the first row: it makes ``after`` an object from the start.
_PLACEHOLDER: Final = NestedField(1, VALUE, UUIDType(), required=False)
_NO_ROW_COLUMNS: Final = frozenset((KEY, HEADER, METADATA, VALUE, CDC, REST))


# In JSON without a schema these become no columns, and stay with everything that has no column.
_RESERVED_IN_ROWS: Final = dict.fromkeys((AFTER, BEFORE), _NO_ROW_COLUMNS)


def reserved_in_rows(transform: Transform) -> dict[str, frozenset[str]] | None:
    """Names that rows of change events cannot have, by image; None: there are no such events."""
    return _RESERVED_IN_ROWS if transform == "flatten_debezium" else None


class NotAnEnvelopeError(ActionNeededError):
    """The schema is not one of Debezium's change events."""


def value_columns(decoded: Schema, transform: Transform, *, native: bool = False) -> Schema:
    """The table's columns for a value of ``decoded``; NotAnEnvelopeError if that is no change event.

    ``native``: as what their names in Kafka Connect mean.
    """
    columns = sent_columns(decoded, transform)
    return native_columns(columns) if native else columns


def sent_columns(decoded: Schema, transform: Transform) -> Schema:
    """The columns of a transform, in the types of ``decoded``."""
    match transform:
        case "flatten":
            return decoded
        case "none":
            if [column.name for column in decoded.fields] == [VALUE]:
                return decoded
            return Schema(NestedField(1, VALUE, decoded.as_struct(), required=True))
        case "flatten_debezium":
            return _unwrapped(decoded)


def decoded_columns(columns: Schema, transform: Transform, learned: Schema) -> Schema:
    """The reverse, for JSON without a schema; ``learned``: properties in events that the table lacks."""
    match transform:
        case "flatten":
            return columns
        case "none":
            inside = next((column.field_type for column in columns.fields if column.name == VALUE), None)
            return Schema(*inside.fields) if isinstance(inside, StructType) else Schema()
        case "flatten_debezium":
            return _envelope(columns, learned)


def inferred_columns(known: Schema, needs: Iterable[Schema], transform: Transform) -> Schema:
    """What JSON without a schema is decoded to, with what records need beyond the ``known`` columns.

    Both images of a row in change events get the same columns.
    """
    merged = merged_columns(known, needs)
    if transform != "flatten_debezium":
        return merged
    rows = [Schema(*fields) for fields in (_image(known), *map(_image, (merged, merged), (AFTER, BEFORE)))]
    rest = [column for column in merged.fields if column.name == REST]
    return _envelope(Schema(*merged_columns(rows[0], rows[1:]).fields, *rest), merged)


def _image(envelope: Schema, name: str = AFTER) -> tuple[NestedField, ...]:
    image = next((field.field_type for field in envelope.fields if field.name == name), None)
    fields = image.fields if isinstance(image, StructType) else ()
    return tuple(field for field in fields if (field.name, field.field_type) != (VALUE, UUIDType()))


def _check_names(names: Iterable[str]) -> None:
    if taken := sorted(name for name in names if name.lower() in _NO_ROW_COLUMNS):
        raise NotAnEnvelopeError(
            f"the source's table has a column {', '.join(taken)}, which is the name of a column that the "
            "transform or the topic adds; rename it in Debezium's output, or use transform flatten"
        )


def has_row(decoded: Schema, transform: Transform) -> bool:
    """Whether records have provided columns for a table."""
    return transform != "flatten_debezium" or bool(_image(decoded, AFTER) or _image(decoded, BEFORE))


def _unwrapped(envelope: Schema) -> Schema:
    fields = {column.name: column.field_type for column in envelope.fields}
    if not isinstance(fields.get(OP), StringType):
        raise NotAnEnvelopeError("not a change event of Debezium: it has no text field op")
    row = row_columns(envelope)
    _check_names(column.name for column in row.fields)
    # A delete may only know the key of its row.
    columns = [column.model_copy(update={"required": False}) for column in row.fields]
    rest = [column for column in envelope.fields if column.name == REST]
    return Schema(*columns, NestedField(1, CDC, CDC_STRUCT, required=False), *rest)


def row_columns(envelope: Schema) -> Schema:
    """The columns of ``after`` and ``before``; NotAnEnvelopeError if neither is a struct, or they differ."""
    images = [Schema(*fields) for name in (AFTER, BEFORE) if (fields := _image(envelope, name))]
    if not images:
        raise NotAnEnvelopeError("not a change event of Debezium: neither after nor before has fields")
    merged = evolve(images[0], images[-1], images[0].highest_field_id)
    if merged.refused:
        reasons = "; ".join(f"{column} {why}" for column, why in merged.refused.items())
        raise NotAnEnvelopeError(f"the rows before and after a change do not match: {reasons}")
    return merged.schema


def _envelope(columns: Schema, learned: Schema) -> Schema:
    row = [field for field in columns.fields if field.name not in _NO_ROW_COLUMNS]
    known = {field.name: field for field in learned.fields}
    image = StructType(*(row or [_PLACEHOLDER]))
    fixed = [
        *(NestedField(1, name, image, required=False) for name in (AFTER, BEFORE)),
        NestedField(1, OP, StringType(), required=False),
        NestedField(1, TS, LongType(), required=False),
        NestedField(1, SOURCE, _source(known.get(SOURCE)), required=False),
        *(field for field in columns.fields if field.name == REST),
    ]
    names = {field.name for field in fixed}
    return Schema(*fixed, *(field for name, field in known.items() if name not in names))


def _source(learned: NestedField | None) -> StructType:
    fields = [NestedField(1, name, StringType(), required=False) for name in _SOURCE_TEXTS]
    fields.append(NestedField(1, TS, LongType(), required=False))
    names = {field.name for field in fields}
    if learned is not None and isinstance(learned.field_type, StructType):
        fields += [field for field in learned.field_type.fields if field.name not in names]
    return StructType(*fields)
