"""Types that Kafka Connect names beside a number, a text or a struct, as the columns that they mean.

A meaning is the name, as ``model/columns/types.py`` has it in a field's doc. Types without a column of their
own, such as ``io.debezium.time.Interval`` or ``ZonedTime``, stay as sent, with their name in the doc.

Source: Debezium's documentation, "Data type mappings" of each connector; the package
``org.apache.kafka.connect.data`` of Kafka Connect.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    IcebergType,
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

from tabletopic_kernel.model.columns.types import meaning_in, without_meaning

_TIME, _DATA, _CONNECT = "io.debezium.time.", "io.debezium.data.", "org.apache.kafka.connect.data."
DECIMAL: Final = f"{_CONNECT}Decimal"
VARIABLE_DECIMAL: Final = f"{_DATA}VariableScaleDecimal"
BASE64: Final = "base64"  # our name for bytes in JSON
_MOST_DIGITS: Final = 38
_DECIMAL = re.compile(rf"{re.escape(DECIMAL)} scale (-?\d+)(?: precision (\d+))?")


@dataclass(frozen=True)
class Native:
    """A column's type; how many nanoseconds a number as sent counts; and the scale of a decimal's bytes."""

    kind: IcebergType
    nanos: int | None = None
    scale: int = 0


_DAY_NS, _MS, _US = 86_400_000_000_000, 1_000_000, 1_000
_NUMBERS: Final = {
    f"{_TIME}Date": Native(DateType(), _DAY_NS),
    f"{_TIME}Time": Native(TimeType(), _MS),
    f"{_TIME}MicroTime": Native(TimeType(), _US),
    f"{_TIME}NanoTime": Native(TimeType(), 1),
    f"{_TIME}Timestamp": Native(TimestampType(), _MS),
    f"{_TIME}MicroTimestamp": Native(TimestampType(), _US),
    f"{_TIME}NanoTimestamp": Native(TimestampType(), 1),
    f"{_CONNECT}Date": Native(DateType(), _DAY_NS),
    f"{_CONNECT}Time": Native(TimeType(), _MS),
    f"{_CONNECT}Timestamp": Native(TimestamptzType(), _MS),
}
_TEXTS: Final = {
    f"{_TIME}ZonedTimestamp": Native(TimestamptzType()),
    f"{_DATA}Uuid": Native(UUIDType()),
    BASE64: Native(BinaryType()),
}
# Names to read beside types that are no numbers, too.
NAMES: Final = frozenset((*_NUMBERS, *_TEXTS, VARIABLE_DECIMAL))


def native_of(kind: IcebergType, meaning: str | None) -> Native | None:
    """What values of a type mean by its name; None: no more than the type says.

    >>> str(native_of(LongType(), "io.debezium.time.MicroTimestamp").kind)
    'timestamp'
    >>> str(native_of(StringType(), "org.apache.kafka.connect.data.Decimal scale 2 precision 9").kind)
    'decimal(9, 2)'
    """
    if meaning is None:
        return None
    if isinstance(kind, IntegerType | LongType):
        return _NUMBERS.get(meaning)
    if isinstance(kind, StructType):
        return Native(StringType()) if meaning == VARIABLE_DECIMAL else None
    if not isinstance(kind, StringType):
        return None
    if (match := _DECIMAL.fullmatch(meaning)) is None:
        return _TEXTS.get(meaning)
    scale, precision = int(match[1]), int(match[2] or _MOST_DIGITS)
    fits = 0 <= scale <= precision <= _MOST_DIGITS
    return Native(DecimalType(precision, scale) if fits else StringType(), scale=scale)


def has_native(kind: IcebergType, meaning: str | None) -> bool:
    """Whether ``native_of`` knows a type, or the innermost one of its lists and maps."""
    while isinstance(kind, ListType | MapType):
        kind = kind.element_type if isinstance(kind, ListType) else kind.value_type
    return native_of(kind, meaning) is not None


def native_columns(columns: Schema) -> Schema:
    """The columns as what their names mean."""
    return Schema(*map(native_field, columns.fields))


def native_field(field: NestedField) -> NestedField:
    """A field as what its name means; then the doc no longer needs to say so."""
    meaning = meaning_in(field.doc)
    doc = without_meaning(field.doc) if has_native(field.field_type, meaning) else field.doc
    return field.model_copy(update={"field_type": _native(field.field_type, meaning), "doc": doc})


def _native(kind: IcebergType, meaning: str | None) -> IcebergType:
    if (native := native_of(kind, meaning)) is not None:
        return native.kind
    if isinstance(kind, StructType):
        return StructType(*map(native_field, kind.fields))
    if isinstance(kind, ListType):
        return ListType(kind.element_id, _native(kind.element_type, meaning), kind.element_required)
    if isinstance(kind, MapType):
        value = _native(kind.value_type, meaning)
        return MapType(kind.key_id, kind.key_type, kind.value_id, value, kind.value_required)
    return kind
