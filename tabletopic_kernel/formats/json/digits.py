"""Numbers with more digits than a double has, or too small for one, found in JSON text by array operations.

The native reader gives the nearest double and no sign that digits were lost.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tabletopic_kernel.formats.json.text import DOUBLE_DIGITS

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Offsets = np.ndarray[Any, np.dtype[np.int64]]

# The shortest fraction of too many digits: 18 of them, and the point.
_RUN: Final = DOUBLE_DIGITS + 2
# Zeros in front that are told from digits; with more of them a number is a suspect for nothing.
_LEADING: Final = 8
_EXPONENT: Final = 13  # digits of an exponent that are looked at: one more than the last part of a UUID has
_TINY: Final = 3  # digits of the exponents of doubles' smallest
_BEHIND_NUMBER: Final = np.frombuffer(b",}] \t\r\n", np.uint8)
_CHUNK: Final = 64 * 1024  # bytes worked on at once: within the cache, and memory that malloc keeps at hand


def long_fractions(text: Bytes) -> Offsets:
    """Places of fractions with more than 17 significant digits, some within quotes among them.

    Integers are none: a double beyond 2^53, which is where they lose digits, is seen by its value.
    """
    starts, ends = _runs(text)
    if not len(starts):
        return starts
    # One point in each, else it is an integer.
    points = np.flatnonzero(text == ord("."))
    after = np.searchsorted(points, starts)
    has_point = np.searchsorted(points, ends) > after
    starts, ends = starts[has_point], ends[has_point]
    leading = np.zeros(len(starts), np.int64)
    point = np.zeros(len(starts), np.int64)
    zeros = np.ones(len(starts), np.bool_)
    for place in range(_LEADING):
        byte = text[starts + place]
        zeros &= (byte == ord("0")) | (byte == ord("."))
        leading += zeros
        point |= zeros & (byte == ord("."))
    digits = ends - starts - leading - (1 - point)
    return starts[digits > DOUBLE_DIGITS]


def tiny_numbers(text: Bytes) -> Offsets:
    """Places of the exponents of numbers that may be too small for a double: of three digits and more.

    ``text`` ends behind the last number.
    """
    places = _negative_exponents(text)
    ends = places + 1
    for _ in range(_EXPONENT):
        ends += (ends < len(text)) & _are_digits(text[np.minimum(ends, len(text) - 1)])
    # A digit behind the last one looked at is as good as an end; a letter or a hyphen is that of a UUID.
    end = text[np.minimum(ends, len(text) - 1)]
    found: Offsets = places[(ends - places > _TINY) & (_are_digits(end) | np.isin(end, _BEHIND_NUMBER))]
    return found


def _negative_exponents(text: Bytes) -> Offsets:
    """Places of the hyphens behind an ``e`` behind a digit."""
    found = [np.empty(0, np.int64)]
    for begin in range(0, len(text), _CHUNK):
        part = text[begin : begin + _CHUNK + 1]
        found.append(np.flatnonzero(((part[:-1] | 0x20) == ord("e")) & (part[1:] == ord("-"))) + begin + 1)
    places = np.concatenate(found)
    places = places[places > 1]
    behind: Offsets = places[_are_digits(text[places - 2])]
    return behind


def _are_digits(text: Bytes) -> np.ndarray[Any, np.dtype[np.bool_]]:
    found: np.ndarray[Any, np.dtype[np.bool_]] = (text - np.uint8(ord("0"))) <= 9
    return found


def _runs(text: Bytes) -> tuple[Offsets, Offsets]:
    """Starts and ends of runs of at least ``_RUN`` digits and points."""
    windows = [np.empty(0, np.int64)]
    for begin in range(0, len(text), _CHUNK):
        part = text[begin : begin + _CHUNK + _RUN - 1]
        held = (part - ord(".")) <= ord("9") - ord(".")  # '.', '/' and the digits
        width = 1
        while width < _RUN and len(held) > 0:
            step = min(width, _RUN - width)
            held = held[step:] & held[:-step]
            width += step
        windows.append(np.flatnonzero(held[:_CHUNK]) + begin)
    found = np.concatenate(windows)
    if not len(found):
        return found, found
    breaks = np.flatnonzero(np.diff(found) > 1)
    starts = found[np.concatenate(([0], breaks + 1))]
    ends = found[np.concatenate((breaks, [len(found) - 1]))] + _RUN
    return starts, ends
