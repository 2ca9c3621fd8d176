"""Readers of single Avro values, strict, and their logical types.

A reader takes a buffer and a position, and returns the value and the next position. It accepts exactly what
the Avro specification allows: otherwise it raises ``Refusal``, or IndexError at the buffer's end. Over-long
varints (leading zeros) are allowed up to ten bytes; the specification does not forbid them.

*Why this is exact.* Decimals and times never pass through a float: a decimal is the integer of its bytes,
shifted by its scale in a context of more digits than a decimal column has (longer ones are text);
milliseconds are multiplied, never divided.
"""

from __future__ import annotations

import base64
import binascii
import decimal
import math
import re
import struct
from collections.abc import Callable
from typing import Any, Final

from tabletopic_kernel.formats.arrays import MAX_DAY, MICROS_PER_DAY, MILLIS_PER_DAY, MIN_DAY
from tabletopic_kernel.formats.avro.logical import Decimal
from tabletopic_kernel.formats.avro.types import DURATION_FIELDS, is_text_decimal
from tabletopic_kernel.formats.rejection import Refusal

Reader = Callable[[bytes, int], tuple[Any, int]]

# RFC 4122 text, as Avro 1.12 "UUID" requires; other spellings (urn:, braces, no hyphens) are refused.
_UUID_TEXT: Final = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_DURATION = struct.Struct("<III")
_DECIMALS = decimal.Context(prec=100)


def read_varint(buffer: bytes, position: int) -> tuple[int, int]:
    """An unsigned varint of at most 64 bits in at most 10 bytes; raises IndexError at the end."""
    byte = buffer[position]
    position += 1
    if byte < 0x80:
        return byte, position
    value = byte & 0x7F
    for shift in range(7, 63, 7):
        byte = buffer[position]
        position += 1
        if byte < 0x80:
            return value | byte << shift, position
        value |= (byte & 0x7F) << shift
    byte = buffer[position]
    if byte > 1:
        raise Refusal("avro_varint", "a number has more than 64 bits")
    return value | byte << 63, position + 1


