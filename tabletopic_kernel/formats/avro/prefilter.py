"""Finds Avro records that do not end where they should, for all records of a group at once.

Each step reads the same field of every record with array operations. It finds only suspects: the fast engine
proves the others, the exact one judges these. So it need not know every rule, only be fast: a bad record
among a thousand must not cost the group more than a second pass.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tabletopic_kernel.formats.arrays import Bodies, Mask
from tabletopic_kernel.formats.avro.schema import (
    Array,
    AvroSchema,
    AvroType,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    Recursion,
    Union,
)

# Items of one list that are checked; a group with longer lists is not worth the steps.
MAX_ITEMS: Final = 64
_NOWHERE: Final = 2**60  # beyond every end: a record that cannot continue
_WIDTHS: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}

Places = np.ndarray[Any, np.dtype[np.int64]]


class _TooLong(Exception):  # noqa: N818 - not an error: the group is left to others
    """A list has more items than are checked."""


class Prefilter:
    """Walks over records of one schema. Keeps nothing between calls."""

    def __init__(self, schema: AvroSchema) -> None:
        self._root = schema.root

    def suspects(self, bodies: Bodies) -> Mask | None:
        """A mask of the records that do not end where they should; None if finding out is not worth it."""
        data = bodies.data
        if not len(data):
            return None
        try:
            behind = _Walk(data).over(self._root, bodies.offsets[:-1] + bodies.front)
        except _TooLong:
            return None
        suspected: Mask = behind != bodies.offsets[1:]
        return suspected


class _Walk:
    """The ends of nodes, in all records."""

    def __init__(self, data: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
        self._data = data
        self._last = len(data) - 1

    def over(self, node: AvroType, at: Places) -> Places:  # noqa: PLR0911 - one for each kind of node
        """The positions after ``node``, from the positions before it."""
        match node:
            case Primitive(kind) if kind in _WIDTHS:
                return at + _WIDTHS[kind]
            case Primitive("int" | "long"):
                return self._varint(at)[1]
            case Primitive():
                size, at = self._varint(at)
                return self._moved(at, size)
            case Fixed():
                return at + node.size
            case Enum():
                index, at = self._varint(at)
                return np.where((index >= 0) & (index < len(node.symbols)), at, _NOWHERE)
            case Record():
                for field in node.fields:
                    at = self.over(field.type, at)
                return at
            case Union():
                return self._branches(node, at)
            case Array(items):
                return self._blocks((items,), at)
            case Map(values):
                return self._blocks((Primitive("string"), values), at)
            case Recursion():
                raise _TooLong
        raise _TooLong

    def _varint(self, at: Places) -> tuple[Places, Places]:
        """Zigzag numbers at these positions, and the positions after them."""
        byte = self._data[np.minimum(at, self._last)]
        value = (byte & 127).astype(np.int64)
        at = at + 1
        more = np.flatnonzero(byte & 128)
        for shift in range(7, 64, 7):
            if not len(more):
                break
            byte = self._data[np.minimum(at[more], self._last)]
            value[more] |= (byte & 127).astype(np.int64) << shift
            at[more] += 1
            more = more[(byte & 128) != 0]
        at[more] = _NOWHERE
        return (value >> 1) ^ -(value & 1), at

    def _moved(self, at: Places, size: Places) -> Places:
        return np.where((size >= 0) & (size <= self._last), at + size, _NOWHERE)

    def _branches(self, union: Union, at: Places) -> Places:
        index, at = self._varint(at)
        known = (index >= 0) & (index < len(union.branches))
        at = np.where(known, at, _NOWHERE)
        for number, branch in enumerate(union.branches):
            chosen = np.flatnonzero(index == number)
            if len(chosen) == len(at):
                return self.over(branch, at)
            if len(chosen):
                at[chosen] = self.over(branch, at[chosen])
        return at

    def _blocks(self, item: tuple[AvroType, ...], at: Places) -> Places:
        at = np.where(at <= self._last, at, _NOWHERE)
        open_ = np.flatnonzero(at <= self._last)
        for _ in range(MAX_ITEMS):
            count, behind = self._varint(at[open_])
            sized = np.flatnonzero(count < 0)  # a block with its size in bytes
            if len(sized):
                size, after = self._varint(behind[sized])
                behind[sized] = self._moved(after, size)
                count[sized] = -1
            at[open_] = behind
            self._items(item, at, open_, count)
            open_ = open_[count != 0]
            at[open_[at[open_] > self._last]] = _NOWHERE
            open_ = open_[at[open_] <= self._last]
            if not len(open_):
                return at
        raise _TooLong

    def _items(self, item: tuple[AvroType, ...], at: Places, open_: Places, count: Places) -> None:
        left, rows = count.copy(), open_
        for _ in range(MAX_ITEMS):
            going = (left > 0) & (at[rows] <= self._last)
            rows, left = rows[going], left[going] - 1
            if not len(rows):
                return
            behind = at[rows]
            for node in item:
                behind = self.over(node, behind)
            at[rows] = behind
        raise _TooLong
