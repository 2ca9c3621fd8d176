"""Decodes Confluent-framed Protobuf values of one schema id into Arrow rows.

A schema id names a file, and message indexes behind it say which message of the file a record holds
(``schema/message_indexes``). A decoder takes one message: the file's first, or the one that is asked for by
name. Records of other messages are refused, because they have other columns.

Two engines (design: ``protobuf_fast``, ``protobuf_exact``). The fast one reads a whole group and says which
rows it vouches for; the exact one judges the others. Where the fast one cannot read a group, those records
that are no messages are sorted out first (``protobuf_screen``).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema

from tabletopic_kernel.formats.protobuf.exact import ExactEngine
from tabletopic_kernel.formats.protobuf.fast import FastEngine
from tabletopic_kernel.formats.protobuf.fast_schema import Plain
from tabletopic_kernel.formats.protobuf.json import JsonTexts
from tabletopic_kernel.formats.protobuf.prefilter import Screen
from tabletopic_kernel.formats.protobuf.schema.message_indexes import header_of, headers_of, read_header
from tabletopic_kernel.formats.protobuf.schema.protoc import compile_schema
from tabletopic_kernel.formats.protobuf.schema.tree import Json, load, message_named, parse
from tabletopic_kernel.formats.protobuf.schema.types import iceberg_schema_of
from tabletopic_kernel.formats.protobuf.values import Mask, SubMicros
from tabletopic_kernel.formats.rejection import NotRows, Refusal, Refused, UnsupportedError
from tabletopic_kernel.formats.types import arrow_schema_of
from tabletopic_kernel.formats.wire import PREFIX_BYTES
from tabletopic_kernel.model.dead_letter import OTHER_MESSAGE

# Below this a call of the fast engine (about 0.4 ms, whatever the size) costs more than the exact one.
MIN_FAST_RECORDS: Final = 32
# A group that the fast engine does not take although each record is a message (one with an unknown group) is
# split into so many parts; a small one goes to the exact engine.
SMALL_RECORDS: Final = 64
PARTS: Final = 8
# The native reader enters unknown groups without a limit, and a group takes a byte at least. It was seen to
# survive 100,000 levels and not 1,000,000. Google's parser looks at longer values first; it has a limit.
LONG_BYTES: Final = 16 * 1024
# Arrow's 32-bit offsets of the values must hold the sum over a group.
MAX_GROUP_BYTES: Final = 2**30
# Python values may take a few hundred times the bytes they were read from; this many are held at once.
EXACT_BATCH_BYTES: Final = 256 * 1024

Positions = np.ndarray[Any, np.dtype[np.int64]]


class ProtobufDecoder:
    """All records of one schema id and one message. Not for use by two threads at once.

    Args:
        schema_id: for the shape that all decoders have.
        schema: .proto text, or a FileDescriptorProto in base64.
        references: the files that the schema imports, by name, in either form.
        message: the message that the records hold, with or without its package; None for the first.
        sub_micros: what becomes of a Timestamp or Duration with more digits than microseconds.

    Raises:
        ProtobufSchemaError: the schema does not compile, has no such message, or is beyond our limits.
        RetryableError: protoc could not run.
    """

    def __init__(
        self,
        schema_id: int,
        schema: str,
        references: Mapping[str, str] | None = None,
        message: str | None = None,
        sub_micros: SubMicros = "refuse",
    ) -> None:
        files, name = compile_schema(schema, references)
        pool = load(files)
        file = pool.FindFileByName(name)
        descriptor = message_named(file, message)
        root = parse(descriptor)
        self.schema_id = schema_id
        self.message: str = descriptor.full_name
        self.iceberg_schema: Schema = iceberg_schema_of(root)
        self.arrow_schema: pa.Schema = arrow_schema_of(self.iceberg_schema)
        self.fast_refusal: str | None = None  # why the fast engine cannot take this message at all
        self._messages = headers_of(file)
        self._headers = [header for header, name in self._messages.items() if name == self.message]
        plain = None if isinstance(root, Json) else Plain(root, pool)
        self._exact = ExactEngine(descriptor, root, plain, self.arrow_schema, sub_micros)
        self._screen = None if plain is None else Screen(plain)
        self._fast: FastEngine | None = None
        try:
            if isinstance(root, Json):
                raise UnsupportedError("the whole message is JSON text")
            self._fast = FastEngine(root, JsonTexts(pool), self.arrow_schema, sub_micros)
        except UnsupportedError as error:
            self.fast_refusal = str(error)

    def decode(self, values: pa.Array) -> tuple[pa.RecordBatch, list[Refused]]:
        """Rows in the order of ``values``, without the refused ones.

        ``values``: BinaryArray or LargeBinaryArray without nulls, each value with its 5-byte prefix and its
        message indexes.
        """
        every = _Group(values, np.arange(len(values)), 0)
        done = _Done()
        left = np.ones(len(values), bool)
        for header in self._headers:
            found = every.begins_with(header)
            if found.any():
                left &= ~found
                self._decode_group(every.chosen(np.flatnonzero(found), len(header)), done)
        for index in np.flatnonzero(left).tolist():
            reason, message = self._why_not_ours(bytes(PREFIX_BYTES) + every.body(index))
            done.refused.append(Refused(index, reason, message))
        done.refused.sort(key=lambda one: one.index)
        return done.rows() or self._exact.batch([]), done.refused

    def decode_bodies(self, values: pa.Array) -> tuple[pa.RecordBatch, list[Refused]]:
        """The same of values that are bare messages, without prefix and message indexes."""
        frame = pa.scalar(bytes(PREFIX_BYTES) + self._headers[0], values.type)
        return self.decode(pc.binary_join_element_wise(frame, values, pa.scalar(b"", values.type)))

    def _decode_group(self, group: _Group, done: _Done, is_screened: bool = False) -> None:
        if self._fast is None or self._screen is None or len(group) < MIN_FAST_RECORDS:
            self._decode_exactly(group, range(len(group)), done)
            return
        deep = [] if is_screened else self._too_deep(group, self._screen)
        if deep:
            self._decode_exactly(group, deep, done)
            self._decode_group(group.chosen(np.setdiff1d(np.arange(len(group)), deep)), done)
            return
        try:
            if group.size > MAX_GROUP_BYTES:
                raise NotRows("the group is larger than 32-bit offsets allow")
            batch, unproved, odd = self._fast.decode(group.array(), group.header_bytes)
        except NotRows:
            self._decode_parts(group, done, is_screened)
            return
        done.add(batch, group.positions[~(unproved | odd)])
        self._decode_exactly(group, np.flatnonzero(unproved), done)
        self._decode_exactly(group, np.flatnonzero(odd & ~unproved), done, is_checked=True)

    def _too_deep(self, group: _Group, screen: Screen) -> list[int]:
        """Long values that are no messages: groups within groups would overflow the reader's stack."""
        long = np.flatnonzero(group.lengths > LONG_BYTES).tolist()
        return [index for index in long if not screen.takes(group.body(index))]

    def _decode_parts(self, group: _Group, done: _Done, is_screened: bool) -> None:
        """Decode a group that the fast engine does not take as a whole."""
        if group.size > MAX_GROUP_BYTES or (is_screened and len(group) > SMALL_RECORDS):
            edges = np.linspace(0, len(group), PARTS + 1, dtype=int).tolist()
            for start, stop in itertools.pairwise(edges):
                self._decode_group(group.part(start, stop), done, is_screened)
        elif is_screened or self._screen is None:
            self._decode_exactly(group, range(len(group)), done)
        else:
            bad = self._screen.unreadable(group.array(), group.header_bytes)
            self._decode_exactly(group, np.flatnonzero(bad), done)
            self._decode_group(group.chosen(np.flatnonzero(~bad)), done, is_screened=True)

    def _decode_exactly(
        self, group: _Group, indexes: Iterable[int], done: _Done, is_checked: bool = False
    ) -> None:
        rows: list[tuple[Any, ...]] = []
        places: list[int] = []
        held_bytes = 0
        for index in indexes:
            body = group.body(index)
            try:
                rows.append(self._exact.row(body, is_checked))
            except Refusal as refusal:
                place = int(group.positions[index])
                done.refused.append(Refused(place, refusal.reason, refusal.text()))
                continue
            places.append(int(group.positions[index]))
            held_bytes += len(body)
            if held_bytes > EXACT_BATCH_BYTES:
                done.add(self._exact.batch(rows), np.array(places, np.int64))
                rows, places, held_bytes = [], [], 0
        if rows:
            done.add(self._exact.batch(rows), np.array(places, np.int64))

    def _why_not_ours(self, value: bytes) -> tuple[str, str]:
        """Why a value does not begin with the message indexes of our message."""
        try:
            path, _ = read_header(value, PREFIX_BYTES)
        except ValueError as error:
            return "protobuf_frame", str(error)
        found = self._messages.get(header_of(path))
        if found is None:
            return "protobuf_frame", f"message indexes {list(path)}, which lead to no message of the schema"
        if found == self.message:
            return "protobuf_frame", f"message indexes {list(path)}, in more bytes than any serializer takes"
        return (
            OTHER_MESSAGE,
            f"the record is a {found}, and the table has the columns of {self.message}; "
            "the setting value_message names another",
        )