def read_long(buffer: bytes, position: int) -> tuple[int, int]:
    """A zigzag varint of 64 bits."""
    byte = buffer[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value, position = read_varint(buffer, position)
    return (value >> 1) ^ -(value & 1), position


def read_int(buffer: bytes, position: int) -> tuple[int, int]:
    """A zigzag varint of 32 bits."""
    byte = buffer[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value, position = read_varint(buffer, position)
    if value >= 2**32:
        raise Refusal("avro_varint", "a number of type int has more than 32 bits")
    return (value >> 1) ^ -(value & 1), position


def read_bytes(buffer: bytes, position: int) -> tuple[bytes, int]:
    """A length and that many bytes."""
    length, position = read_long(buffer, position)
    end = position + length
    if length < 0:
        raise Refusal("avro_length", f"a negative length, {length}")
    if end > len(buffer):
        raise Refusal(
            "avro_truncated", f"a length of {length} bytes, but only {len(buffer) - position} are left"
        )
    return buffer[position:end], end


def read_string(buffer: bytes, position: int) -> tuple[str, int]:
    """A length and that many bytes of UTF-8."""
    raw, position = read_bytes(buffer, position)
    try:
        return str(raw, "utf-8"), position
    except UnicodeDecodeError as error:
        raise Refusal("avro_utf8", f"text that is not UTF-8 at byte {error.start}") from None


def read_null(_buffer: bytes, position: int) -> tuple[None, int]:
    return None, position


def _boolean(buffer: bytes, position: int) -> tuple[bool, int]:
    byte = buffer[position]
    if byte > 1:
        raise Refusal("avro_boolean", f"a boolean of byte {byte:#04x}")
    return byte == 1, position + 1


def _floats(layout: str) -> Reader:
    form = struct.Struct(layout)
    size = form.size

    def read(buffer: bytes, position: int) -> tuple[float, int]:
        if position + size > len(buffer):
            raise IndexError
        return form.unpack_from(buffer, position)[0], position + size

    return read


def fixed_reader(size: int) -> Reader:
    def read(buffer: bytes, position: int) -> tuple[bytes, int]:
        end = position + size
        if end > len(buffer):
            raise IndexError
        return buffer[position:end], end

    return read


PRIMITIVE_READERS: Final[dict[str, Reader]] = {
    "null": read_null,
    "boolean": _boolean,
    "int": read_int,
    "long": read_long,
    "float": _floats("<f"),
    "double": _floats("<d"),
    "bytes": read_bytes,
    "string": read_string,
}

# --- logical types ---------------------------------------------------------------------------------


def converted(read: Reader, convert: Callable[[Any], Any]) -> Reader:
    """Reads with ``read`` and converts the value; ``convert`` may raise Refusal."""

    def read_converted(buffer: bytes, position: int) -> tuple[Any, int]:
        value, position = read(buffer, position)
        return convert(value), position

    return read_converted


def _out_of_range(message: str) -> Refusal:
    return Refusal("avro_out_of_range", message)


def _date(value: int) -> int:
    if not MIN_DAY <= value <= MAX_DAY:
        raise _out_of_range(f"date {value} is not within the years 1 to 9999")
    return value


def _micros_of_millis(value: int) -> int:
    return _timestamp(value * 1000)


def _timestamp(micros: int) -> int:
    if not MIN_DAY <= micros // MICROS_PER_DAY <= MAX_DAY:
        raise _out_of_range(f"timestamp {micros} µs is not within the years 1 to 9999")
    return micros


def _time_of_millis(value: int) -> int:
    if not 0 <= value < MILLIS_PER_DAY:
        raise _out_of_range(f"time {value} ms is not within a day")
    return value * 1000


def _time_of_micros(value: int) -> int:
    if not 0 <= value < MICROS_PER_DAY:
        raise _out_of_range(f"time {value} µs is not within a day")
    return value


def _uuid_of_text(text: str) -> bytes:
    if _UUID_TEXT.fullmatch(text) is None:
        raise Refusal("avro_uuid", f"{text[:40]!r} is not a UUID")
    return binascii.unhexlify(text.replace("-", ""))


def duration_of(raw: bytes) -> dict[str, int]:
    """Months, days and milliseconds of a duration's 12 bytes."""
    return dict(zip(DURATION_FIELDS, _DURATION.unpack(raw), strict=True))


def unscaled_of(raw: bytes, logical: Decimal) -> int:
    """The unscaled value of a decimal's bytes (no bytes: 0); raises Refusal beyond the precision."""
    value = int.from_bytes(raw, "big", signed=True)
    if abs(value) >= 10**logical.precision:
        raise _out_of_range(f"a decimal of more than {logical.precision} digits")
    return value


def text_of_decimal(raw: bytes, logical: Decimal) -> str:
    """All digits, with ``scale`` of them after the point."""
    value = unscaled_of(raw, logical)
    digits = f"{abs(value):0{logical.scale + 1}d}"
    whole, fraction = digits[: len(digits) - logical.scale], digits[len(digits) - logical.scale :]
    return f"{'-' if value < 0 else ''}{whole}{'.' if fraction else ''}{fraction}"


def decimal_reader(logical: Decimal) -> Callable[[bytes], object]:
    """A function from a decimal's bytes to its column's value; raises Refusal beyond the precision."""
    if is_text_decimal(logical):
        return lambda raw: text_of_decimal(raw, logical)
    return lambda raw: _DECIMALS.scaleb(decimal.Decimal(unscaled_of(raw, logical)), -logical.scale)


LOGICAL_CONVERSIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "date": _date,
    "time-millis": _time_of_millis,
    "time-micros": _time_of_micros,
    "timestamp-millis": _micros_of_millis,
    "timestamp-micros": _timestamp,
    "local-timestamp-millis": _micros_of_millis,
    "local-timestamp-micros": _timestamp,
    "uuid": _uuid_of_text,
}


def enum_reader(symbols: tuple[str, ...]) -> Reader:
    """Reads an index and returns its symbol."""

    def read(buffer: bytes, position: int) -> tuple[str, int]:
        index, position = read_int(buffer, position)
        if not 0 <= index < len(symbols):
            raise Refusal("avro_enum", f"symbol {index} of an enum with {len(symbols)} symbols")
        return symbols[index], position

    return read


def json_bytes(logical: str | Decimal | None) -> Callable[[bytes], str]:
    """A function from bytes to their JSON value: the digits of a decimal, else base64."""
    if isinstance(logical, Decimal):
        return lambda raw: text_of_decimal(raw, logical)
    return lambda raw: base64.b64encode(raw).decode()


def json_number(value: float) -> float | str:
    """The JSON value of a float; JSON has no NaN or infinity, so these are Protobuf's words."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
