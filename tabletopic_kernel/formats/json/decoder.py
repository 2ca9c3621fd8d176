"""Decodes JSON values into Arrow rows: with a JSON Schema, with a table's columns, or in Connect's envelope.

See ``driver`` for the method, and ``formats/json/schema.py``, ``formats/json/infer.py`` and
``formats/json/types.py`` for the mapping of values.

Kafka Connect's JsonConverter puts the schema into each record: ``{"schema":{…},"payload":{…}}`` becomes
``{…}``; any other record stays as it is. The converter writes the schema first and always the same, so most
records are cut where the first of them has its payload: the part before is read once, and the rest is the
payload if it is one JSON value, which the decoder proves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema

from tabletopic_kernel.formats.arrays import Bodies, Mask, Positions
from tabletopic_kernel.formats.driver import Decoded, EngineDecoder
from tabletopic_kernel.formats.json.exact import ExactEngine
from tabletopic_kernel.formats.json.fast import FastEngine
from tabletopic_kernel.formats.json.infer import Reserved, Shape, has_rest_column, value_struct, widened
from tabletopic_kernel.formats.json.schema import parse_json_schema
from tabletopic_kernel.formats.json.text import JsonTextError, json_text, parse
from tabletopic_kernel.formats.json.types import Struct, has_rest, iceberg_schema
from tabletopic_kernel.formats.json.values import Rules
from tabletopic_kernel.formats.rejection import Refused
from tabletopic_kernel.formats.wire import WriterSchema

# Records to infer columns from before the next ones are read with these columns.
SAMPLE_RECORDS: Final = 1_000


class TypeDecoder(EngineDecoder[ExactEngine]):
    """Records of one type; ``rest``: whether there is a column for what has no other."""

    def __init__(self, root: Struct, rules: Rules, *, rest: bool) -> None:
        super().__init__(
            iceberg_schema(root, rest=rest),
            partial(FastEngine, root, rules=rules),
            partial(ExactEngine, root, rules=rules),
        )


class JsonSchemaDecoder(TypeDecoder):
    """Records of one JSON Schema, each with its prefix; ``nanos``: what to do with finer times."""

    def __init__(
        self,
        schema: str,
        references: Mapping[str, str] | None = None,
        nanos: Literal["refuse", "floor"] = "refuse",
    ) -> None:
        parsed = parse_json_schema(schema, references)
        rules = Rules(whole=parsed.whole, nullable=parsed.nullable, floor=nanos == "floor")
        super().__init__(parsed.root, rules, rest=has_rest(parsed.root))


_LENIENT: Final = Rules(lenient=True)


class JsonDecoder(TypeDecoder):
    """Records of JSON without a schema, for a table's columns. For one thread at a time.

    ``known`` are the table's columns (its ``_kafka_*`` columns do not matter), none without a table. After
    ``decode``, ``needed`` has the columns that these records need, or is None if all exist. ``reserved``:
    names that become no columns.
    """

    def __init__(self, known: Schema, reserved: Reserved | None = None) -> None:
        self._known = known
        self._reserved = reserved or {}
        self._columns = value_struct(known)
        self._rest = has_rest_column(known)
        super().__init__(self._columns, _LENIENT, rest=self._rest)
        self.needed: Schema | None = None

    def decode(self, values: pa.Array) -> Decoded:
        """Rows in the order of ``values``, without the refused ones: those that are not JSON.

        ``values``: BinaryArray or LargeBinaryArray without nulls. If ``needed`` is not None afterwards, there
        are no rows: the table must first get those columns, and a decoder for them decodes the records again.
        """
        needs = _Needs(self._known, self._columns, self._rest, self)
        done: list[Decoded] = []
        refused: list[Refused] = []
        bodies = Bodies(values)
        sample = min(SAMPLE_RECORDS, len(bodies))
        others = bodies.part(sample, len(bodies)).parts(FastEngine.max_records)
        for part in (bodies.part(0, sample), *others):
            done.append(needs.decoder.decode_groups(part))
            refused += done[-1].refused
            needs.learn(self._reserved)
        self.needed = needs.needed
        if self.needed is not None:
            return Decoded(self.exact.batch([]), refused)
        rows = [part.rows for part in done]
        return Decoded(rows[0] if len(rows) == 1 else pa.concat_batches(rows), refused)


class _Needs:
    """The columns that the records decoded so far need; ``decoder`` has these columns."""

    def __init__(self, known: Schema, columns: Struct, rest: bool, decoder: TypeDecoder) -> None:
        self.decoder = decoder
        decoder.exact.leftovers.clear()  # left by a call that raised an exception
        self.needed: Schema | None = None  # what the table must have first
        self._known = known
        self._columns = columns
        self._rest = rest

    def learn(self, reserved: Reserved) -> None:
        """Widen the columns by those that the exact engine found missing."""
        leftovers, self.decoder.exact.leftovers = self.decoder.exact.leftovers, []
        if not leftovers:
            return
        shape = Shape()
        for leftover in leftovers:
            shape.add(leftover)
        wider = widened(self._known, self._columns, shape.struct(), reserved)
        if wider == self._columns and self._rest:
            return  # the rest column has the leftovers
        self.decoder = TypeDecoder(wider, _LENIENT, rest=self._rest)
        if not self._rest and any(self.decoder.exact.leaves_over(leftover) for leftover in leftovers):
            self._rest = True
            self.decoder = TypeDecoder(wider, _LENIENT, rest=True)
        self._columns = wider
        self.needed = iceberg_schema(wider, rest=self._rest)


def make(schema: WriterSchema) -> JsonSchemaDecoder:
    return JsonSchemaDecoder(schema.text, dict(schema.references), schema.nanos)


_BEGINS: Final = rb'^\s*\{\s*"(schema|payload)"\s*:'
_JOINT: Final = b',"payload":'
_SPACED_JOINT: Final = re.compile(rb',\s*"payload"\s*:\s*')
_SPACE: Final = b" \t\r\n"
# At most this many schemas cut a group of records; records of further schemas are read one by one.
_MAX_HEADS: Final = 16


class PayloadDecoder:
    """A decoder of JSON without a schema id, for records that may contain a schema of Connect's."""

    def __init__(self, columns: Schema, reserved: Reserved | None = None) -> None:
        self._inner = JsonDecoder(columns, reserved)
        self.iceberg_schema = self._inner.iceberg_schema
        self.arrow_schema = self._inner.arrow_schema
        self.needed: Schema | None = None

    def decode(self, values: pa.Array) -> Decoded:
        parts = payloads(values)
        decoded = self._inner.decode(parts)
        # If properties follow a record's payload, its part is not JSON, but the record may be.
        if whole := [bad.index for bad in decoded.refused if has_more(values[bad.index].as_py())]:
            mask = np.zeros(len(values), np.bool_)
            mask[whole] = True
            decoded = self._inner.decode(pc.if_else(pa.array(mask), values, parts))
        self.needed = self._inner.needed
        return decoded


