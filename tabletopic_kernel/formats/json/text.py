"""JSON text to Python values and back, without loss.

Numbers stay in their original text (``Number``) until a column's type is known: nothing is rounded on the
way. Stricter than Python's own reader, and as strict as RFC 8259 and the records' safety require:

- UTF-8 without a byte order mark; no NaN or Infinity; no lone surrogates (they are not text),
- a name that occurs twice in one object is refused: RFC 8259 §4 leaves open which one counts,
- at most ``MAX_DEPTH`` objects and arrays within each other.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, Final, NoReturn

MAX_DEPTH: Final = 100
MAX_LONG: Final = 2**63 - 1
MAX_INT: Final = 2**31 - 1
# Every integer up to here is a double, and no integer beyond reads as one below.
EXACT_DOUBLE: Final = 2**53
# 17 significant digits distinguish a double from every other; a writer of doubles needs no more.
DOUBLE_DIGITS: Final = 17
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_INTEGER: Final = re.compile(r"-?\d+")
_SAFE_DIGITS: Final = 15  # doubles distinguish all numbers of this many digits
_LONG_DIGITS: Final = 18  # fewer are always within 64 bits
# Powers of ten beyond these fit no type; arithmetic with them would be a bomb.
_MAX_EXPONENT: Final = 400


class JsonTextError(ValueError):
    """Text is not JSON, or exceeds the limits; ``reason`` is a short class."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Number(str):
    """A JSON number as it was written."""

    __slots__ = ()


def parse(value: bytes) -> Any:
    """One JSON text: dict, list, str, Number, bool or None.

    Raises JsonTextError.

    >>> parse(b'{"a": [1.50, -0, true, null]}')
    {'a': ['1.50', '-0', True, None]}
    """
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        raise JsonTextError("json_utf8", f"not UTF-8 at byte {error.start}") from None
    try:
        parsed = _whole(text)
    except json.JSONDecodeError as error:
        raise JsonTextError("json_syntax", _syntax(text, error)) from None
    except RecursionError:
        raise _too_deep() from None
    if text.count("{") + text.count("[") > MAX_DEPTH and _depth(parsed) > MAX_DEPTH:
        raise _too_deep()
    if b"\\u" in value and _SURROGATE.search(value) is not None:
        try:
            json_text(parsed).encode()
        except UnicodeEncodeError:
            raise JsonTextError("json_surrogate", "an unpaired surrogate is not a character") from None
    return parsed


def _syntax(text: str, error: json.JSONDecodeError) -> str:
    if not text:
        return "the value is empty"
    if text.startswith("\ufeff"):
        return "the value begins with a byte order mark, which JSON does not allow"
    return f"{error.msg.removesuffix(' at')} at character {error.pos}"


def _whole(text: str) -> Any:
    """The value that fills the text. The scanner alone takes half the time of the full decoder."""
    try:
        value, end = _SCAN(text, 0)
    except StopIteration:  # white space at the beginning, or no value
        return _DECODER.decode(text)
    return value if end == len(text) else _DECODER.decode(text)


def _too_deep() -> JsonTextError:
    return JsonTextError("json_too_deep", f"more than {MAX_DEPTH} levels of objects and arrays")


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level := [node for node in level if isinstance(node, dict | list)]:
        depth += 1
        level = [inner for node in level for inner in (node.values() if isinstance(node, dict) else node)]
    return depth


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise JsonTextError("json_duplicate_key", f"the name {shortened(twice)} occurs twice in one object")
    return members


def _constant(word: str) -> NoReturn:
    raise JsonTextError("json_syntax", f"{word} is not JSON")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=Number, parse_float=Number, parse_constant=_constant
)
_SCAN: Final = _DECODER.scan_once  # type: ignore[attr-defined]
_quoted: Final = json.JSONEncoder(ensure_ascii=False).encode


def json_text(value: Any) -> str:
    """The shortest JSON text of a parsed value; numbers as written, names in their order."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(name)}:{json_text(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    return _quoted(value)


def shortened(text: str) -> str:
    """A text for a message, in quotes and shortened."""
    return _quoted(text if len(text) <= 60 else f"{text[:60]}…").encode(errors="replace").decode()


def is_integer_text(number: Number) -> bool:
    """Whether it is written without fraction and exponent."""
    return _INTEGER.fullmatch(number) is not None


def integer_of(number: Number, limit: int) -> int | None:
    """The number as an integer from -limit-1 to limit, however it is written; None if it is not one.

    >>> integer_of(Number("1.0e2"), MAX_LONG), integer_of(Number("1.5"), MAX_LONG)
    (100, None)
    """
    if not (len(number) <= _LONG_DIGITS and is_integer_text(number)):
        exact = decimal_of(number)
        if exact is None or exact != exact.to_integral_value():
            return None
        value = int(exact)
    else:
        value = int(number)
    return value if -limit - 1 <= value <= limit else None


def decimal_of(text: str) -> Decimal | None:
    """The exact value; None beyond 10^±400 or 400 digits, which no column holds."""
    if len(text) > _MAX_EXPONENT:
        return None
    value = Decimal(text)
    return value if not value or abs(value.adjusted()) <= _MAX_EXPONENT else None


def double_of(number: Number) -> float | None:
    """The number as a double; None if no double would be the same number to readers.

    A number with at most a double's digits (17) is the nearest double, as for every reader. One with more
    digits, and an integer beyond 2^53, must be exactly a double, or the text that a double prints as.

    >>> double_of(Number("0.1")), double_of(Number("9007199254740993")), double_of(Number("1e999"))
    (0.1, None, None)
    >>> double_of(Number("5e-324")), double_of(Number("1e-324")), double_of(Number("0e-999"))
    (5e-324, None, 0.0)
    >>> double_of(Number("1152921504606847000")), double_of(Number("3.14159265358979323846"))
    (1.152921504606847e+18, None)
    """
    value = float(number)
    if value in (float("inf"), float("-inf")):
        return None
    if not value and significant_digits(number):  # 1e-400 is not 0
        return None
    if len(number) <= _SAFE_DIGITS:
        return value
    small = -EXACT_DOUBLE < value < EXACT_DOUBLE or not is_integer_text(number)
    if small and significant_digits(number) <= DOUBLE_DIGITS:
        return value
    exact = decimal_of(number)
    if exact is None:
        return None
    return value if exact in (Decimal(value), Decimal(repr(value))) else None


def significant_digits(number: str) -> int:
    """The number of digits from the first nonzero one to the last written one.

    >>> significant_digits("-0.0012500e-7"), significant_digits("100"), significant_digits("0.0")
    (5, 3, 0)
    """
    mantissa = number.partition("e")[0].partition("E")[0]
    return len(mantissa.lstrip("-0.").replace(".", ""))
