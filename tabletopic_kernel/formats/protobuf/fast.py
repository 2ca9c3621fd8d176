"""The fast Protobuf engine: ptars' native reader on a whole group, with proof of what it read.

The reader gets our own plain types (``fast_schema``). It is lax: it takes a field with another wire type for
an unknown one, overlooks the rest of a list of fixed-width numbers, truncates tags to 32 bits. It never reads
beyond a value's own bytes, so no record can shift another.

*Why this is exact.* From the columns, we compute how many bytes the message takes as writers encode it
(Protobuf documentation, "Encoding": each field once, shortest varints, packed as declared). No encoding of
the same values is shorter. So if that is the length of the body, the reader has taken every byte for a value
of the schema. All other records go to the exact engine: damaged ones, and valid ones with unknown fields or
from a writer with its own ways. JSON text is proved by the check of its own bytes.

*Bounds.* The reader keeps a table of all field numbers up to the largest: schemas with giant ones are
refused, and so are those with groups, which it skips. Nested unknown groups use its stack, one level each: it
gets no long value that Google's parser has not accepted.

*The prefilter* finds the records that are not Protobuf messages at all, with few calls of Google's parser.
The Kafka values have at least 6 bytes in front of every body: schema id and message indexes. With a field's
tag and the body's length in their place, records laid end to end are one message with a list of messages. The
parser accepts it as a whole, or refuses it; then it checks each of the records.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import ptars
import pyarrow as pa
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from google.protobuf.message_factory import GetMessageClass  # type: ignore[import-untyped]

from tabletopic_kernel.formats import driver
from tabletopic_kernel.formats.arrays import Bodies, Mask
from tabletopic_kernel.formats.driver import FastRows
from tabletopic_kernel.formats.protobuf.fast_schema import Plain, has_groups, largest_numbers, name_of
from tabletopic_kernel.formats.protobuf.fields import ColumnPlanner
from tabletopic_kernel.formats.protobuf.json import JsonTexts
from tabletopic_kernel.formats.protobuf.schema.tree import Message
from tabletopic_kernel.formats.protobuf.values import Numbers, Scope, SubMicros
from tabletopic_kernel.formats.rejection import NotRows, UnsupportedError, native_reader
from tabletopic_kernel.formats.wire import PREFIX_BYTES

# Few enough to find a bad record cheaply, and enough that a call costs little for each.
RECORDS_AT_ONCE: Final = 64
_LENGTH_BYTES: Final = 5  # the longest varint of a length; shorter lengths are padded
_MAX_TAG_BYTES: Final = 5
_TAG: Final = 1 << 3 | 2  # field 1, length-delimited


class Prefilter:
    """Distinguishes messages of one type from other bytes."""

    def __init__(self, plain: Plain) -> None:
        self._parse = GetMessageClass(plain.root).FromString
        self._parse_batch = GetMessageClass(plain.batch).FromString

    def takes(self, body: bytes) -> bool:
        """Whether a body is a message."""
        return _takes(self._parse, body)

    def unreadable(self, bodies: Bodies) -> Mask:
        """A mask of the bodies that are not messages; each has prefix and message indexes in front."""
        front = bodies.front
        begin, end = int(bodies.offsets[0]), int(bodies.offsets[-1])
        offsets = bodies.offsets - begin
        bad = np.zeros(len(bodies), bool)
        joined = memoryview(_with_lengths(bodies.data[begin:end], offsets, front))
        for start in range(0, len(bodies), RECORDS_AT_ONCE):
            stop = min(start + RECORDS_AT_ONCE, len(bodies))
            batch = joined[offsets[start] : offsets[stop]]
            if front - _LENGTH_BYTES > _MAX_TAG_BYTES or not _takes(self._parse_batch, batch):
                for index in range(start, stop):
                    message = joined[offsets[index] + front : offsets[index + 1]]
                    bad[index] = not _takes(self._parse, message)
        return bad


def _takes(parse: Any, raw: memoryview | bytes) -> bool:
    try:
        parse(raw)
    except DecodeError:
        return False
    return True


def _with_lengths(data: np.ndarray[Any, np.dtype[np.uint8]], offsets: Numbers, front: int) -> Any:
    """A copy of the values with tag and length, as long varints, in place of the bytes before each body."""
    out = data.copy()
    starts, lengths = offsets[:-1], np.diff(offsets) - front
    tag_bytes = front - _LENGTH_BYTES
    for index in range(tag_bytes):
        continuation = 0x80 if index < tag_bytes - 1 else 0
        out[starts + index] = (_TAG if index == 0 else 0) | continuation
    for index in range(_LENGTH_BYTES):
        continuation = 0x80 if index < _LENGTH_BYTES - 1 else 0
        out[starts + tag_bytes + index] = lengths >> 7 * index & 0x7F | continuation
    return out


# The native reader enters unknown groups without a limit, and a group takes at least one byte. It was seen to
# survive 100,000 levels, but not 1,000,000. Google's parser checks longer values first; it has a limit.
LONG_BYTES: Final = 16 * 1024
# 16 bytes each, in every call.
MAX_FIELD_NUMBERS: Final = 1_000_000
_CONFIG: Final = ptars.PtarsConfig(
    use_large_string=True,
    use_large_binary=True,
    use_large_list=True,
    confluent_wire_policy="protobuf",
)


class FastEngine(driver.FastEngine):
    """Decodes groups of records of one message type; raises UnsupportedError if it cannot take the type."""

    min_records = 32  # a call takes about 0.4 ms, whatever the size

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
        self._prefilter = Prefilter(plain)
        self._reader = ptars.HandlerPool([plain.file], _CONFIG).get_for_message(plain.root)

    def rows(self, bodies: Bodies) -> FastRows:
        """See ``driver.FastEngine``; suspects are records not proved, or with values for the exact engine."""
        for index in np.flatnonzero(bodies.lengths > LONG_BYTES).tolist():
            if not self._prefilter.takes(bodies.body(index)):
                raise NotRows("a long value is not a message, and may be groups within groups")
        count = len(bodies)
        raw = self._read(_with_plain_headers(_narrow(bodies), bodies.front - PREFIX_BYTES))
        suspects = np.broadcast_to(self._column.sizes_of(raw) != bodies.lengths, count).copy()
        arrays = self._column.convert_all(raw, Scope(suspects), self._arrow_schema)
        return FastRows(pa.RecordBatch.from_arrays(arrays, schema=self._arrow_schema), suspects)

    def suspects(self, bodies: Bodies) -> Mask:
        """See ``driver.FastEngine``: the records that are not messages."""
        return self._prefilter.unreadable(bodies)

    def _read(self, values: pa.Array) -> list[pa.Array]:
        with native_reader(ValueError):
            batch = self._reader.array_to_record_batch(values)
        return [batch.column(name_of(field.number)) for field in self._column.fields]


def _narrow(bodies: Bodies) -> pa.Array:
    """The values as a BinaryArray with offset 0; they must have less than 2 GiB."""
    begin = int(bodies.offsets[0])
    offsets = pa.py_buffer((bodies.offsets - begin).astype(np.int32))
    buffers = [None, offsets, bodies.buffer.slice(begin, bodies.size)]
    return pa.Array.from_buffers(pa.binary(), len(bodies), buffers)


def _with_plain_headers(values: pa.Array, header_bytes: int) -> pa.Array:
    """The values with message indexes in the form that the reader understands.

    It reads their number as an unsigned varint, but it is a zigzag one. The byte 0 is the same in both; if
    there are more bytes, the first one becomes the number of the following ones.
    """
    if header_bytes == 1:
        return values
    _, offsets, data = values.buffers()
    starts = np.frombuffer(offsets, np.int32, len(values)).astype(np.int64) + PREFIX_BYTES
    changed = np.frombuffer(data, np.uint8).copy()
    changed[starts] = header_bytes - 1
    for index in range(1, header_bytes):
        changed[starts + index] = 0
    return pa.Array.from_buffers(values.type, len(values), [None, offsets, pa.py_buffer(changed)])
