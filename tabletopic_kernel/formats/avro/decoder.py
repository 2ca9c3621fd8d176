"""Decodes Confluent-framed Avro values of one schema id into Arrow rows.

Two engines (design: ``avro_fast``, ``avro_exact``). The fast one takes a whole group or refuses it; then
a walk over all records names the suspects (``avro_screen``), or the group is halved until they stand
alone, and the exact one judges those. Both give the same rows: a property-based test holds them
together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema

from tabletopic_kernel.formats.avro.exact import ExactEngine
from tabletopic_kernel.formats.avro.fast import FastEngine
from tabletopic_kernel.formats.avro.prefilter import Mask, Screen
from tabletopic_kernel.formats.avro.schema import parse
from tabletopic_kernel.formats.rejection import NotRows, Refusal, Refused, UnsupportedError
from tabletopic_kernel.formats.types import arrow_schema_of, iceberg_schema_of
from tabletopic_kernel.formats.wire import PREFIX_BYTES

# Below this a call of the fast engine (about 1 ms, whatever the size) costs more than the exact one.
MIN_FAST_RECORDS: Final = 48
# Below this, halving a group finds its bad records as soon as a walk over it does.
MIN_SCREENED_RECORDS: Final = 500
# Groups that the fast engine may refuse before the rest goes to the exact one, per call: at least this
# many, and one per so many records. Many scattered bad records would cost a call for each few of them.
MIN_REFUSED_GROUPS: Final = 12
RECORDS_PER_REFUSED_GROUP: Final = 250
# Python values may take a few hundred times the bytes they were read from; this many are held at once.
EXACT_BATCH_BYTES: Final = 256 * 1024

Offsets = np.ndarray[Any, np.dtype[np.int64]]


class AvroDecoder:
    """All records of one schema id. Not for use by two threads at once.

    Raises AvroSchemaError if the schema is not valid.
    """

    def __init__(self, schema_id: int, schema: str, references: Mapping[str, str] | None = None) -> None:
        parsed = parse(schema, references)
        self.iceberg_schema: Schema = iceberg_schema_of(parsed)
        self.arrow_schema: pa.Schema = arrow_schema_of(self.iceberg_schema)
        self.fast_refusal: str | None = None  # why the fast engine cannot take this schema at all
        self.schema_id = schema_id
        self._exact = ExactEngine(parsed, self.arrow_schema)
        self._screen = Screen(parsed)
        self._fast: FastEngine | None = None
        try:
            self._fast = FastEngine(parsed, self.arrow_schema)
        except UnsupportedError as error:
            self.fast_refusal = str(error)

    def decode(self, values: pa.Array) -> tuple[pa.RecordBatch, list[Refused]]:
        """Rows in the order of ``values``, without the refused ones, which have that order too.

        ``values``: BinaryArray or LargeBinaryArray without nulls, each value with its 5-byte prefix.
        """
        work = _Work(values)
        if self._fast is not None and work.is_framed() and len(values) >= MIN_SCREENED_RECORDS:
            try:
                return self._fast.decode(*work.group(0, len(values))), []
            except NotRows:
                suspects = self._screen.suspects(*work.bodies())
            if suspects is not None and suspects.any():
                return self._decode_sorted(values, suspects)
            return self._decode_halved(work, is_refused=True)
        return self._decode_halved(work)

    def _decode_sorted(self, values: pa.Array, suspects: Mask) -> tuple[pa.RecordBatch, list[Refused]]:
        """The fast engine takes what is not suspected, the exact one judges the rest."""
        good, odd = np.flatnonzero(~suspects), np.flatnonzero(suspects)
        rows, refused = self._decode_halved(_Work(values.take(pa.array(good))))
        refused = [Refused(int(good[bad.index]), bad.reason, bad.message) for bad in refused]
        judged: list[Refused] = []
        more = pa.Table.from_batches(list(self._decode_exactly(_Work(values), odd.tolist(), judged)))
        if len(more):
            gone = [bad.index for bad in (*refused, *judged)]
            places = np.concatenate([np.setdiff1d(good, gone), np.setdiff1d(odd, gone)])
            every = pa.concat_tables([pa.Table.from_batches([rows]), more])
            ordered = every.take(pa.array(np.argsort(places))).combine_chunks().to_batches()
            rows = pa.concat_batches(ordered)
        return rows, sorted(refused + judged, key=lambda bad: bad.index)

    def _decode_halved(
        self, work: _Work, *, is_refused: bool = False
    ) -> tuple[pa.RecordBatch, list[Refused]]:
        """A group that the fast engine refuses is halved until the offenders stand alone.

        ``is_refused``: it has refused the whole.
        """
        batches: list[pa.RecordBatch] = []
        refused: list[Refused] = []
        refusals_left = max(MIN_REFUSED_GROUPS, len(work) // RECORDS_PER_REFUSED_GROUP)
        fast = self._fast if work.is_framed() else None
        middle = len(work) // 2
        todo = [(middle, len(work)), (0, middle)] if is_refused else [(0, len(work))]
        while todo:
            start, stop = todo.pop()
            if fast is not None and refusals_left > 0 and stop - start >= MIN_FAST_RECORDS:
                try:
                    batches.append(fast.decode(*work.group(start, stop)))
                except NotRows:
                    refusals_left -= 1
                    middle = (start + stop) // 2
                    todo += [(middle, stop), (start, middle)]
            else:
                batches.extend(self._decode_exactly(work, range(start, stop), refused))
        filled = [batch for batch in batches if batch.num_rows] or batches[:1]
        return filled[0] if len(filled) == 1 else pa.concat_batches(filled), refused

    def _decode_exactly(
        self, work: _Work, indexes: Iterable[int], refused: list[Refused]
    ) -> Iterator[pa.RecordBatch]:
        rows: list[tuple[Any, ...]] = []
        held_bytes = 0
        for index in indexes:
            value = work.value(index)
            try:
                rows.append(self._exact.row(value, PREFIX_BYTES))
            except Refusal as refusal:
                refused.append(Refused(index, refusal.reason, refusal.text()))
                continue
            held_bytes += len(value)
            if held_bytes > EXACT_BATCH_BYTES:
                yield self._exact.batch(rows)
                rows, held_bytes = [], 0
        yield self._exact.batch(rows)


class _Work:
    """The values' bytes and offsets, without a copy."""

    def __init__(self, values: pa.Array) -> None:
        wide = pa.types.is_large_binary(values.type)
        _, offsets, data = values.buffers()
        kind = np.int64 if wide else np.int32
        found: Offsets = np.zeros(1, np.int64)
        if len(values):
            width = np.dtype(kind).itemsize
            raw = np.frombuffer(offsets, kind, len(values) + 1, values.offset * width)
            found = raw.astype(np.int64)
        self._offsets = found
        self._count = len(values)
        self._data = memoryview(data) if data is not None else memoryview(b"")

    def __len__(self) -> int:
        return self._count

    def bodies(self) -> tuple[np.ndarray[Any, np.dtype[np.uint8]], Offsets, Offsets]:
        """What Screen.suspects takes, of all values."""
        return np.frombuffer(self._data, np.uint8), self._offsets[:-1] + PREFIX_BYTES, self._offsets[1:]

    def is_framed(self) -> bool:
        """Whether every value is long enough for its prefix."""
        return bool((np.diff(self._offsets) >= PREFIX_BYTES).all())

    def group(self, start: int, stop: int) -> tuple[memoryview, Offsets]:
        """What FastEngine.decode takes, of the values ``start`` to ``stop``."""
        begin = int(self._offsets[start]) + PREFIX_BYTES
        return self._data[begin : self._offsets[stop]], self._offsets[start + 1 : stop + 1] - begin

    def value(self, index: int) -> bytes:
        """One value."""
        return bytes(self._data[self._offsets[index] : self._offsets[index + 1]])
