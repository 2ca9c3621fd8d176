"""The fast Protobuf engine: ptars' native reader on a whole group, with proof of what it read.

The reader takes plain types of our own (``protobuf_plain``). It is lax: it takes a field that has another
wire type for an unknown one, overlooks the rest of a list of fixed-width numbers, cuts tags to 32 bits. It
never looks beyond a value's own bytes, so that no record can shift another.

**Proof.** From the columns it is computed how many bytes the message takes as writers encode it (Protobuf
documentation, "Encoding": each field once, shortest varints, packed as declared). No way to write the same
values is shorter. So where that is the length of the body, the reader has taken every byte for a value of the
schema. Any other record goes to the exact engine: damaged ones, and valid ones with unknown fields or from a
writer with ways of its own. What is JSON text is proved by the check of its own bytes.

**Bounds.** The reader keeps a table of all field numbers up to the largest: schemas with giant ones are
refused, and those with groups, which it skips. Unknown groups take its stack, one level for each within
another: the caller gives it no long value that google's parser has not taken.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import ptars
import pyarrow as pa

from tabletopic_kernel.formats.protobuf.arrays import Scope
from tabletopic_kernel.formats.protobuf.fast_schema import Plain, has_groups, largest_numbers, name_of
from tabletopic_kernel.formats.protobuf.fields import ColumnPlanner
from tabletopic_kernel.formats.protobuf.json import JsonTexts
from tabletopic_kernel.formats.protobuf.schema.tree import Message
from tabletopic_kernel.formats.protobuf.values import Mask, SubMicros
from tabletopic_kernel.formats.rejection import NotRows, UnsupportedError
from tabletopic_kernel.formats.wire import PREFIX_BYTES

# 16 bytes each, in every call.
MAX_FIELD_NUMBERS: Final = 1_000_000
_CONFIG: Final = ptars.PtarsConfig(
    use_large_string=True,
    use_large_binary=True,
    use_large_list=True,
    confluent_wire_policy="protobuf",
)


class FastEngine:
    """Decodes groups of records of one message type; raises UnsupportedError if it cannot take the type."""

    def __init__(
        self, root: Message, json: JsonTexts, arrow_schema: pa.Schema, sub_micros: SubMicros
    ) -> None:
        if has_groups(root):
            raise UnsupportedError("the native reader skips groups")
        if largest_numbers(root) > MAX_FIELD_NUMBERS:
            raise UnsupportedError("field numbers are too large for the native reader's tables")
        plain = Plain(root)
        self._arrow_schema = arrow_schema
        self._column = ColumnPlanner(json, sub_micros).message(root)
        self._reader = ptars.HandlerPool([plain.file], _CONFIG).get_for_message(plain.root)

    def decode(self, values: pa.Array, header_bytes: int) -> tuple[pa.RecordBatch, Mask, Mask]:
        """Rows of those records that the engine vouches for, and masks of the others.

        ``values``: BinaryArray without nulls, offset 0, at least one value; each with its prefix and
        ``header_bytes`` of message indexes. Raises NotRows if the reader stops at one of the records.

        The first mask is of records whose bytes are not proved, the second of records with values that only
        the exact engine can judge.
        """
        raw = self._read(_with_plain_headers(values, header_bytes))
        count = len(values)
        ends = np.frombuffer(values.buffers()[1], np.int32, count + 1)
        bodies = np.diff(ends) - (PREFIX_BYTES + header_bytes)
        unproved = np.broadcast_to(self._column.sizes_of(raw) != bodies, count).copy()
        odd = np.zeros(count, bool)
        arrays = self._column.convert_all(raw, Scope(unproved, odd), self._arrow_schema)
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._arrow_schema)
        bad = unproved | odd
        return (batch.filter(pa.array(~bad)) if bad.any() else batch), unproved, odd

    def _read(self, values: pa.Array) -> list[pa.Array]:
        try:
            batch = self._reader.array_to_record_batch(values)
        except ValueError as error:
            raise NotRows(str(error)) from error
        except BaseException as error:
            # A panic of the native code arrives as pyo3's PanicException, which is no Exception.
            if type(error).__name__ != "PanicException":
                raise
            raise NotRows(f"native panic: {error}") from error
        return [batch.column(name_of(field.number)) for field in self._column.fields]


def _with_plain_headers(values: pa.Array, header_bytes: int) -> pa.Array:
    """The values with message indexes as the reader understands them.

    It takes their number for an unsigned varint, where it is a zigzag one. The byte 0 is the same in both;
    of more bytes, the first one becomes the number of those that follow.
    """
    if header_bytes == 1:
        return values
    _, offsets, data = values.buffers()
    starts = np.frombuffer(offsets, np.int32, len(values)).astype(np.int64) + PREFIX_BYTES
    changed = np.frombuffer(data, np.uint8).copy()
    changed[starts] = header_bytes - 1
    for place in range(1, header_bytes):
        changed[starts + place] = 0
    return pa.Array.from_buffers(values.type, len(values), [None, offsets, pa.py_buffer(changed)])
