"""Decodes the records of one schema with two engines, for all formats.

The fast engine takes a group of records or refuses it. The rows that it gives count, but for those of its
suspects; a group that it refuses is tried again without the records that are to blame, where these are known,
and in halves where they are not. Suspects, and what is left in small groups, go to the exact engine.

*Why this is exact.* A group leaves the list of work by one of three ways: its rows count, the exact engine
judges its records one by one, or it is cut into parts that hold each of its records once. So each record
becomes one row or one rejection, whatever the fast engine refuses or suspects: that costs time, never a row.

*Why it ends.* Each refusal makes the parts smaller, and is counted: after some, the exact engine does the
rest, for many scattered bad records would cost a call of the fast engine for each few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema

from tabletopic_kernel.formats.arrays import Bodies, Mask, Positions
from tabletopic_kernel.formats.rejection import NotRows, Refusal, Refused, UnsupportedError
from tabletopic_kernel.formats.types import arrow_schema_of
from tabletopic_kernel.formats.wire import PREFIX_BYTES
from tabletopic_kernel.model.dead_letter import NO_SCHEMA_ID

# Groups that the fast engine may refuse before the exact one does the rest, per call: at least this many, and
# one per so many records.
MIN_REFUSED_GROUPS: Final = 12
RECORDS_PER_REFUSED_GROUP: Final = 250
# Suspects that are more than this and half of their group: the fast engine saves little there.
MANY_SUSPECTS: Final = 500
# Then it may refuse so many times fewer groups.
FEWER_GROUPS: Final = 4
# Python values may take a few hundred times the bytes they were read from; this many become a batch at once.
EXACT_BATCH_BYTES: Final = 256 * 1024

R = TypeVar("R")


class Decoded(NamedTuple):
    """Rows and rejections, both in the order of the records."""

    rows: pa.RecordBatch
    refused: list[Refused]


class FastRows(NamedTuple):
    """A row for each record of a group, or none at all; the rows of ``suspects`` do not count."""

    batch: pa.RecordBatch
    suspects: Mask | None = None


class FastEngine(Protocol):
    """Reads a whole group of records, and vouches for each row that it gives."""

    min_records: int = 32  # of fewer, a call costs more than the exact engine
    max_records: int = 1 << 20  # read at once, and again where one of them is bad

    def rows(self, bodies: Bodies) -> FastRows:
        """A row for each record. Raises NotRows: a record is not what the schema says, or may not be."""

    def suspects(self, bodies: Bodies) -> Mask | None:
        """The records that may be why ``rows`` refused the group; None: unknown, or not worth finding out."""
        return None


class ExactEngine(Protocol[R]):
    """Reads one record at a time, and says what is wrong with it."""

    def row(self, body: bytes) -> R:
        """The values of one record. Raises Refusal."""

    def batch(self, rows: Sequence[R]) -> pa.RecordBatch:
        """Rows as a batch of the decoder's Arrow schema."""


E = TypeVar("E", bound=ExactEngine[Any])


class EngineDecoder(Generic[E]):
    """A decoder (see ``decoder``) of the records of one schema. Not for use by two threads at once.

    Args:
        iceberg_schema: of its rows.
        fast: makes the fast engine of the rows' Arrow schema; UnsupportedError says why it takes no record of
            this schema, and is kept in ``fast_refusal``.
        exact: makes the exact one.
    """

    def __init__(
        self,
        iceberg_schema: Schema,
        fast: Callable[[pa.Schema], FastEngine],
        exact: Callable[[pa.Schema], E],
    ) -> None:
        self.iceberg_schema = iceberg_schema
        self.arrow_schema: pa.Schema = arrow_schema_of(iceberg_schema)
        self.exact = exact(self.arrow_schema)
        self.fast: FastEngine | None = None
        self.fast_refusal: str | None = None
        try:
            self.fast = fast(self.arrow_schema)
        except UnsupportedError as error:
            self.fast_refusal = str(error)

    def decode(self, values: pa.Array) -> Decoded:
        """Rows in the order of ``values``, without those that are rejected.

        ``values``: BinaryArray or LargeBinaryArray without nulls, each value with its 5-byte prefix.
        """
        return self.decode_groups(Bodies(values, PREFIX_BYTES))

    def decode_groups(self, *groups: Bodies) -> Decoded:
        """What becomes of the records of ``groups``, in the order of their positions."""
        run = _Run(self.exact, sum(map(len, groups)))
        for bodies in groups:
            run.take(bodies, self.fast)
        return run.decoded()


