"""Strict readers of single JSON values: from a parsed value to a column's value.

A reader takes a value that is not null (see ``formats/json/text``) and returns the Arrow column's storage:
integers for dates (days), times and timestamps (µs), bytes for UUIDs. Otherwise it raises ``Refusal``.

Dates and times are those of RFC 3339 §5.6. A time of day may lack its offset from UTC and is returned in UTC;
a timestamp with time zone must have one. Values finer than a microsecond are refused, or truncated to the
microsecond before if the topic's settings say so: ``floor``.
"""

from __future__ import annotations

import base64
import datetime
import re
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import partial
from typing import Any, Final

from tabletopic_kernel.formats.arrays import MAX_DAY, MICROS_PER_DAY, MIN_DAY
from tabletopic_kernel.formats.json.text import (
    MAX_INT,
    MAX_LONG,
    Number,
    decimal_of,
    double_of,
    integer_of,
    shortened,
)
from tabletopic_kernel.formats.json.types import Scalar
from tabletopic_kernel.formats.rejection import Refusal

Read = Callable[[Any], Any]

_DATE: Final = r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
_TIME: Final = r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
_OFFSET: Final = r"([Zz]|[+-][0-9]{2}:[0-9]{2})?"
_DATES: Final = re.compile(_DATE)
_TIMES: Final = re.compile(_TIME + _OFFSET)
_TIMESTAMPS: Final = re.compile(f"{_DATE}[Tt ]{_TIME}{_OFFSET}")
_UUIDS: Final = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_DECIMALS: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WORDS: Final = ("NaN", "Infinity", "-Infinity")
_SINGLE: Final = struct.Struct("<f")
_CONTEXT: Final = Context(prec=1000)  # more digits than decimal_of() accepts: nothing is rounded
_ORDINAL_OF_1970: Final = 719_163


@dataclass(frozen=True)
class Rules:
    """How both engines read a record.

    ``whole``: it is the value of the only column; ``nullable``: it may be null instead of an object;
    ``lenient``: no schema judges it; ``floor``: times finer than a microsecond are truncated; ``words``:
    a double may be the text NaN, Infinity or -Infinity.
    """

    whole: bool = False
    nullable: bool = False
    lenient: bool = False
    floor: bool = False
    words: bool = False


def mismatch(needed: str, value: Any) -> Refusal:
    """The refusal of a value of another JSON type."""
    kinds = {dict: "an object", list: "an array", Number: "the number", str: "the text", bool: "the boolean"}
    kind = kinds.get(type(value), "null")
    renders: dict[type, Callable[[Any], str]] = {
        Number: str,
        str: shortened,
        bool: lambda flag: str(flag).lower(),
    }
    shown = renders.get(type(value))
    text = kind if shown is None else f"{kind} {shown(value)[:80]}"
    return Refusal("json_type", f"expected {needed}, got {text}")


def _boolean(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise mismatch("true or false", value)


def _string(value: Any) -> str:
    if type(value) is not str:
        raise mismatch("text", value)
    return value


def _integer(limit: int, bits: int, value: Any) -> int:
    if type(value) is not Number:
        raise mismatch("an integer", value)
    integer = integer_of(value, limit)
    if integer is None:
        raise Refusal("json_out_of_range", f"{value[:80]} is not a {bits}-bit integer")
    return integer


def _double(value: Any) -> float:
    if type(value) is not Number:
        raise mismatch("a number", value)
    double = double_of(value)
    if double is None:
        raise Refusal("json_out_of_range", f"{value[:80]} would lose digits as a double")
    return double


def _double_or_word(value: Any) -> float:
    return float(value) if value in _WORDS and type(value) is str else _double(value)


def _float(value: Any) -> float:
    double = _double(value)
    try:
        exact = _SINGLE.unpack(_SINGLE.pack(double))[0] == double
    except OverflowError:
        exact = False
    if not exact:
        raise Refusal("json_out_of_range", f"{value[:80]} would lose digits as a 32-bit float")
    return double


def decimal_reader(precision: int, scale: int) -> Read:
    """Decimals from numbers, or from text, as often used for money."""
    limit = 10**precision

    def read(value: Any) -> Decimal:
        if type(value) is not Number and not (type(value) is str and _DECIMALS.fullmatch(value)):
            raise mismatch("a decimal number", value)
        exact = decimal_of(value)
        steps = exact and exact.scaleb(scale, _CONTEXT)
        if steps is None or steps != steps.to_integral_value(context=_CONTEXT) or steps.copy_abs() >= limit:
            raise Refusal("json_out_of_range", f"{value[:80]} is not a decimal({precision}, {scale})")
        return Decimal(int(steps)).scaleb(-scale, _CONTEXT)

    return read


def unscaled_reader(scale: int) -> Read:
    """Decimals of a scale from numbers, exactly, as the base64 of their bytes; text is that already."""

    def read(value: Any) -> str:
        if type(value) is not Number:
            return _string(value)
        exact, steps = decimal_of(value), None
        if exact is not None and abs(exact.adjusted() + scale) < _CONTEXT.prec:
            steps = exact.scaleb(scale, _CONTEXT)
        if steps is None or steps != steps.to_integral_value(context=_CONTEXT):
            raise Refusal("json_out_of_range", f"{value[:80]} is not a decimal with {scale} decimal places")
        number = int(steps)
        return base64.b64encode(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)).decode()

    return read


