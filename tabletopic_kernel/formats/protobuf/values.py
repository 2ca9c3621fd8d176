"""Protobuf values for columns: array operations on the native reader's output, timestamps, durations.

All arrays here come fresh from the reader: their offset is 0, and the value under a null is 0 or empty.

Timestamps and durations become microseconds (Iceberg format v2), one at a time and many at once. Sources:
timestamp.proto and duration.proto (ranges, signs). A finer value is refused, or truncated to the microsecond
before if the topic's settings say so: ``sub_micros``.

*Why this is exact.* Only integers: a floor division of nanoseconds, and range checks before seconds become
microseconds, so no sum exceeds 64 bits. The conformance tests compare the two ways.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tabletopic_kernel.formats.arrays import MAX_DAY, MIN_DAY, Mask, valid
from tabletopic_kernel.formats.rejection import Refusal

SubMicros = Literal["refuse", "floor"]

_DAY_S: Final = 86_400
MIN_SECOND: Final = MIN_DAY * _DAY_S
MAX_SECOND: Final = (MAX_DAY + 1) * _DAY_S - 1
MAX_DURATION_S: Final = 315_576_000_000
_GIGA: Final = 1_000_000_000

Numbers = np.ndarray[Any, np.dtype[np.int64]]


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
            f"{nanos} ns is finer than the table's microseconds; value_nanos = floor truncates it",
        )
    return seconds * 1_000_000 + nanos // 1000


def many_timestamps(seconds: Numbers, nanos: Numbers, sub_micros: SubMicros) -> tuple[Numbers, Mask]:
    """``timestamp_micros`` for int64 arrays, with a mask of the refused ones; their values are 0."""
    bad = (seconds < MIN_SECOND) | (seconds > MAX_SECOND) | (nanos < 0) | (nanos >= _GIGA)
    return _many_micros(seconds, nanos, bad, sub_micros)


def many_durations(seconds: Numbers, nanos: Numbers, sub_micros: SubMicros) -> tuple[Numbers, Mask]:
    """``duration_micros`` for int64 arrays, as ``many_timestamps``."""
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


# Bytes of each element, or one number for all.
Sizes = Numbers | int
_NUMPY: Final = {
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.uint32(): np.uint32,
    pa.uint64(): np.uint64,
}


class Scope:
    """How an array's elements map to the rows of a batch, to mark rows that must not be used.

    Args:
        suspects: the rows that only the exact engine can judge.
        lists: offsets of the lists on the way from the rows to the elements, outermost first.
        present: a mask of the elements that exist, None for all.
    """

    def __init__(self, suspects: Mask, lists: tuple[Numbers, ...] = (), present: Mask | None = None) -> None:
        self._suspects = suspects
        self._lists = lists
        self.present = present

    def mark(self, elements: Mask) -> None:
        """Suspect the rows of the elements in the mask."""
        positions = np.flatnonzero(elements)
        for offsets in reversed(self._lists):
            positions = np.searchsorted(offsets, positions, side="right") - 1
        self._suspects[positions] = True

    def items(self, offsets: Numbers) -> Scope:
        """The scope of the lists' items."""
        return Scope(self._suspects, (*self._lists, offsets))

    def within(self, structs: pa.Array) -> Scope:
        """The scope of the structs' fields."""
        if not structs.null_count:
            return self
        present = valid(structs)
        return Scope(self._suspects, self._lists, present if self.present is None else self.present & present)


def numbers(array: pa.Array) -> np.ndarray[Any, Any]:
    """The integers of an array, regardless of nulls, without a copy."""
    dtype, buffer = _NUMPY[array.type], array.buffers()[1]
    return np.empty(0, dtype) if buffer is None else np.frombuffer(buffer, dtype, len(array))


def offsets_of(array: pa.Array) -> Numbers:
    """The offsets of lists, texts or bytes: one more than elements."""
    buffer = array.buffers()[1]
    return np.zeros(1, np.int64) if buffer is None else np.frombuffer(buffer, np.int64, len(array) + 1)


def varint_bytes(values: np.ndarray[Any, Any]) -> Numbers:
    """The bytes that each unsigned number takes as a varint."""
    sizes = np.ones(len(values), np.int64)
    largest = int(values.max(initial=0))
    for bits in range(7, 64, 7):
        if largest < 1 << bits:
            break
        sizes += values >= np.uint64(1 << bits)
    return sizes


def prefixed(sizes: Sizes) -> Sizes:
    """The sizes including their length prefixes."""
    if isinstance(sizes, int):
        return sizes + max(1, (sizes.bit_length() + 6) // 7)
    return sizes + varint_bytes(sizes)


def sums(sizes: Sizes, offsets: Numbers) -> Numbers:
    """The sum of each list's sizes."""
    if isinstance(sizes, int):
        return np.diff(offsets) * sizes
    total = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=total[1:])
    return total[offsets[1:]] - total[offsets[:-1]]


def narrow(array: pa.Array, signed: bool, scope: Scope) -> pa.Array:
    """64-bit integers as int32, or as int64 below 2^32; marks those beyond."""
    values = numbers(array)
    beyond = (values < -(2**31)) | (values >= 2**31) if signed else values >= np.uint64(2**32)
    if beyond.any():
        scope.mark(beyond)
    dtype, kind = (np.int32, pa.int32()) if signed else (np.int64, pa.int64())
    return pa.Array.from_buffers(kind, len(array), [array.buffers()[0], pa.py_buffer(values.astype(dtype))])


def decimals(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Unsigned 64-bit integers as decimals without a fraction."""
    halves = np.zeros((len(array), 2), np.uint64)
    halves[:, 0] = numbers(array)
    return pa.Array.from_buffers(target, len(array), [array.buffers()[0], pa.py_buffer(halves)])


def enum_texts(array: pa.Array, known: pa.Array, names: pa.Array) -> pa.Array:
    """``names`` of the ``known`` numbers; numbers without a name as text."""
    indices = pc.index_in(array, known)
    if indices.null_count > array.null_count:
        strange = pc.unique(array.filter(pc.and_(indices.is_null(), array.is_valid())))
        known = pa.concat_arrays([known, strange])
        names = pa.concat_arrays([names, pa.array(map(str, strange.to_pylist()), names.type)])
        indices = pc.index_in(array, known)
    return names.take(indices)
