"""The fast JSON engine: pyarrow's native reader on a whole group, with proof of the boundaries.

The reader reads tokens, not lines: two objects in one record would be two rows, a blank record none, and a
record might end in the next one. So each record becomes the one property of an object of ours, joined as
``{"":first}{"":second}…``. Between two records the reader then sees ``}{"":``. Within a text this is an
error (a text ends at the first quote, and no text may follow it), and outside of one ``}{`` is an error
unless every bracket is closed. So every record begins a row, and n rows of n records are one of each.

The reader takes a group or says, mostly, at which record it stopped. What it is lax in, is marked in the
rows it gives (``json_columns``, ``json_digits``): those are for the exact engine to judge.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from tabletopic_kernel.core.json_types import JsonType, ListOf, Scalar, Struct
from tabletopic_kernel.ingest.json_columns import Columns, native_type, read_fields
from tabletopic_kernel.ingest.json_digits import long_fractions
from tabletopic_kernel.ingest.verdicts import NotRows, UnsupportedError

# Arrow's 32-bit offsets of lists, and the reader's block size, must hold a group. Larger ones are halved.
MAX_GROUP_BYTES: Final = 2**30
# The reader makes a type of whatever the schema does not name, level by level on the stack, and dies of
# 10,000 levels. Where a record might have so many, it is told to make no types: then it stops there.
MAX_BRACKETS: Final = 1_000
# Joints: 4 bytes in front of each record and 1 behind.
OPEN: Final = b'{"":'
CLOSE: Final = b"}"
_ROW: Final = re.compile(r"in row (\d+)$")

Offsets = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Joined:
    """Records between their joints: ``text`` from ``offsets[i]`` to ``offsets[i + 1]`` is the i-th."""

    text: pa.Buffer
    offsets: Offsets

    def part(self, start: int, stop: int) -> Joined:
        """The records from ``start`` to ``stop``, without a copy."""
        offsets = self.offsets[start : stop + 1]
        return Joined(self.text.slice(offsets[0], offsets[-1] - offsets[0]), offsets - offsets[0])


@dataclass(frozen=True)
class FastRows:
    """A row for each record; ``suspects`` are those that do not count."""

    batch: pa.RecordBatch
    suspects: Offsets


class FastEngine:
    """Decodes groups of records of one type; raises UnsupportedError if it cannot take the type."""

    def __init__(self, root: Struct, arrow_schema: pa.Schema, *, whole: bool) -> None:
        self._arrow_schema = arrow_schema
        self._root: JsonType = root.fields[0].type if whole else root
        self._whole = whole
        self._optional = whole and root.fields[0].optional
        if isinstance(self._root, Struct) and not read_fields(self._root.fields):
            raise UnsupportedError("no column that the native reader could read")
        self._read_schema = pa.schema([("", native_type(self._root))])
        self._has_doubles = _has_doubles(root)

    def decode(self, records: Joined) -> FastRows:
        """Rows of the records; raises NotRows."""
        count = len(records.offsets) - 1
        if records.text.size > MAX_GROUP_BYTES:
            raise NotRows("the group is larger than 32-bit offsets allow")
        text = np.frombuffer(records.text, np.uint8)
        _check_utf8(records.text)
        values = self._read(records.text, may_infer=_few_brackets(text, records.offsets))
        if len(values) != count:
            raise NotRows("a record is no single JSON value")
        columns = Columns(count)
        if values.null_count and not self._optional:
            columns.suspects |= values.is_null().to_numpy(zero_copy_only=False)
        targets = list(self._arrow_schema)
        if self._whole:
            arrays = [columns.convert(self._root, values, targets[0].type, None)]
            arrays += [pa.nulls(count, target.type) for target in targets[1:]]
        else:
            assert isinstance(self._root, Struct)
            arrays = columns.fields(self._root, values, targets, None)
        if self._has_doubles:
            places = long_fractions(text)
            columns.suspects[np.searchsorted(records.offsets, places, side="right") - 1] = True
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._arrow_schema)
        return FastRows(batch, np.flatnonzero(columns.suspects))

    def _read(self, text: pa.Buffer, *, may_infer: bool) -> pa.Array:
        """The records' values, with what the type does not have behind it; raises NotRows."""
        try:
            table = pj.read_json(
                pa.BufferReader(text),
                read_options=pj.ReadOptions(use_threads=False, block_size=text.size + 1),
                parse_options=pj.ParseOptions(
                    explicit_schema=self._read_schema,
                    unexpected_field_behavior="infer" if may_infer else "error",
                ),
            )
        except pa.ArrowException as error:
            row = _ROW.search(str(error))
            raise NotRows(str(error), int(row[1]) if row else None) from None
        if table.num_columns != 1 or table.column(0).num_chunks != 1:
            raise NotRows("a record is no single JSON value")
        return table.column(0).chunk(0)


def _few_brackets(text: np.ndarray[Any, np.dtype[np.uint8]], offsets: Offsets) -> bool:
    """Whether no record has more than ``MAX_BRACKETS`` opening brackets."""
    opening = np.flatnonzero((text | 0x20) == ord("{"))  # [ and { differ in this bit alone
    if len(opening) <= MAX_BRACKETS:
        return True
    longest = int(np.diff(offsets).max())
    return bool((opening[MAX_BRACKETS:] - opening[:-MAX_BRACKETS]).min() > longest)


def _check_utf8(text: pa.Buffer) -> None:
    """The reader does not look. Joints are ASCII, so the whole is UTF-8 if every record is."""
    ends = pa.py_buffer(np.array([0, text.size], np.int64))
    try:
        pa.Array.from_buffers(pa.large_string(), 1, [None, ends, text]).validate(full=True)
    except pa.ArrowInvalid:
        raise NotRows("text that is not UTF-8") from None


def _has_doubles(node: JsonType) -> bool:
    match node:
        case Scalar(kind):
            return kind == "double"
        case ListOf(items, _):
            return _has_doubles(items)
        case Struct(fields):
            return any(_has_doubles(field.type) for field in fields)
    return False
