"""The fast JSON engine: pyarrow's native reader on a whole group, with proof of the boundaries.

*Why this is exact.* The reader reads tokens, not lines: two objects in one record would be two rows, a blank
record none, and a record might end in the next one. So each record becomes the only property of an object of
ours, joined as ``{"":first}{"":second}…``. Between two records, the reader then sees ``}{"":``. Within a
string, this is an error (a string ends at the first quote, and no string may follow it), and outside of one,
``}{`` is an error unless every bracket is closed. So every record begins a row, and n rows of n records are
one of each.

The reader decodes a group, or mostly says at which record it stopped. Where it is lax, rows are marked in its
result (``columns``) or before (``records``): the exact engine judges those.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from tabletopic_kernel.formats import driver
from tabletopic_kernel.formats.arrays import Bodies, without_nulls
from tabletopic_kernel.formats.driver import FastRows
from tabletopic_kernel.formats.json.columns import Columns, native_type, readable, with_integers
from tabletopic_kernel.formats.json.records import Joined, join
from tabletopic_kernel.formats.json.types import Scalar, Struct, walk
from tabletopic_kernel.formats.json.values import Rules
from tabletopic_kernel.formats.rejection import NotRows, UnsupportedError

_ROW: Final = re.compile(r"in row (\d+)$")
_CHANGED: Final = re.compile(r"^(?>.*?Column\()(?>.*/)?(.+)\) changed from (\w+) to ")
# What a value of each of the reader's kinds may begin with.
_BEGINS: Final = {"string": b'"', "number": rb"\-0-9", "boolean": b"tf", "array": rb"\[", "object": rb"\{"}
_MOST_CHANGED: Final = 8  # properties to search for
# One row in this many may have such a value; further ones go to the exact engine as they come.
CHANGED_WORTH_IT: Final = 32

Offsets = np.ndarray[Any, np.dtype[np.int64]]


class FastEngine(driver.FastEngine):
    """Decodes groups of records of one type; raises UnsupportedError if it cannot take the type."""

    min_records = 16  # a call takes about 0.2 ms, whatever the size
    max_records = 8_192

    def __init__(self, root: Struct, arrow_schema: pa.Schema, rules: Rules) -> None:
        self._arrow_schema = arrow_schema
        self._floor = rules.floor
        self._root = readable(root.fields[0].type if rules.whole else root)
        self._whole = rules.whole
        self._optional = rules.whole and root.fields[0].optional
        if isinstance(self._root, Struct) and not self._root.fields:
            raise UnsupportedError("no column that the native reader could read")
        self._read_schema = pa.schema([("", native_type(self._root, loose=False))])
        self._integers = with_integers(self._root)
        self._loose = False  # whether to look for non-integers where integers must be, after a group had some
        self._changed: dict[str, re.Pattern[bytes]] = {}  # properties that had values of another kind
        self._has_doubles = Scalar("double") in walk(self._root)

    def rows(self, bodies: Bodies) -> FastRows:
        """See ``driver.FastEngine``; ``bodies`` have a prefix in front, or nothing."""
        records = join(bodies, objects=isinstance(self._root, Struct), doubles=self._has_doubles)
        odd = _rows_with(self._changed.values(), records)
        if 0 < len(odd) * CHANGED_WORTH_IT <= len(records):
            records = records.without(odd)
        else:  # it was a single value, or the name has other meanings elsewhere, or all rows are bad
            self._changed.clear()
            if len(odd) * 4 > len(records):
                return self._all_suspects(records)
        try:
            return self._decode_numbers(records)
        except NotRows as verdict:
            self._learn(str(verdict))
            raise

    def _learn(self, message: str) -> None:
        """From now on, search for the property that, by the reader's message, has a value of another kind."""
        change = _CHANGED.search(message)
        if change and change[2] in _BEGINS and len(self._changed) < _MOST_CHANGED:
            name = re.escape(json.dumps(change[1], ensure_ascii=False).encode())
            begins = _BEGINS[change[2]]
            self._changed[change[1]] = re.compile(name + rb"\s*:\s*[^n\s" + begins + rb"]")

    def _decode_numbers(self, records: Joined) -> FastRows:
        if not self._loose:
            try:
                return self._decode(records)
            except _NotNumbersError:
                pass  # in a row that the reader does not report
        # Read as doubles, numbers that should be integers show, with their rows. The others are then read as
        # integers: as a double, 1.0000000000000001 looks like one.
        odd = self._odd_integers(records)
        self._loose = 0 < len(odd) * 8 < len(records)
        if len(odd) * 4 > len(records):  # not worth a second pass
            return self._all_suspects(records)
        return self._decode(records.without(odd))

    def _all_suspects(self, records: Joined) -> FastRows:
        none = [pa.nulls(0, field.type) for field in self._arrow_schema]
        every = np.ones(len(records), np.bool_)
        return FastRows(pa.RecordBatch.from_arrays(none, schema=self._arrow_schema), every)

    def suspects(self, _: Bodies) -> None:
        """See ``driver.FastEngine``: the reader itself says where it stopped."""

    def _odd_integers(self, records: Joined) -> Offsets:
        if self._integers is None or not records.flat:
            raise NotRows("a number is not an integer")
        schema = pa.schema([("", native_type(self._integers, loose=True))])
        values = _read(records.text, schema, "ignore")
        if len(values) != len(records):
            raise NotRows("a record is no single JSON value")
        rows = Columns(len(records))
        rows.odd_integers(self._integers, values, None)
        return np.flatnonzero(rows.suspects)

    def _decode(self, records: Joined) -> FastRows:
        count = len(records)
        values = _read(records.text, self._read_schema, "infer" if records.flat else "error")
        if len(values) != count:
            raise NotRows("a record is no single JSON value")
        columns = Columns(count, floor=self._floor)
        columns.suspects[records.unfit] = True
        if values.null_count and not self._optional:
            columns.suspects |= values.is_null().to_numpy(zero_copy_only=False)
        targets = list(self._arrow_schema)
        if self._whole:
            arrays = [columns.convert(self._root, values, targets[0].type, None)]
            if not targets[0].nullable:
                arrays[0] = without_nulls(arrays[0])
            arrays += [pa.nulls(count, target.type) for target in targets[1:]]
        else:
            assert isinstance(self._root, Struct)
            arrays = columns.fields(self._root, values, targets, None)
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._arrow_schema)
        return FastRows(batch, columns.suspects)


class _NotNumbersError(NotRows):
    """A number should be an integer but is not."""


def _read(text: pa.Buffer, schema: pa.Schema, others: Literal["infer", "ignore", "error"]) -> pa.Array:
    """The records' values; ``others``: what to do with properties not in the type; raises NotRows."""
    try:
        table = pj.read_json(
            pa.BufferReader(text),
            read_options=pj.ReadOptions(use_threads=False, block_size=text.size + 1),
            parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=others),
        )
    except pa.ArrowException as error:
        if "Failed to convert JSON to int" in str(error):
            raise _NotNumbersError(str(error)) from None
        row = _ROW.search(str(error))
        raise NotRows(str(error), int(row[1]) if row else None) from None
    if table.num_columns != 1 or table.column(0).num_chunks != 1:
        raise NotRows("a record is no single JSON value")
    return table.column(0).chunk(0)


def _rows_with(patterns: Iterable[re.Pattern[bytes]], records: Joined) -> Offsets:
    """Rows in which one of the patterns occurs. They are only suspects: it may be in a string."""
    positions = [match.start() for pattern in patterns for match in pattern.finditer(records.text)]
    return np.unique(np.searchsorted(records.offsets, positions, side="right") - 1)
