"""Decodes JSON values into Arrow rows: with a JSON Schema, or with the columns that a table has.

Two engines (design: ``json_fast``, ``json_exact``). The fast one takes a group and names the rows that it
does not vouch for, or stops at a record; the exact one judges those. Both give the same rows: a
property-based test holds them together. What becomes of which value: ``formats/json/schema/columns``,
``formats/json/infer``, ``formats/json/types``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema

from tabletopic_kernel.formats.json.exact import NOTHING, ExactEngine
from tabletopic_kernel.formats.json.fast import FastEngine
from tabletopic_kernel.formats.json.infer import Reserved, Shape, has_rest_column, value_struct, widened
from tabletopic_kernel.formats.json.records import Joined, Records
from tabletopic_kernel.formats.json.schema.columns import parse_json_schema
from tabletopic_kernel.formats.json.types import Struct, iceberg_schema
from tabletopic_kernel.formats.json.values import Rules
from tabletopic_kernel.formats.rejection import NotRows, Refusal, Refused, UnsupportedError
from tabletopic_kernel.formats.types import arrow_schema_of
from tabletopic_kernel.formats.wire import PREFIX_BYTES

# Below this a call of the fast engine (about 0.2 ms, whatever the size) costs more than the exact one.
MIN_FAST_RECORDS: Final = 16
# Groups that the fast engine may refuse before the rest goes to the exact one, per call: at least this
# many, and one per so many records. Many scattered bad records would cost a call for each few of them.
MIN_REFUSED_GROUPS: Final = 12
RECORDS_PER_REFUSED_GROUP: Final = 250
# Records given to the fast engine at once: what is read again because of a bad one is no more than these.
GROUP_RECORDS: Final = 8_192
# One suspect in so many rows of a group: the fast engine saves too little, and is asked less often.
SUSPECTS_WORTH_IT: Final = 4
# Python values may take a few hundred times the bytes they were read from; this many are held at once.
EXACT_BATCH_BYTES: Final = 1024 * 1024
# Records without columns that are looked at before the next are read with the columns found.
SAMPLE_RECORDS: Final = 1_000

Offsets = np.ndarray[Any, np.dtype[np.int64]]


class JsonSchemaDecoder:
    """All records of one JSON Schema, each with its 5-byte prefix. Not for use by two threads at once.

    ``nanos``: whether times finer than a microsecond are refused or cut. Raises JsonSchemaError if the schema
    is not valid.
    """

    def __init__(
        self,
        schema_id: int,
        schema: str,
        references: Mapping[str, str] | None = None,
        nanos: Literal["refuse", "floor"] = "refuse",
    ) -> None:
        parsed = parse_json_schema(schema, references)
        self.schema_id = schema_id
        self.iceberg_schema: Schema = parsed.iceberg_schema
        self.arrow_schema: pa.Schema = arrow_schema_of(self.iceberg_schema)
        rules = Rules(whole=parsed.whole, nullable=parsed.nullable, floor=nanos == "floor")
        self._engines = _Engines(parsed.root, self.arrow_schema, rules)

    def decode(self, values: pa.Array) -> tuple[pa.RecordBatch, list[Refused]]:
        """Rows in the order of ``values``, without the refused ones.

        ``values``: BinaryArray or LargeBinaryArray without nulls, each value with its 5-byte prefix.
        """
        run = _Run(Records(values, PREFIX_BYTES), self._engines)
        for start, stop in run:
            run.judge(range(start, stop))
        return run.rows(), run.refused


class JsonDecoder:
    """Records of JSON without a schema, for a table's columns. Not for use by two threads at once.

    ``known`` are the table's columns (its ``_kafka_*`` columns do no harm), none if there is no table.
    After ``decode``, ``needed`` has the columns that these records need, or is None if they have them all.
    ``reserved``: names that are no columns.
    """

    def __init__(self, known: Schema, reserved: Reserved | None = None) -> None:
        self._known = known
        self._reserved = reserved or {}
        self._columns = value_struct(known)
        self._rest = has_rest_column(known)
        self.iceberg_schema: Schema = iceberg_schema(self._columns, rest=self._rest)
        self.arrow_schema: pa.Schema = arrow_schema_of(self.iceberg_schema)
        self._engines = _Engines(self._columns, self.arrow_schema, Rules(lenient=True))
        self.needed: Schema | None = None

    def decode(self, values: pa.Array) -> tuple[pa.RecordBatch, list[Refused]]:
        """Rows in the order of ``values``, without the refused ones: those that are no JSON.

        ``values``: BinaryArray or LargeBinaryArray without nulls. If ``needed`` is not None afterwards
        the rows are none: the table must have those columns first, then the records are decoded again
        with a decoder of them.
        """
        self.needed = None
        self._wanted, self._wants_rest = self._columns, self._rest
        run = _Run(Records(values, 0), self._engines)
        for start, stop in run:
            middle = min(stop, start + SAMPLE_RECORDS)
            run.put_back(middle, stop)
            run.judge(range(start, middle))
            if len(run.leftovers) >= SAMPLE_RECORDS:
                self._want_more(run)
        if run.leftovers:
            self._want_more(run)
        if self.needed is not None:
            return self._engines.exact.batch([]), run.refused
        return run.rows(), run.refused

    def _want_more(self, run: _Run) -> None:
        """Widen the columns by what the run found none for, and go on with those."""
        leftovers = run.leftovers
        run.leftovers = []
        shape = Shape()
        for leftover in leftovers:
            shape.add(leftover)
        wider = widened(self._known, self._wanted, shape.struct(), self._reserved)
        if wider == self._wanted and self._wants_rest:
            return  # it has its place: in the rest
        engines = _Engines.of_columns(wider, rest=self._wants_rest)
        if not self._wants_rest and any(engines.exact.leaves_over(leftover) for leftover in leftovers):
            self._wants_rest = True
            engines = _Engines.of_columns(wider, rest=True)
        self._wanted = wider
        self.needed = iceberg_schema(wider, rest=self._wants_rest)
        run.go_on_with(engines)


class _Engines:
    """Both engines of one type."""

    def __init__(self, root: Struct, arrow_schema: pa.Schema, rules: Rules) -> None:
        self.exact = ExactEngine(root, arrow_schema, rules)
        self.fast: FastEngine | None = None
        self.fast_refusal: str | None = None  # why the fast engine cannot take this type at all
        try:
            self.fast = FastEngine(root, arrow_schema, rules)
        except UnsupportedError as error:
            self.fast_refusal = str(error)

    @classmethod
    def of_columns(cls, columns: Struct, *, rest: bool) -> _Engines:
        """Those of inferred columns."""
        schema = arrow_schema_of(iceberg_schema(columns, rest=rest))
        return cls(columns, schema, Rules(lenient=True))


class _Run:
    """One call's work: iterating it does what the fast engine can, and yields what it cannot."""

    def __init__(self, records: Records, engines: _Engines) -> None:
        self.refused: list[Refused] = []
        self.leftovers: list[Any] = []  # what has no column, of the records that have such
        self._records = records
        steps = range(0, len(records), GROUP_RECORDS)
        self._todo = [(start, min(start + GROUP_RECORDS, len(records))) for start in reversed(steps)]
        self.go_on_with(engines)

    def go_on_with(self, engines: _Engines) -> None:
        """Use other columns from here on. Rows of those before are of no use then."""
        self._engines = engines
        self._joined = engines.fast and engines.fast.join(self._records)
        self._groups_left = max(MIN_REFUSED_GROUPS, len(self._records) // RECORDS_PER_REFUSED_GROUP)
        self._batches: list[pa.RecordBatch] = []
        self._indexes: list[Offsets] = []  # of the batches' rows, in the array of values
        self._held: list[tuple[int, dict[str, Any]]] = []  # exact rows that are no batch yet
        self._held_bytes = 0

    def put_back(self, start: int, stop: int) -> None:
        """Do these records later."""
        if start < stop:
            self._todo.append((start, stop))

    def __iter__(self) -> Iterator[tuple[int, int]]:
        while self._todo:
            start, stop = self._todo.pop()
            fast, joined = self._engines.fast, self._joined
            if not fast or not joined or not self._groups_left or stop - start < MIN_FAST_RECORDS:
                yield start, stop
            else:
                yield from self._take(fast, joined, start, stop)

    def _take(self, fast: FastEngine, joined: Joined, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Give a group to the fast engine; what it refuses is done again in parts."""
        try:
            found = fast.decode(joined.part(start, stop))
        except NotRows as verdict:
            self._groups_left -= 1
            if verdict.row is not None and verdict.row < stop - start:
                bad = start + verdict.row
                self.put_back(bad + 1, stop)
                self.put_back(bad, bad + 1)
                self.put_back(start, bad)
            else:
                middle = (start + stop) // 2
                self.put_back(middle, stop)
                self.put_back(start, middle)
            return
        suspects, count = found.suspects, stop - start
        if len(suspects) * SUSPECTS_WORTH_IT > max(count, SAMPLE_RECORDS):
            self._groups_left //= SUSPECTS_WORTH_IT
            yield start, stop
            return
        good = np.delete(np.arange(count), suspects)
        self._batches.append(found.batch if not len(suspects) else found.batch.take(pa.array(good)))
        self._indexes.append(good + start)
        for index in suspects.tolist():
            self.put_back(start + index, start + index + 1)

    def judge(self, indexes: Iterable[int]) -> None:
        """Let the exact engine read records."""
        exact = self._engines.exact
        for index in indexes:
            value = self._records.value(index)
            try:
                row = exact.row(value)
            except Refusal as refusal:
                self.refused.append(Refused(index, refusal.reason, refusal.text()))
                continue
            if exact.leftover is not NOTHING:
                self.leftovers.append(exact.leftover)
            self._held.append((index, row))
            self._held_bytes += len(value)
            if self._held_bytes > EXACT_BATCH_BYTES:
                self._flush()

    def _flush(self) -> None:
        if self._held:
            self._batches.append(self._engines.exact.batch([row for _, row in self._held]))
            self._indexes.append(np.array([index for index, _ in self._held], np.int64))
        self._held, self._held_bytes = [], 0

    def rows(self) -> pa.RecordBatch:
        """All rows, in the order of the records."""
        self._flush()
        self.refused.sort(key=lambda one: one.index)
        if not self._batches:
            return self._engines.exact.batch([])
        rows = pa.concat_batches(self._batches) if len(self._batches) > 1 else self._batches[0]
        indexes = np.concatenate(self._indexes)
        return rows if _ascends(indexes) else rows.take(pa.array(np.argsort(indexes, kind="stable")))


def _ascends(indexes: Offsets) -> bool:
    return bool((np.diff(indexes) > 0).all())
