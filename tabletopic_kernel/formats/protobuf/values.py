"""Timestamps and durations: from seconds and nanoseconds to microseconds, one at a time and many at once.

Sources: timestamp.proto and duration.proto (ranges, signs). The table has microseconds (Iceberg format v2).
A value with more digits than that is refused, or cut down to the microsecond before it where the topic's
settings ask for that: ``sub_micros``.

*Why this is exact.* Integers alone: a floor division of nanoseconds, and ranges that are checked before
seconds become microseconds, so that no sum leaves 64 bits. The conformance tests hold the two ways
together.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np

from tabletopic_kernel.formats.rejection import Refusal
from tabletopic_kernel.formats.types import MAX_DAY, MIN_DAY

SubMicros = Literal["refuse", "floor"]

_DAY_S: Final = 86_400
MIN_SECOND: Final = MIN_DAY * _DAY_S
MAX_SECOND: Final = (MAX_DAY + 1) * _DAY_S - 1
MAX_DURATION_S: Final = 315_576_000_000
_GIGA: Final = 1_000_000_000

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


def timestamp_micros(seconds: int, nanos: int, sub_micros: SubMicros) -> int:
    """Microseconds since 1970; raises Refusal."""
    if not (MIN_SECOND <= seconds <= MAX_SECOND and 0 <= nanos < _GIGA):
        raise Refusal(
            "protobuf_out_of_range",
            f"a timestamp of {seconds} s and {nanos} ns is not within the years 1 to 9999",
        )
    return _micros(seconds, nanos, sub_micros)


def duration_micros(seconds: int, nanos: int, sub_micros: SubMicros) -> int:
    """Microseconds; raises Refusal."""
    if not (abs(seconds) <= MAX_DURATION_S and abs(nanos) < _GIGA) or seconds * nanos < 0:
        raise Refusal(
            "protobuf_out_of_range",
            f"a duration of {seconds} s and {nanos} ns is beyond 10,000 years, or of two signs",
        )
    return _micros(seconds, nanos, sub_micros)


def _micros(seconds: int, nanos: int, sub_micros: SubMicros) -> int:
    if nanos % 1000 and sub_micros == "refuse":
        raise Refusal(
            "protobuf_sub_micros",
            f"{nanos} ns is finer than the table's microseconds; the setting value_nanos = floor cuts it",
        )
    return seconds * 1_000_000 + nanos // 1000


def many_timestamps(seconds: Numbers, nanos: Numbers, sub_micros: SubMicros) -> tuple[Numbers, Mask]:
    """The same of arrays of int64, with a mask of those that are refused; their values are 0."""
    bad = (seconds < MIN_SECOND) | (seconds > MAX_SECOND) | (nanos < 0) | (nanos >= _GIGA)
    return _many_micros(seconds, nanos, bad, sub_micros)


def many_durations(seconds: Numbers, nanos: Numbers, sub_micros: SubMicros) -> tuple[Numbers, Mask]:
    """The same of durations."""
    bad = (seconds < -MAX_DURATION_S) | (seconds > MAX_DURATION_S) | (nanos <= -_GIGA) | (nanos >= _GIGA)
    bad |= np.sign(seconds) * np.sign(nanos) < 0
    return _many_micros(seconds, nanos, bad, sub_micros)


def _many_micros(seconds: Numbers, nanos: Numbers, bad: Mask, sub_micros: SubMicros) -> tuple[Numbers, Mask]:
    micros = nanos // 1000
    if sub_micros == "refuse":
        bad |= micros * 1000 != nanos
    if bad.any():
        seconds, micros = np.where(bad, 0, seconds), np.where(bad, 0, micros)
    return seconds * 1_000_000 + micros, bad