def payloads(values: pa.Array) -> pa.Array:
    """Each record's payload, or the record if it has none; binary, without nulls, like ``values``."""
    enveloped = pc.match_substring_regex(values, _BEGINS).to_numpy(zero_copy_only=False)
    if not enveloped.any():
        return values
    _, positions, parts = zip(*enveloped_parts(values, enveloped), strict=True)
    return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(positions))))


def enveloped_parts(values: pa.Array, enveloped: Mask) -> Iterator[tuple[bytes | None, Positions, pa.Array]]:
    """Positions and payloads of records with the same bytes before it, and these bytes.

    ``enveloped``: which records to look into. The bytes are None for those without a payload, and may come
    again. At most ``_MAX_HEADS`` layouts are cut by array operations, the records of further ones one by one.
    """
    if len(plain := np.flatnonzero(~enveloped)):
        yield None, plain, values.take(pa.array(plain))
    remaining, odd = np.flatnonzero(enveloped), list[int]()
    for _ in range(_MAX_HEADS):
        if not len(remaining):
            break
        rest = values.take(pa.array(remaining))
        if (ends := _ends(rest[0].as_py())) is None:
            odd.append(int(remaining[0]))
            remaining = remaining[1:]
            continue
        head, tail = ends
        cut = pc.and_(pc.starts_with(rest, head), pc.ends_with(rest, tail))
        is_cut = cut.to_numpy(zero_copy_only=False)
        yield head, remaining[is_cut], pc.binary_slice(rest.filter(cut), len(head), -len(tail))
        remaining = remaining[~is_cut]
    others: dict[bytes | None, list[tuple[int, bytes]]] = {}
    for position in [*odd, *remaining.tolist()]:
        start, payload = _payload(values[position].as_py())
        others.setdefault(start, []).append((position, payload))
    for start, members in others.items():
        positions, parts = zip(*members, strict=True)
        yield start, np.array(positions), pa.array(parts, values.type)


def _ends(record: bytes) -> tuple[bytes, bytes] | None:
    """The part before the payload, and the one behind it; None if that is not obvious."""
    last = len(record.rstrip(_SPACE)) - 1
    joint = _SPACED_JOINT.search(record)
    if joint is None or record[last : last + 1] != b"}":
        return None
    head = record[: joint.end()]
    return (head, record[last:]) if _is_head(head) else None


@lru_cache(maxsize=256)
def _is_head(head: bytes) -> bool:
    try:
        value = parse(head + b"null}")
    except JsonTextError:  # the joint was inside of the schema
        return False
    return isinstance(value, dict) and value.keys() == {"schema", "payload"} and value["payload"] is None


def has_more(record: bytes) -> bool:
    """Whether a record is an object with properties beside its schema and payload."""
    try:
        value = parse(record)
    except JsonTextError:
        return False
    return isinstance(value, dict) and not value.keys() <= {"schema", "payload"}


def _payload(record: bytes) -> tuple[bytes | None, bytes]:
    """The part before the payload, and the payload, whatever the record's layout; None: it has none."""
    if (ends := _ends(record)) is not None:
        return ends[0], record[len(ends[0]) : -len(ends[1])]
    try:
        value = parse(record)
    except JsonTextError:  # the decoder says why
        return None, record
    if isinstance(value, dict) and "payload" in value and value.keys() <= {"schema", "payload"}:
        head = f'{{"schema":{json_text(value.get("schema"))}{_JOINT.decode()}'
        return head.encode(), json_text(value["payload"]).encode()
    return None, record
