"""Keys: decoded according to ``key_format``, alongside the values of the same records.

Keys that name their schema are split, decoded and fitted like values. They become one column
(``_kafka_key``), or another one next to it if a schema does not fit that; a record whose key cannot be read
is refused with its value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tabletopic_kernel.formats.arrays import Positions, not_text
from tabletopic_kernel.formats.decoder import BadSchemaError, cached_decoder
from tabletopic_kernel.formats.wire import KEY_HEADER, SchemaKey
from tabletopic_kernel.model import dead_letter
from tabletopic_kernel.model.columns.evolution import KEY, VALUE
from tabletopic_kernel.pipeline.conform import conform, headers_of, part, rename
from tabletopic_kernel.pipeline.plan import KeyPlan, StagePlan
from tabletopic_kernel.pipeline.split_by_schema import Group, split
from tabletopic_kernel.pipeline.write import Refusals

_NOT_TEXT_MESSAGE = "the key is not UTF-8; enable the topic with the key format raw and another --table"
_NOBODY = Refusals(np.empty(0, np.int64), None, "", "")


@dataclass(frozen=True)
class KeyColumns:
    """Columns of a batch's keys by name, as long as the batch, and the records whose key is refused.

    ``needed``: schemas not looked up yet; then there are no columns. ``proved``: candidates with which a key
    was decoded; then the columns are incomplete.
    """

    columns: dict[str, pa.Array] = field(default_factory=dict)
    refused: Refusals = _NOBODY
    needed: frozenset[SchemaKey] = frozenset()
    proved: frozenset[SchemaKey] = frozenset()

    def at(self, positions: Positions, count: int) -> dict[str, pa.Array]:
        """The columns of the records at ``positions``, in this order, of the batch's ``count``."""
        if len(positions) == count:
            return self.columns
        return {name: array.take(pa.array(positions)) for name, array in self.columns.items()}


class KeyReader:
    """Reads the keys of batches; ``target`` is the table's ``file_schema``, None without a table."""

    def __init__(self, plan: StagePlan, target: pa.Schema | None) -> None:
        self._format = plan.settings.key_format
        self._plan = plan.keys
        self._target = target

    def read(self, batch: pa.RecordBatch) -> KeyColumns:
        """The decoded keys of a batch with the source's columns."""
        keys = batch.column("key")
        if self._format == "string":
            return KeyColumns(
                refused=Refusals(not_text(keys), None, dead_letter.KEY_NOT_TEXT, _NOT_TEXT_MESSAGE)
            )
        if self._plan is None or self._target is None or keys.null_count == len(keys):
            return KeyColumns()
        groups, unframed = split(keys, headers_of(batch), KEY_HEADER)
        return _Reading(self._plan, self._target, len(batch)).read(groups, unframed)


class _Reading:
    """The keys of one batch."""

    def __init__(self, plan: KeyPlan, target: pa.Schema, count: int) -> None:
        self._plan = plan
        self._target = target
        self._count = count
        self._parts: dict[str, list[tuple[Positions, pa.Array]]] = {}
        self._bad: list[tuple[int, str, str]] = []  # position, reason, message
        self._proved: set[SchemaKey] = set()

    def read(self, groups: list[Group], unframed: Refusals) -> KeyColumns:
        """See ``KeyReader.read``."""
        known = self._plan.schemas.keys() | self._plan.refused_schemas.keys() | self._plan.candidates.keys()
        named = {group.schema_id for group in groups if group.schema_id is not None}
        if needed := named - known:
            return KeyColumns(needed=frozenset(needed))
        self._refuse(unframed)
        for group in groups:
            if group.schema_id is not None:
                self._decode(group, group.schema_id)
        columns = {name: self._column(parts) for name, parts in self._parts.items()}
        proved = frozenset(self._proved)
        if not self._bad:
            return KeyColumns(columns, proved=proved)
        positions, reasons, messages = zip(*sorted(self._bad), strict=True)
        refused = Refusals(np.array(positions, np.int64), None, reasons, messages)
        return KeyColumns(columns, refused, proved=proved)

    def _refuse(self, refused: Refusals) -> None:
        self._bad += [
            (position, f"key_{refused.reason(at)}", f"of the key: {refused.message(at)}")
            for at, position in enumerate(refused.positions.tolist())
        ]

    def _decode(self, group: Group, schema_id: SchemaKey) -> None:
        positions = group.positions
        if schema_id in self._plan.refused_schemas:
            self._refuse(Refusals(positions, schema_id, *self._plan.refused_schemas[schema_id]))
            return
        is_candidate = schema_id in self._plan.candidates
        schema = (self._plan.candidates if is_candidate else self._plan.schemas)[schema_id]
        if fault := group.header_fault(schema.kind):
            self._refuse(Refusals(positions, schema_id, dead_letter.BAD_SCHEMA_HEADER, fault))
            return
        try:
            decoder = cached_decoder(schema_id, schema)
        except BadSchemaError as error:  # although the decoder could be built during planning
            self._refuse(Refusals(positions, schema_id, dead_letter.BAD_SCHEMA, str(error)))
            return
        rows, refused = decoder.decode(group.values)
        if refused:
            bad = [one.index for one in refused]
            why = ([one.reason for one in refused], [one.message for one in refused])
            self._refuse(Refusals(positions[bad], schema_id, *why))
            positions = np.delete(positions, bad)
        if is_candidate:
            if len(rows):
                self._proved.add(schema_id)
            return
        alone = rows.schema.names == [VALUE]  # a key that is not a record
        array = rows.column(0) if alone else rows.to_struct_array()
        ((name, named),) = rename({KEY: array}, dict(schema.renames)).items()
        self._parts.setdefault(name, []).extend(self._fitted(name, named, positions, schema_id))

    def _fitted(
        self, name: str, array: pa.Array, at: Positions, schema_id: SchemaKey
    ) -> Iterator[tuple[Positions, pa.Array]]:
        """The keys in the column's type; those that do not fit are refused."""
        column = pa.schema([self._target.field(name)])
        try:
            yield at, conform({name: array}, len(at), column).column(0)
        except pa.ArrowInvalid as error:
            if len(at) == 1:
                self._refuse(Refusals(at, schema_id, dead_letter.DOES_NOT_FIT, str(error)))
                return
            middle = len(at) // 2
            for start, stop in ((0, middle), (middle, len(at))):
                rows = part({name: array}, start, stop)[name]
                yield from self._fitted(name, rows, at[start:stop], schema_id)

    def _column(self, parts: list[tuple[Positions, pa.Array]]) -> pa.Array:
        """The parts in the order of the batch, with null for records in none."""
        positions = np.concatenate([at for at, _ in parts])
        if len(parts) == 1 and len(positions) == self._count:
            return parts[0][1]
        indices = np.full(self._count, -1, np.int64)
        indices[positions] = np.arange(len(positions))
        return pa.concat_arrays([array for _, array in parts]).take(pa.array(indices, mask=indices < 0))
