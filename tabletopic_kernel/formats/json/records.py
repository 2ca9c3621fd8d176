"""JSON records joined to one text for the fast engine (see ``fast``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tabletopic_kernel.formats.arrays import Bodies, Bytes
from tabletopic_kernel.formats.json.digits import long_fractions, tiny_numbers

# Joints: 4 bytes in front of each record and 1 behind, together as long as a schema id's prefix.
OPEN: Final = b'{"":'
CLOSE: Final = b"}"
# The reader makes a type of whatever the schema does not name, level by level on the stack, and dies of
# 10,000 levels. Where a record might have so many, it is told to make no types: then it stops there.
MAX_BRACKETS: Final = 1_000
_NULL: Final = np.frombuffer(b"null", np.uint8)
# Records checked together for UTF-8 where not all of them are.
_TOGETHER: Final = 64

Offsets = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Joined:
    """Records between their joints: ``text`` from ``offsets[i]`` to ``offsets[i + 1]`` is the i-th.

    ``unfit`` are those that the reader would read wrong. ``flat``: none nests so deep that it harms.
    """

    text: pa.Buffer
    offsets: Offsets
    unfit: Offsets
    flat: bool

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def without(self, unfit: Offsets) -> Joined:
        """The same, with more records that are not to be read."""
        text = _blanked(np.frombuffer(self.text, np.uint8), self.offsets, unfit)
        return Joined(pa.py_buffer(text), self.offsets, np.union1d(self.unfit, unfit), self.flat)


def join(bodies: Bodies, *, objects: bool, doubles: bool) -> Joined:
    """The records for the fast engine.

    ``objects``: a record must be one; ``doubles``: digits beyond those of a double are to be found.
    ``bodies`` have a prefix in front, or nothing.
    """
    block, offsets = _in_place(bodies) if bodies.front else _afresh(bodies)
    unfit = _not_utf8(block, offsets)
    if objects:
        unfit = np.union1d(unfit, _no_objects(block, offsets))
    if len(unfit):
        block = _blanked(block, offsets, unfit)
    if doubles:
        places = np.concatenate((long_fractions(block), tiny_numbers(block)))
        unfit = np.union1d(unfit, np.searchsorted(offsets, places, side="right") - 1)
    return Joined(pa.py_buffer(block), offsets, unfit, _few_brackets(block, offsets))


def _in_place(bodies: Bodies) -> tuple[Bytes, Offsets]:
    """One joint is written over each prefix; the first loses its first byte, which closes nothing."""
    begin, end = int(bodies.offsets[0]), int(bodies.offsets[-1])
    block = np.empty(end - begin + 1, np.uint8)
    block[:-1] = bodies.data[begin:end]
    starts = bodies.offsets[:-1] - begin
    for place, byte in enumerate(CLOSE + OPEN):
        block[starts + place] = byte
    block[-1] = CLOSE[0]
    return block[1:], bodies.offsets - begin


def _afresh(bodies: Bodies) -> tuple[Bytes, Offsets]:
    head, tail, none = (pa.scalar(one, pa.large_binary()) for one in (OPEN, CLOSE, b""))
    texts = pc.binary_join_element_wise(head, bodies.values.cast(pa.large_binary()), tail, none)
    _, offsets, data = texts.buffers()
    return np.frombuffer(data, np.uint8), np.frombuffer(offsets, np.int64, len(texts) + 1)


def _few_brackets(block: Bytes, offsets: Offsets) -> bool:
    """Whether no record has more than ``MAX_BRACKETS`` opening brackets."""
    for index in np.flatnonzero(np.diff(offsets) > MAX_BRACKETS).tolist():
        record = block[offsets[index] : offsets[index + 1]].tobytes()
        if record.count(b"{") + record.count(b"[") > MAX_BRACKETS:
            return False
    return True


def _no_objects(block: Bytes, offsets: Offsets) -> Offsets:
    """Records that neither begin and end as an object does, nor with white space."""
    first, last = block[offsets[:-1] + len(OPEN)], block[offsets[1:] - 1 - len(CLOSE)]
    begins, ends = (first == ord("{")) | (first <= ord(" ")), (last == ord("}")) | (last <= ord(" "))
    return np.flatnonzero(~(begins & ends))


def _not_utf8(block: Bytes, offsets: Offsets) -> Offsets:
    """Records that are not UTF-8. Joints are ASCII, so a whole is UTF-8 if every part of it is."""
    if _is_utf8(block):
        return np.empty(0, np.int64)
    count = len(offsets) - 1
    found = [
        index
        for start in range(0, count, _TOGETHER)
        if not _is_utf8(block[offsets[start] : offsets[min(start + _TOGETHER, count)]])
        for index in range(start, min(start + _TOGETHER, count))
        if not _is_utf8(block[offsets[index] : offsets[index + 1]])
    ]
    return np.array(found, np.int64)


def _is_utf8(text: Bytes) -> bool:
    ends = pa.py_buffer(np.array([0, len(text)], np.int64))
    try:
        array = pa.Array.from_buffers(pa.large_string(), 1, [None, ends, pa.py_buffer(text)])
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _blanked(block: Bytes, offsets: Offsets, unfit: Offsets) -> Bytes:
    """A copy in which those records are null. A few bytes have no room for it and stay what they are."""
    copy = block.copy()
    for index in unfit.tolist():
        start, stop = offsets[index] + len(OPEN), offsets[index + 1] - len(CLOSE)
        if stop - start >= len(_NULL):
            copy[start : start + len(_NULL)] = _NULL
            copy[start + len(_NULL) : stop] = ord(" ")
    return copy