def _match(form: re.Pattern[str], kind: str, example: str, value: Any) -> re.Match[str]:
    """The parts of text in the required form; raises Refusal."""
    if type(value) is not str:
        raise mismatch(f"a {kind} as text", value)
    match = form.fullmatch(value)
    if match is None:
        raise Refusal("json_format", f"{shortened(value)} is not a {kind} such as {example}")
    return match


def _date(value: Any) -> int:
    return _day(_match(_DATES, "date", "2026-01-31", value), value)


def _time(floor: bool, value: Any) -> int:
    match = _match(_TIMES, "time", "12:30:00Z", value)
    micros, offset = _clock(match.groups(), value, floor)
    return (micros - (offset or 0)) % MICROS_PER_DAY


def _timestamp(with_zone: bool, floor: bool, value: Any) -> int:
    match = _match(_TIMESTAMPS, "timestamp", "2026-01-31T12:30:00Z", value)
    clock, offset = _clock(match.groups()[3:], value, floor)
    if with_zone != (offset is not None):
        problem = "has no offset from UTC" if with_zone else "has an offset, and the column has no time zone"
        raise Refusal("json_format", f"the timestamp {shortened(value)} {problem}")
    micros = _day(match, value) * MICROS_PER_DAY + clock - (offset or 0)
    if not MIN_DAY * MICROS_PER_DAY <= micros < (MAX_DAY + 1) * MICROS_PER_DAY:
        raise Refusal("json_out_of_range", f"{shortened(value)} is not in the years 0001 to 9999")
    return micros


def _uuid(value: Any) -> bytes:
    return uuid.UUID(_match(_UUIDS, "UUID", "0f0e0d0c-0b0a-0908-0706-050403020100", value)[0]).bytes


def _day(match: re.Match[str], value: str) -> int:
    try:
        return datetime.date(int(match[1]), int(match[2]), int(match[3])).toordinal() - _ORDINAL_OF_1970
    except ValueError:
        raise Refusal("json_format", f"{shortened(value)} is not a calendar date") from None


def _clock(parts: tuple[str | None, ...], value: str, floor: bool) -> tuple[int, int | None]:
    """Microseconds since midnight, and the offset from UTC in microseconds, None without one."""
    hours, minutes, seconds = (int(part or 0) for part in parts[:3])
    fraction, zone = parts[3] or "", parts[4]
    if hours > 23 or minutes > 59 or seconds > 59:
        raise Refusal("json_format", f"{shortened(value)} is not a time of day")
    if fraction[6:].strip("0") and not floor:
        problem = "is finer than a microsecond; the setting value_nanos = floor truncates it"
        raise Refusal("json_out_of_range", f"{shortened(value)} {problem}")
    micros = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + int(fraction[:6].ljust(6, "0"))
    if zone is None or zone in "Zz":
        return micros, None if zone is None else 0
    zone_hours, zone_minutes = int(zone[1:3]), int(zone[4:])
    if zone_hours > 23 or zone_minutes > 59:
        raise Refusal("json_format", f"{shortened(value)} has no valid offset from UTC")
    offset = (zone_hours * 60 + zone_minutes) * 60_000_000
    return micros, -offset if zone[0] == "-" else offset


READERS: Final[dict[str, Read]] = {
    "boolean": _boolean,
    "int": partial(_integer, MAX_INT, 32),
    "long": partial(_integer, MAX_LONG, 64),
    "float": _float,
    "double": _double,
    "string": _string,
    "date": _date,
    "uuid": _uuid,
}


def scalar_reader(node: Scalar, *, floor: bool = False, words: bool = False) -> Read:
    """The reader of a scalar type; ``floor`` and ``words`` as in ``Rules``."""
    match node.kind:
        case "double" if words:
            return _double_or_word
        case "decimal":
            return decimal_reader(node.precision, node.scale)
        case "unscaled":
            return unscaled_reader(node.scale)
        case "time":
            return partial(_time, floor)
        case "timestamptz" | "timestamp":
            return partial(_timestamp, node.kind == "timestamptz", floor)
    return READERS[node.kind]
