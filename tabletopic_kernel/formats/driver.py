"""Decodes the records of one schema with two engines, for all formats.

The fast engine decodes a group of records or refuses it. Its rows count, except for those of its suspects; a
refused group is retried without the records that are to blame, if these are known, or else in halves.
Suspects, and what remains in small groups, go to the exact engine.

*Why this is exact.* A group leaves the work list in one of three ways: its rows count, the exact engine
judges its records one by one, or it is cut into parts that have each of its records once. So each record
becomes one row or one rejection, whatever the fast engine refuses or suspects: that costs time, never a row.

*Why it ends.* Each refusal makes the parts smaller, and is counted: after some, the exact engine does the
rest, because scattered bad records would cost a call of the fast engine for every few records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema

from tabletopic_kernel.formats.arrays import Bodies, Mask, Positions, arrow_schema_of
from tabletopic_kernel.formats.rejection import NotRows, Refusal, Refused, UnsupportedError, halves, narrowed
from tabletopic_kernel.formats.wire import PREFIX_BYTES
from tabletopic_kernel.model.dead_letter import NO_SCHEMA_ID

# Groups that the fast engine may refuse per call before the exact one does the rest: at least this many, and
# one per this many records.
MIN_REFUSED_GROUPS: Final = 12
RECORDS_PER_REFUSED_GROUP: Final = 250
# With more suspects than this and than half of their group, the fast engine saves little.
MANY_SUSPECTS: Final = 500
# Then it may refuse fewer groups, by this factor.
FEWER_GROUPS: Final = 4
# Arrow's 32-bit offsets of texts and lists must fit the sum over a group. Larger groups are halved.
MAX_GROUP_BYTES: Final = 2**30
# Python values may take a few hundred times their encoded bytes; this many bytes become a batch at once.
EXACT_BATCH_BYTES: Final = 256 * 1024

R = TypeVar("R")
_Group = tuple[Bodies, bool]  # and whether suspects were already taken out of it


class Decoded(NamedTuple):
    """Rows and rejections, both in the order of the records."""

    rows: pa.RecordBatch
    refused: list[Refused]


class FastRows(NamedTuple):
    """A row for each record of a group, or none at all; the rows of ``suspects`` do not count."""

    batch: pa.RecordBatch
    suspects: Mask | None = None


class FastEngine(Protocol):
    """Reads a whole group of records, and vouches for each row that it returns."""

    min_records: int = 32  # for fewer, a call costs more than the exact engine
    max_records: int = 1 << 20  # read at once, and again if one of them is bad

    def rows(self, bodies: Bodies) -> FastRows:
        """A row for each record. Raises NotRows if a record does not match the schema, or may not."""

    def suspects(self, bodies: Bodies) -> Mask | None:
        """The records that may be why ``rows`` refused the group; None: unknown, or not worth the search."""
        return None


class ExactEngine(Protocol[R]):
    """Reads one record at a time, and names the error."""

    def row(self, body: bytes) -> R:
        """The values of one record. Raises Refusal."""

    def batch(self, rows: Sequence[R]) -> pa.RecordBatch:
        """Rows as a batch of the decoder's Arrow schema."""


E = TypeVar("E", bound=ExactEngine[Any])


class EngineDecoder(Generic[E]):
    """A decoder (see ``decoder``) of the records of one schema. For one thread at a time.

    ``fast`` and ``exact`` make the engines for the rows' Arrow schema; UnsupportedError says why the fast one
    cannot decode this schema, and is kept in ``fast_refusal``.
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
        """Rows in the order of ``values`` (binary, no nulls, each with its prefix), without rejected ones."""
        return self.decode_groups(Bodies(values, PREFIX_BYTES))

    def decode_groups(self, *groups: Bodies) -> Decoded:
        """Rows and rejections of the records of ``groups``, in the order of their positions."""
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
        short = bodies.lengths < 0
        if short.any():
            message = "the value is shorter than the prefix that names its schema"
            positions = bodies.positions[short].tolist()
            self._refused += [Refused(position, NO_SCHEMA_ID, message) for position in positions]
            bodies = bodies.take(np.flatnonzero(~short))
        if fast is None:
            self._judge(bodies, range(len(bodies)))
            return
        for part in bodies.parts(fast.max_records):
            narrowed(
                lambda group: self._try(fast, *group), (part, False), lambda g, e: self._smaller(fast, g, e)
            )

    def _try(self, fast: FastEngine, group: Bodies, _is_filtered: bool) -> None:
        if self._refusals_left <= 0 or len(group) < fast.min_records:
            self._judge(group, range(len(group)))
        elif group.size > MAX_GROUP_BYTES:
            raise NotRows("the group is larger than 32-bit offsets allow")
        else:
            self._add(group, fast.rows(group))

    def _smaller(self, fast: FastEngine, refused: _Group, refusal: BaseException) -> list[_Group]:
        """What to try instead of a refused group, which loses the records that are to blame, if known."""
        if not isinstance(refusal, NotRows):
            raise refusal
        group, is_filtered = refused
        self._refusals_left -= 1
        if refusal.row is not None and refusal.row < len(group):
            self._judge(group, (refusal.row,))
            rest = group.part(0, refusal.row), group.part(refusal.row + 1, len(group))
            return [(part, is_filtered) for part in rest]
        suspects = None if is_filtered else fast.suspects(group)
        if suspects is not None and suspects.any():
            self._judge(group, np.flatnonzero(suspects).tolist())
            return [(group.take(np.flatnonzero(~suspects)), True)]
        return [(group.part(half.start, half.stop), True) for half in halves(range(len(group)))]

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
