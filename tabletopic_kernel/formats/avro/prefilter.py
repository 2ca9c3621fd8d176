"""Finds Avro records that do not end where they should, for all records of a group at once.

Each step reads the same field of every record with array operations. It finds only suspects: the exact engine
judges these, and the fast engine proves the others. So it need not know every rule, only be fast: a bad
record among a thousand must not cost the group more than a second pass.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tabletopic_kernel.formats.arrays import Bodies, Mask
from tabletopic_kernel.formats.avro import schema as nodes

# Items of one list that are checked; a group with longer lists is not worth the steps.
MAX_ITEMS: Final = 64
_NOWHERE: Final = 2**60  # beyond every end: a record that cannot continue
_WIDTHS: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}

Places = np.ndarray[Any, np.dtype[np.int64]]


class _TooLong(Exception):  # noqa: N818 - not an error: the group is left to others
    """A list has more items than are checked."""


class Prefilter:
    """Walks over records of one schema. Keeps nothing between calls."""

    def __init__(self, schema: nodes.AvroSchema) -> None:
        self._root = schema.root

    def suspects(self, bodies: Bodies) -> Mask | None:
        """A mask of the records that do not end where they should; None if finding out is not worth it."""
        data = bodies.data
        if not len(data):
            return None
        try:
            ends = _Walk(data).over(self._root, bodies.offsets[:-1] + bodies.front)
        except _TooLong:
            return None
        suspected: Mask = ends != bodies.offsets[1:]
        return suspected


class _Walk:
    """The ends of nodes, in all records."""

    def __init__(self, data: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
        self._data = data
        self._last = len(data) - 1

    def over(self, node: nodes.AvroType, positions: Places) -> Places:  # noqa: PLR0911 - one for each kind of node
        """The positions after ``node``, from the positions before it."""
        match node:
            case nodes.Primitive(kind) if kind in _WIDTHS:
                return positions + _WIDTHS[kind]
            case nodes.Primitive("int" | "long"):
                return self._varint(positions)[1]
            case nodes.Primitive():
                size, positions = self._varint(positions)
                return self._moved(positions, size)
            case nodes.Fixed():
                return positions + node.size
            case nodes.Enum():
                index, positions = self._varint(positions)
                return np.where((index >= 0) & (index < len(node.symbols)), positions, _NOWHERE)
            case nodes.Record():
                for field in node.fields:
                    positions = self.over(field.type, positions)
                return positions
            case nodes.Union():
                return self._branches(node, positions)
            case nodes.Array(items):
                return self._blocks((items,), positions)
            case nodes.Map(values):
                return self._blocks((nodes.Primitive("string"), values), positions)
            case nodes.Recursion():
                raise _TooLong
        raise _TooLong

    def _varint(self, positions: Places) -> tuple[Places, Places]:
        byte = self._data[np.minimum(positions, self._last)]
        value = (byte & 127).astype(np.int64)
        positions = positions + 1
        unfinished = np.flatnonzero(byte & 128)
        for shift in range(7, 64, 7):
            if not len(unfinished):
                break
            byte = self._data[np.minimum(positions[unfinished], self._last)]
            value[unfinished] |= (byte & 127).astype(np.int64) << shift
            positions[unfinished] += 1
            unfinished = unfinished[(byte & 128) != 0]
        positions[unfinished] = _NOWHERE
        return (value >> 1) ^ -(value & 1), positions

    def _moved(self, positions: Places, size: Places) -> Places:
        return np.where((size >= 0) & (size <= self._last), positions + size, _NOWHERE)

    def _branches(self, union: nodes.Union, positions: Places) -> Places:
        index, positions = self._varint(positions)
        valid = (index >= 0) & (index < len(union.branches))
        positions = np.where(valid, positions, _NOWHERE)
        for number, branch in enumerate(union.branches):
            chosen = np.flatnonzero(index == number)
            if len(chosen) == len(positions):
                return self.over(branch, positions)
            if len(chosen):
                positions[chosen] = self.over(branch, positions[chosen])
        return positions

    def _blocks(self, item: tuple[nodes.AvroType, ...], positions: Places) -> Places:
        positions = np.where(positions <= self._last, positions, _NOWHERE)
        open_ = np.flatnonzero(positions <= self._last)
        for _ in range(MAX_ITEMS):
            count, ends = self._varint(positions[open_])
            sized = np.flatnonzero(count < 0)  # a block with its size in bytes
            if len(sized):
                size, after = self._varint(ends[sized])
                ends[sized] = self._moved(after, size)
                count[sized] = -1
            positions[open_] = ends
            self._items(item, positions, open_, count)
            open_ = open_[count != 0]
            positions[open_[positions[open_] > self._last]] = _NOWHERE
            open_ = open_[positions[open_] <= self._last]
            if not len(open_):
                return positions
        raise _TooLong

    def _items(
        self, item: tuple[nodes.AvroType, ...], positions: Places, open_: Places, count: Places
    ) -> None:
        remaining, rows = count.copy(), open_
        for _ in range(MAX_ITEMS):
            active = (remaining > 0) & (positions[rows] <= self._last)
            rows, remaining = rows[active], remaining[active] - 1
            if not len(rows):
                return
            ends = positions[rows]
            for node in item:
                ends = self.over(node, ends)
            positions[rows] = ends
        raise _TooLong