class _Done:
    """Rows and refusals so far."""

    def __init__(self) -> None:
        self.refused: list[Refused] = []
        self._batches: list[pa.RecordBatch] = []
        self._positions: list[Positions] = []

    def add(self, batch: pa.RecordBatch, positions: Positions) -> None:
        """Take rows that stand for the values at ``positions``."""
        if batch.num_rows:
            self._batches.append(batch)
            self._positions.append(positions)

    def rows(self) -> pa.RecordBatch | None:
        """All rows, in the order of their positions; None if there are none."""
        if len(self._batches) < 2:
            return self._batches[0] if self._batches else None
        batch, positions = pa.concat_batches(self._batches), np.concatenate(self._positions)
        if (positions[1:] < positions[:-1]).any():
            batch = batch.take(pa.array(np.argsort(positions)))
        return batch


class _Group:
    """Values of one message, with their positions in the array given to decode(), without a copy."""

    def __init__(self, values: pa.Array, positions: Positions, header_bytes: int) -> None:
        self.positions = positions
        self.header_bytes = header_bytes
        self._values = values
        _, offsets, data = values.buffers()
        kind = np.int64 if pa.types.is_large_binary(values.type) else np.int32
        found = np.zeros(1, np.int64)
        if len(values):
            width = np.dtype(kind).itemsize
            raw = np.frombuffer(offsets, kind, len(values) + 1, values.offset * width)
            found = raw.astype(np.int64)
        self._offsets = found
        self._buffer = pa.py_buffer(b"") if data is None else data
        self._data = memoryview(self._buffer)

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def size(self) -> int:
        """Bytes of all values."""
        return int(self._offsets[-1] - self._offsets[0])

    @property
    def lengths(self) -> Positions:
        """Bytes of each value."""
        return np.diff(self._offsets)

    def begins_with(self, header: bytes) -> Mask:
        """A mask of the values that have ``header`` behind their prefix."""
        starts = self._offsets[:-1] + PREFIX_BYTES
        found = self._offsets[1:] - starts >= len(header)
        data = np.frombuffer(self._data, np.uint8)
        for place, byte in enumerate(header):
            found[found] = data[starts[found] + place] == byte
        return found

    def chosen(self, indexes: Positions, header_bytes: int | None = None) -> _Group:
        """The values at ``indexes``, which ascend."""
        every = len(indexes) == len(self)
        values = self._values if every else self._values.take(pa.array(indexes))
        return _Group(values, self.positions[indexes], header_bytes or self.header_bytes)

    def part(self, start: int, stop: int) -> _Group:
        """The values from ``start`` to ``stop``."""
        values = self._values.slice(start, stop - start)
        return _Group(values, self.positions[start:stop], self.header_bytes)

    def array(self) -> pa.Array:
        """The values as a BinaryArray with offset 0; they must not have more than MAX_GROUP_BYTES."""
        begin = int(self._offsets[0])
        offsets = pa.py_buffer((self._offsets - begin).astype(np.int32))
        buffers = [None, offsets, self._buffer.slice(begin, self.size)]
        return pa.Array.from_buffers(pa.binary(), len(self), buffers)

    def body(self, index: int) -> bytes:
        """One value without prefix and message indexes."""
        start = self._offsets[index] + PREFIX_BYTES + self.header_bytes
        return bytes(self._data[start : self._offsets[index + 1]])
