"""Finds the records that are no Protobuf messages at all, with few calls of google's parser.

In the Kafka values there are at least 6 bytes in front of every body: schema id and message indexes. With the
tag of a field and the body's length in their place, records laid end to end are one message that holds a list
of messages. The parser takes it whole, or refuses it; then it is asked for each of the records.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from google.protobuf.message_factory import GetMessageClass  # type: ignore[import-untyped]

from tabletopic_kernel.formats.arrays import Bodies
from tabletopic_kernel.formats.protobuf.fast_schema import Plain
from tabletopic_kernel.formats.protobuf.values import Mask, Numbers

# Few enough that a bad one is found cheaply among them, and enough that a call costs little for each.
RECORDS_AT_ONCE: Final = 64
_LENGTH_BYTES: Final = 5  # the longest varint of a length; shorter lengths are padded
_MAX_TAG_BYTES: Final = 5
_TAG: Final = 1 << 3 | 2  # field 1, bytes of a length


class Prefilter:
    """Tells messages of one type from other bytes."""

    def __init__(self, plain: Plain) -> None:
        self._parse = GetMessageClass(plain.root).FromString
        self._parse_batch = GetMessageClass(plain.batch).FromString

    def takes(self, body: bytes) -> bool:
        """Whether a body is a message."""
        return _takes(self._parse, body)

    def unreadable(self, bodies: Bodies) -> Mask:
        """A mask of the bodies that are no messages; each has prefix and message indexes in front."""
        body = bodies.front
        begin, end = int(bodies.offsets[0]), int(bodies.offsets[-1])
        offsets = bodies.offsets - begin
        bad = np.zeros(len(bodies), bool)
        joined = memoryview(_with_lengths(bodies.data[begin:end], offsets, body))
        for start in range(0, len(bodies), RECORDS_AT_ONCE):
            stop = min(start + RECORDS_AT_ONCE, len(bodies))
            whole = joined[offsets[start] : offsets[stop]]
            if body - _LENGTH_BYTES > _MAX_TAG_BYTES or not _takes(self._parse_batch, whole):
                for index in range(start, stop):
                    one = joined[offsets[index] + body : offsets[index + 1]]
                    bad[index] = not _takes(self._parse, one)
        return bad


def _takes(parse: Any, raw: memoryview | bytes) -> bool:
    try:
        parse(raw)
    except DecodeError:
        return False
    return True


def _with_lengths(data: np.ndarray[Any, np.dtype[np.uint8]], offsets: Numbers, body: int) -> Any:
    """A copy of the values with tag and length, as long varints, in place of what is before each body."""
    out = data.copy()
    starts, lengths = offsets[:-1], np.diff(offsets) - body
    tag_bytes = body - _LENGTH_BYTES
    for place in range(tag_bytes):
        more = 0x80 if place < tag_bytes - 1 else 0
        out[starts + place] = (_TAG if place == 0 else 0) | more
    for place in range(_LENGTH_BYTES):
        more = 0x80 if place < _LENGTH_BYTES - 1 else 0
        out[starts + tag_bytes + place] = lengths >> 7 * place & 0x7F | more
    return out