class _Run:
    """One call's work."""

    def __init__(self, exact: ExactEngine[Any], count: int) -> None:
        self._exact = exact
        self._refusals_left = max(MIN_REFUSED_GROUPS, count // RECORDS_PER_REFUSED_GROUP)
        self._refused: list[Refused] = []
        self._batches: list[pa.RecordBatch] = []
        self._positions: list[Positions] = []  # of the batches' rows
        self._rows: list[Any] = []  # of the exact engine, not in a batch yet
        self._row_positions: list[int] = []
        self._row_bytes = 0

    def take(self, bodies: Bodies, fast: FastEngine | None) -> None:
        """Decode the records of ``bodies``."""
        short = bodies.lengths < 0
        if short.any():
            message = "the value is shorter than the prefix that names its schema"
            positions = bodies.positions[short].tolist()
            self._refused += [Refused(position, NO_SCHEMA_ID, message) for position in positions]
            bodies = bodies.take(np.flatnonzero(~short))
        size = fast.max_records if fast else max(1, len(bodies))
        todo = [(part, False) for part in reversed(bodies.parts(size))]
        while todo:
            group, is_filtered = todo.pop()
            if fast is None or self._refusals_left <= 0 or len(group) < fast.min_records:
                self._judge(group, range(len(group)))
                continue
            try:
                rows = fast.rows(group)
            except NotRows as refusal:
                self._refusals_left -= 1
                if refusal.row is not None and refusal.row < len(group):
                    todo += [(part, is_filtered) for part in self._around(group, refusal.row)]
                else:
                    todo += [(part, True) for part in self._parts(fast, group, is_filtered)]
            else:
                self._add(group, rows)

    def _around(self, group: Bodies, index: int) -> list[Bodies]:
        """The records behind and before one that is to blame, which is judged."""
        self._judge(group, (index,))
        return [group.part(index + 1, len(group)), group.part(0, index)]

    def _parts(self, fast: FastEngine, group: Bodies, is_filtered: bool) -> list[Bodies]:
        """What is to be tried of a group that is refused, last part first."""
        suspects = None if is_filtered else fast.suspects(group)
        if suspects is not None and suspects.any():
            self._judge(group, np.flatnonzero(suspects).tolist())
            return [group.take(np.flatnonzero(~suspects))]
        middle = len(group) // 2
        return [group.part(middle, len(group)), group.part(0, middle)]

    def _add(self, group: Bodies, rows: FastRows) -> None:
        suspects = rows.suspects
        if suspects is None or not suspects.any():
            self._keep(rows.batch, group.positions)
            return
        indexes = np.flatnonzero(suspects).tolist()
        if len(indexes) < len(group):
            self._keep(rows.batch.filter(pa.array(~suspects)), group.positions[~suspects])
        if len(indexes) > max(MANY_SUSPECTS, len(group) // 2):
            self._refusals_left //= FEWER_GROUPS
        self._judge(group, indexes)

    def _judge(self, group: Bodies, indexes: Iterable[int]) -> None:
        """Let the exact engine read records of a group."""
        for index in indexes:
            body, position = group.body(index), int(group.positions[index])
            try:
                row = self._exact.row(body)
            except Refusal as refusal:
                self._refused.append(Refused(position, refusal.reason, refusal.text()))
                continue
            self._rows.append(row)
            self._row_positions.append(position)
            self._row_bytes += len(body)
            if self._row_bytes > EXACT_BATCH_BYTES:
                self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._keep(self._exact.batch(self._rows), np.array(self._row_positions, np.int64))
        self._rows, self._row_positions, self._row_bytes = [], [], 0

    def _keep(self, batch: pa.RecordBatch, positions: Positions) -> None:
        self._batches.append(batch)
        self._positions.append(positions)

    def decoded(self) -> Decoded:
        """All that there is, in the order of the records."""
        self._flush()
        self._refused.sort(key=lambda refused: refused.index)
        if not self._batches:
            return Decoded(self._exact.batch([]), self._refused)
        if len(self._batches) == 1:
            rows, positions = self._batches[0], self._positions[0]
        else:
            rows, positions = pa.concat_batches(self._batches), np.concatenate(self._positions)
        if (positions[1:] < positions[:-1]).any():
            rows = rows.take(pa.array(np.argsort(positions)))
        return Decoded(rows, self._refused)
