"""Joins JSON records to one text for the fast engine (see ``fast``); marks those whose numbers it truncates.

Array operations find numbers in the text that have more digits than a double, or are too small for one: the
native reader returns the nearest double, without a sign that digits were lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tabletopic_kernel.formats.arrays import Bodies, Bytes
from tabletopic_kernel.formats.json.text import DOUBLE_DIGITS

Offsets = np.ndarray[Any, np.dtype[np.int64]]

# The shortest fraction with too many digits: 18 of them, and the point.
_RUN: Final = DOUBLE_DIGITS + 2
# Leading zeros that are recognized; a number with more of them is a false suspect.
_LEADING: Final = 8
_EXPONENT: Final = 13  # digits of an exponent that are checked: one more than in the last part of a UUID
_TINY: Final = 3  # digits in the exponents of the smallest doubles
_BEHIND_NUMBER: Final = np.frombuffer(b",}] \t\r\n", np.uint8)
_CHUNK: Final = 64 * 1024  # bytes per step: fits into the cache, and into memory that malloc keeps


def long_fractions(text: Bytes) -> Offsets:
    """Positions of fractions of more than 17 digits, and of some in quotes; integers show by their value."""
    starts, ends = _runs(text)
    if not len(starts):
        return starts
    # Each has one point, else it is an integer.
    points = np.flatnonzero(text == ord("."))
    after = np.searchsorted(points, starts)
    has_point = np.searchsorted(points, ends) > after
    starts, ends = starts[has_point], ends[has_point]
    leading = np.zeros(len(starts), np.int64)
    point = np.zeros(len(starts), np.int64)
    zeros = np.ones(len(starts), np.bool_)
    for index in range(_LEADING):
        byte = text[starts + index]
        zeros &= (byte == ord("0")) | (byte == ord("."))
        leading += zeros
        point |= zeros & (byte == ord("."))
    digits = ends - starts - leading - (1 - point)
    return starts[digits > DOUBLE_DIGITS]


def tiny_numbers(text: Bytes) -> Offsets:
    """Positions of exponents of three or more digits; ``text`` ends after the last number."""
    positions = _negative_exponents(text)
    ends = positions + 1
    for _ in range(_EXPONENT):
        ends += (ends < len(text)) & _are_digits(text[np.minimum(ends, len(text) - 1)])
    # A digit after the last one checked is as good as an end; a letter or a hyphen belongs to a UUID.
    end = text[np.minimum(ends, len(text) - 1)]
    tiny: Offsets = positions[(ends - positions > _TINY) & (_are_digits(end) | np.isin(end, _BEHIND_NUMBER))]
    return tiny


def _negative_exponents(text: Bytes) -> Offsets:
    """Positions of hyphens after an ``e`` after a digit."""
    hyphens = [np.empty(0, np.int64)]
    for begin in range(0, len(text), _CHUNK):
        part = text[begin : begin + _CHUNK + 1]
        hyphens.append(np.flatnonzero(((part[:-1] | 0x20) == ord("e")) & (part[1:] == ord("-"))) + begin + 1)
    positions = np.concatenate(hyphens)
    positions = positions[positions > 1]
    exponents: Offsets = positions[_are_digits(text[positions - 2])]
    return exponents


def _are_digits(text: Bytes) -> np.ndarray[Any, np.dtype[np.bool_]]:
    digits: np.ndarray[Any, np.dtype[np.bool_]] = (text - np.uint8(ord("0"))) <= 9
    return digits


def _runs(text: Bytes) -> tuple[Offsets, Offsets]:
    windows = [np.empty(0, np.int64)]
    for begin in range(0, len(text), _CHUNK):
        part = text[begin : begin + _CHUNK + _RUN - 1]
        matches = (part - ord(".")) <= ord("9") - ord(".")  # '.', '/' and the digits
        width = 1
        while width < _RUN and len(matches) > 0:
            step = min(width, _RUN - width)
            matches = matches[step:] & matches[:-step]
            width += step
        windows.append(np.flatnonzero(matches[:_CHUNK]) + begin)
    positions = np.concatenate(windows)
    if not len(positions):
        return positions, positions
    breaks = np.flatnonzero(np.diff(positions) > 1)
    starts = positions[np.concatenate(([0], breaks + 1))]
    ends = positions[np.concatenate((breaks, [len(positions) - 1]))] + _RUN
    return starts, ends


# Joints: 4 bytes before each record and 1 after it, together as long as a schema id's prefix.
OPEN: Final = b'{"":'
CLOSE: Final = b"}"
# For properties not in the schema, the reader infers types, level by level on the stack, and crashes at
# 10,000 levels. A record that might have that many is read without inference: the reader stops there.
MAX_BRACKETS: Final = 1_000
_NULL: Final = np.frombuffer(b"null", np.uint8)
# Records checked together for UTF-8 if not all of them are.
_TOGETHER: Final = 64


@dataclass(frozen=True)
class Joined:
    """Records between their joints: ``text`` from ``offsets[i]`` to ``offsets[i + 1]`` is the i-th.

    ``unfit`` are those that the reader would misread. ``flat``: none is nested dangerously deep.
    """

    text: pa.Buffer
    offsets: Offsets
    unfit: Offsets
    flat: bool

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def without(self, unfit: Offsets) -> Joined:
        """The same, with further ``unfit`` records."""
        text = _blanked(np.frombuffer(self.text, np.uint8), self.offsets, unfit)
        return Joined(pa.py_buffer(text), self.offsets, np.union1d(self.unfit, unfit), self.flat)


def join(bodies: Bodies, *, objects: bool, doubles: bool) -> Joined:
    """The records as one text; ``objects``: each must be one; ``doubles``: find numbers beyond those."""
    block, offsets = _in_place(bodies) if bodies.front else _afresh(bodies)
    unfit = _not_utf8(block, offsets)
    if objects:
        unfit = np.union1d(unfit, _no_objects(block, offsets))
    if len(unfit):
        block = _blanked(block, offsets, unfit)
    if doubles:
        positions = np.concatenate((long_fractions(block), tiny_numbers(block)))
        unfit = np.union1d(unfit, np.searchsorted(offsets, positions, side="right") - 1)
    return Joined(pa.py_buffer(block), offsets, unfit, _few_brackets(block, offsets))


def _in_place(bodies: Bodies) -> tuple[Bytes, Offsets]:
    """Overwrite each prefix with a joint; the first loses its first byte, which would close nothing."""
    begin, end = int(bodies.offsets[0]), int(bodies.offsets[-1])
    block = np.empty(end - begin + 1, np.uint8)
    block[:-1] = bodies.data[begin:end]
    starts = bodies.offsets[:-1] - begin
    for index, byte in enumerate(CLOSE + OPEN):
        block[starts + index] = byte
    block[-1] = CLOSE[0]
    return block[1:], bodies.offsets - begin


def _afresh(bodies: Bodies) -> tuple[Bytes, Offsets]:
    head, tail, separator = (pa.scalar(joint, pa.large_binary()) for joint in (OPEN, CLOSE, b""))
    texts = pc.binary_join_element_wise(head, bodies.values.cast(pa.large_binary()), tail, separator)
    _, offsets, data = texts.buffers()
    return np.frombuffer(data, np.uint8), np.frombuffer(offsets, np.int64, len(texts) + 1)


def _few_brackets(block: Bytes, offsets: Offsets) -> bool:
    for index in np.flatnonzero(np.diff(offsets) > MAX_BRACKETS).tolist():
        record = block[offsets[index] : offsets[index + 1]].tobytes()
        if record.count(b"{") + record.count(b"[") > MAX_BRACKETS:
            return False
    return True


def _no_objects(block: Bytes, offsets: Offsets) -> Offsets:
    """Records that do not begin and end like an object, or with white space."""
    first, last = block[offsets[:-1] + len(OPEN)], block[offsets[1:] - 1 - len(CLOSE)]
    begins, ends = (first == ord("{")) | (first <= ord(" ")), (last == ord("}")) | (last <= ord(" "))
    return np.flatnonzero(~(begins & ends))


def _not_utf8(block: Bytes, offsets: Offsets) -> Offsets:
    """Records that are not UTF-8. Joints are ASCII, so the whole is UTF-8 if every part is."""
    if _is_utf8(block):
        return np.empty(0, np.int64)
    count = len(offsets) - 1
    invalid = [
        index
        for start in range(0, count, _TOGETHER)
        if not _is_utf8(block[offsets[start] : offsets[min(start + _TOGETHER, count)]])
        for index in range(start, min(start + _TOGETHER, count))
        if not _is_utf8(block[offsets[index] : offsets[index + 1]])
    ]
    return np.array(invalid, np.int64)


def _is_utf8(text: Bytes) -> bool:
    ends = pa.py_buffer(np.array([0, len(text)], np.int64))
    try:
        array = pa.Array.from_buffers(pa.large_string(), 1, [None, ends, pa.py_buffer(text)])
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _blanked(block: Bytes, offsets: Offsets, unfit: Offsets) -> Bytes:
    """A copy in which these records are null. Records too short for ``null`` stay as they are."""
    copy = block.copy()
    for index in unfit.tolist():
        start, stop = offsets[index] + len(OPEN), offsets[index + 1] - len(CLOSE)
        if stop - start >= len(_NULL):
            copy[start : start + len(_NULL)] = _NULL
            copy[start + len(_NULL) : stop] = ord(" ")
    return copy
