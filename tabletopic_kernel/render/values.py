"""Values of query results as text: for display, CSV and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_BATCH_ROWS = 1_000
_NULL = "null"
_HEX_WIDTH = 16
_DAY_NS = 86_400 * 10**9


def rows_of(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Rows as Python values, by position: two columns may have the same name."""
    for batch in table.to_batches(_BATCH_ROWS):
        yield from zip(*map(_values, batch.columns), strict=True)


def _values(column: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = pc.cast(column, pa.timestamp("us", column.type.tz), safe=False)
    if pa.types.is_float32(column.type):  # 0.1, not the double nearest to it, 0.10000000149011612
        column = pc.cast(pc.cast(column, pa.string()), pa.float64())
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):  # a date outside Python's calendar
        values = pc.cast(column, _dates_as_text(column.type)).to_pylist()
    return [_with_maps(value, column.type) for value in values] if "map<" in str(column.type) else values


def _dates_as_text(kind: pa.DataType) -> pa.DataType:
    """The type with text instead of dates and timestamps, at any depth."""
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_dates_as_text(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_dates_as_text(kind.key_type), _dates_as_text(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return (pa.list_ if pa.types.is_list(kind) else pa.large_list)(_dates_as_text(kind.value_type))
    return kind


def _with_maps(value: Any, kind: pa.DataType) -> Any:
    """A value whose empty maps are dictionaries: an empty list of pairs would look like a list."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return [(key, _with_maps(inner, kind.item_type)) for key, inner in value] or {}
    if pa.types.is_struct(kind):
        return {field.name: _with_maps(value[field.name], field.type) for field in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_with_maps(inner, kind.value_type) for inner in value]
    return value


def is_number(kind: pa.DataType) -> bool:
    """Whether values of this Arrow type are right-aligned."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def unique_names(names: Sequence[str]) -> list[str]:
    """The names, with numbers added to repeated ones: JSON requires unique keys.

    >>> unique_names(["a", "b", "a"])
    ['a', 'b', 'a_1']
    """
    unique: list[str] = []
    for name in names:
        chosen, number = name, 0
        while chosen in unique:
            number += 1
            chosen = f"{name}_{number}"
        unique.append(chosen)
    return unique


def text(value: Any) -> str:
    """A value as text; structs and maps as ``{city: Utrecht, country: NL}``."""
    if value is None:
        return _NULL
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {text(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        if value and all(isinstance(item, tuple) and len(item) == 2 for item in value):  # a map
            return "{" + ", ".join(f"{text(key)}: {text(inner)}" for key, inner in value) + "}"
        return "[" + ", ".join(map(text, value)) + "]"
    return str(_scalar(value, " "))


def hex_dump(value: bytes) -> str:
    """Lines of an offset, bytes, and the printable ones as text.

    >>> hex_dump(b"a\\xff")
    '00000000  61 ff                                            a.'
    """
    lines = []
    for at in range(0, len(value), _HEX_WIDTH):
        part = value[at : at + _HEX_WIDTH]
        printable = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:08x}  {part.hex(' '):<{3 * _HEX_WIDTH - 1}}  {printable}")
    return "\n".join(lines)


def csv_text(value: Any) -> str:
    """A value in a CSV cell: empty for null, JSON for nested values."""
    if value is None:
        return ""
    return json_text(value) if isinstance(value, dict | list) else str(_scalar(value, "T"))


def json_lines(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """A JSON array of objects, piece by piece, one row per line."""
    yield "["
    separator = "\n "
    for row in rows:
        pairs = ", ".join(f"{json.dumps(name, ensure_ascii=False)}: {json_text(value)}"
                          for name, value in zip(names, row, strict=True))  # fmt: skip
        yield f"{separator}{{{pairs}}}"
        separator = ",\n "
    yield "\n]\n" if separator.startswith(",") else "]\n"


def json_text(value: Any) -> str:  # noqa: PLR0911 - one for each kind
    """A value as JSON. Decimals are numbers with all their digits, NaN and infinity are null.

    >>> json_text({"price": Decimal("1.10"), "raw": b"a\\xff", "at": date(2026, 1, 31)})
    '{"price": 1.10, "raw": "a\\\\\\\\xFF", "at": "2026-01-31"}'
    """
    if isinstance(value, Decimal):
        return format(value, "f") if value.is_finite() else "null"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)}: {json_text(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        if value and all(isinstance(item, tuple) and len(item) == 2 for item in value):  # a map
            return json_text({text(key): inner for key, inner in value})
        return "[" + ", ".join(map(json_text, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return "null"
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    return json.dumps(str(_scalar(value, "T")), ensure_ascii=False)


def _parts_of(span: timedelta | pa.MonthDayNano) -> tuple[int, int, int]:
    """Months, days, and nanoseconds, each with its own sign."""
    if isinstance(span, timedelta):
        return 0, 0, round(span / timedelta(microseconds=1)) * 1000
    return span.months, span.days, span.nanoseconds


def _span(span: timedelta | pa.MonthDayNano) -> str:
    """In DuckDB's format: ``1 year 2 months 3 days 04:05:06.5``."""
    months, days, nanoseconds = _parts_of(span)
    if isinstance(span, timedelta):
        days, nanoseconds = int(nanoseconds / _DAY_NS), int(math.fmod(nanoseconds, _DAY_NS))
    counts = (("year", int(months / 12)), ("month", int(math.fmod(months, 12))), ("day", days))
    words = [f"{count} {unit}{'' if abs(count) == 1 else 's'}" for unit, count in counts if count]
    if nanoseconds or not words:
        seconds, rest = divmod(abs(nanoseconds), 10**9)
        fraction = f".{rest:09d}".rstrip("0") if rest else ""
        sign = "-" if nanoseconds < 0 else ""
        words.append(f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}")
    return " ".join(words)


def _iso_span(span: timedelta | pa.MonthDayNano) -> str:
    """In ISO 8601: ``P14M3DT14706.5S``."""
    months, days, nanoseconds = _parts_of(span)
    seconds, rest = divmod(abs(nanoseconds), 10**9)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    time_part = f"T{'-' if nanoseconds < 0 else ''}{seconds}{fraction}S" if nanoseconds else ""
    text = f"P{f'{months}M' if months else ''}{f'{days}D' if days else ''}{time_part}"
    return text if text != "P" else "PT0S"


def _key(key: Any) -> str:
    return json.dumps(text(key), ensure_ascii=False)


def _timespec(value: datetime) -> str:
    if value.microsecond % 1000:
        return "microseconds"
    return "milliseconds" if value.microsecond else "seconds"


def _scalar(value: Any, separator: str) -> object:
    if isinstance(value, datetime):
        zone = "" if value.tzinfo is None else "Z"  # always UTC
        return value.replace(tzinfo=None).isoformat(separator, _timespec(value)) + zone
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta | pa.MonthDayNano):
        return _span(value) if separator == " " else _iso_span(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        # In DuckDB's format: printable ASCII unchanged, the rest as \xNN.
        return "".join(chr(byte) if 32 <= byte < 127 and byte != 92 else f"\\x{byte:02X}" for byte in value)
    return value
