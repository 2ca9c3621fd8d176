"""Splits a batch by schema id, with array operations.

For where a record names its schema, see ``formats/wire.py``. The last header of the name counts, as in
Confluent's own reader; a header without a value does not. A header takes precedence over a prefix: the value
is then only the body, whatever it begins with; and no prefix makes up for a header that names no schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tabletopic_kernel.formats import connect, wire
from tabletopic_kernel.formats.arrays import Bodies, Mask, Positions, valid
from tabletopic_kernel.formats.glue_frames import split_glue
from tabletopic_kernel.formats.json.decoder import has_more
from tabletopic_kernel.formats.protobuf.schema.message_indexes import read_header
from tabletopic_kernel.model.dead_letter import BAD_SCHEMA_HEADER, NO_SCHEMA_ID
from tabletopic_kernel.pipeline.plan import WHOLE_TOPIC, SchemaPlan
from tabletopic_kernel.pipeline.sinks import Rejections

NO_REJECTIONS: Final = Rejections(np.empty(0, np.int64), None, "", "")


@dataclass(frozen=True)
class Group:
    """The records of one schema: their positions in the batch and their values, in order.

    ``schema_id`` None is for records without a value (tombstones). ``values`` begin with a prefix; if a
    header named the schema, the prefix was added, and ``indexes`` has what followed the id in the header. A
    prefix was also added for AWS Glue's frame, ``is_glue``.
    """

    schema_id: wire.SchemaKey | None
    positions: Positions
    values: pa.Array
    indexes: bytes | None = None
    is_glue: bool = False

    def __len__(self) -> int:
        return len(self.positions)

    def part(self, start: int, stop: int) -> Group:
        """These records from ``start`` to ``stop``."""
        if stop - start == len(self):
            return self
        values = self.values.slice(start, stop - start)
        return replace(self, positions=self.positions[start:stop], values=values)

    def only(self, chosen: Mask) -> Group:
        """Those of these records that ``chosen`` selects."""
        return replace(self, positions=self.positions[chosen], values=self.values.filter(pa.array(chosen)))

    def header_fault(self, kind: str) -> str | None:
        """Why the header does not match a schema of this kind (``WriterSchema.kind``); None: it does."""
        if self.is_glue and kind == "PROTOBUF":
            return "Protobuf in AWS Glue's frame is not supported: its message indexes differ"
        if self.indexes is None:
            return None
        if kind != "PROTOBUF":
            return "the header with the schema id is too long" if self.indexes else None
        try:
            _, end = read_header(self.indexes)
        except ValueError:
            return "the header with the schema id ends, or is damaged, within the message indexes"
        return None if end == len(self.indexes) else "the header with the schema id is too long"


def schema_fault(group: Group, plan: SchemaPlan) -> Rejections | None:
    """Why no record of a group can be decoded; None: some may."""
    schema_id = group.schema_id
    if schema_id is None:
        return None
    if schema_id in plan.refused:
        return Rejections(group.positions, schema_id, *plan.refused[schema_id])
    fault = group.header_fault(plan.schema(schema_id).kind)
    return Rejections(group.positions, schema_id, BAD_SCHEMA_HEADER, fault) if fault else None


def split(
    values: pa.Array, headers: pa.Array | None = None, header: str = wire.VALUE_HEADER
) -> tuple[list[Group], list[Rejections]]:
    """Group the values of a batch, or its keys, by schema, tombstones first, then by ascending id.

    ``header`` may have the schema id. The positions of the groups, and of the records that name no schema,
    are together 0 to n-1, each once.
    """
    named_headers = None if headers is None else _last_headers(headers, header)
    if named_headers is None:
        return _split_by_prefix(values, np.arange(len(values), dtype=np.int64))
    rows, texts = named_headers
    valued = valid(values)[rows]
    rows, texts = rows[valued], texts.filter(pa.array(valued))
    others = np.ones(len(values), dtype=bool)
    others[rows] = False
    rest = np.flatnonzero(others)
    groups, rejections = _split_by_prefix(values.take(pa.array(rest)), rest)
    for positions, text in _by_text(rows, texts):
        try:
            schema, indexes = wire.read_schema_header(text)
        except ValueError as error:
            message = f"the header {header} {error}"
            rejections.append(Rejections(positions, None, BAD_SCHEMA_HEADER, message))
            continue
        front = wire.prefix(schema if isinstance(schema, int) else 0) + indexes
        chosen = values.take(pa.array(positions))
        joined = pc.binary_join_element_wise(
            pa.scalar(front, values.type), chosen, pa.scalar(b"", values.type)
        )
        groups.append(Group(schema, positions, joined, indexes))
    return groups, rejections


def unsplit(values: pa.Array) -> tuple[list[Group], list[Rejections]]:
    """The values of a topic whose records name no schema: all non-null ones are one group."""
    positions = np.arange(len(values), dtype=np.int64)
    present = valid(values)
    if not len(values) or present.all():
        return [Group(WHOLE_TOPIC, positions, values)] if len(values) else [], []
    without_value, with_value = positions[~present], positions[present]
    groups = [Group(None, without_value, values.take(pa.array(without_value)))]
    if len(with_value):
        groups.append(Group(WHOLE_TOPIC, with_value, values.take(pa.array(with_value))))
    return groups, []


def split_connect(values: pa.Array) -> tuple[list[Group], dict[wire.SchemaKey, str]]:
    """Group JSON by the schema of Kafka Connect in each record; and the text of each schema.

    Records without one are a group as of ``unsplit``. Other groups have the payloads.
    """
    groups, _ = unsplit(values)
    texts: dict[wire.SchemaKey, str] = {}
    if not groups or groups[-1].schema_id is None:
        return groups, texts
    whole = groups.pop()
    for key, text, indexes, payloads in connect.split_connect(whole.values):
        positions = whole.positions[indexes]
        if key is None:
            groups.append(Group(WHOLE_TOPIC, positions, payloads))
        else:
            groups.append(Group(key, positions, payloads))
            texts[key] = text
    return groups, texts


def given_back(refused: Rejections, values: pa.Array) -> tuple[Rejections, Group | None]:
    """What stays refused, and, as a group, those of a batch's ``values`` that have more than a payload."""
    if not str(refused.schema_id).startswith(wire.CONNECT_KEY):
        return refused, None
    at = [
        position
        for index, position in enumerate(refused.positions.tolist())
        if refused.reason(index) == "json_syntax" and has_more(values[position].as_py())
    ]
    if not at:
        return refused, None
    rest = refused.among(np.setdiff1d(refused.positions, at), refused.schema_id)
    return rest, Group(WHOLE_TOPIC, np.array(at), values.take(pa.array(at)))


def split_keys(
    keys: pa.Array, headers: pa.Array | None, *, reads_connect: bool
) -> tuple[list[Group], list[Rejections], dict[wire.SchemaKey, str]]:
    """As ``split`` for keys; and, if wanted, as ``split_connect`` for those with a schema in them."""
    if not reads_connect:
        return *split(keys, headers, wire.KEY_HEADER), {}
    rejections = list[Rejections]()
    parts, texts = split_connect(keys)
    groups = [part for part in parts if part.schema_id != WHOLE_TOPIC]
    for part in parts:
        if part.schema_id == WHOLE_TOPIC:
            named = headers if headers is None else headers.take(pa.array(part.positions))
            inner, bad = split(part.values, named, wire.KEY_HEADER)
            groups += [replace(group, positions=part.positions[group.positions]) for group in inner]
            rejections += [replace(faults, positions=part.positions[faults.positions]) for faults in bad]
    return groups, rejections, texts


def rejections_of_keys(rejections: list[Rejections]) -> Rejections:
    """All rejections as one, in the order of the batch, in words that name the key."""
    bad = sorted(
        (position, f"key_{refused.reason(index)}", f"of the key: {refused.message(index)}")
        for refused in rejections
        for index, position in enumerate(refused.positions.tolist())
    )
    if not bad:
        return NO_REJECTIONS
    positions, reasons, messages = zip(*bad, strict=True)
    return Rejections(np.array(positions, np.int64), None, reasons, messages)


def _split_by_prefix(values: pa.Array, positions: Positions) -> tuple[list[Group], list[Rejections]]:
    """Group values by the schema id in front; ``positions`` are the values' in the batch."""
    count = len(values)
    if count == 0:
        return [], []
    bodies = Bodies(values)  # a null has no bytes there
    starts, data, present = bodies.offsets[:-1], bodies.data, valid(values)
    framed: Mask = present & (bodies.lengths >= wire.PREFIX_BYTES)
    if len(data):
        framed &= data[np.where(framed, starts, 0)] == wire.MAGIC
    ids = _ids(data, starts[framed])
    if framed.all() and (ids == ids[0]).all():
        return [Group(int(ids[0]), positions, values)], []
    groups = []
    if not present.all():
        absent = np.flatnonzero(~present)
        groups.append(Group(None, positions[absent], values.take(pa.array(absent))))
    with_id = np.flatnonzero(framed)
    for chosen, first in _runs(ids):
        indexes = with_id[chosen]
        groups.append(Group(int(ids[first]), positions[indexes], values.take(pa.array(indexes))))
    unframed = np.flatnonzero(present & ~framed)
    if not len(unframed):
        return groups, []
    glue = split_glue(values, unframed)
    groups += [Group(guid, positions[indexes], bodies, is_glue=True) for guid, indexes, bodies in glue.groups]
    rejections = []
    if len(glue.others):
        reasons = [_explain(values[index].as_py()) for index in glue.others.tolist()]
        rejections.append(Rejections(positions[glue.others], None, NO_SCHEMA_ID, reasons))
    if glue.damaged:
        broken, messages = zip(*glue.damaged, strict=True)
        rejections.append(Rejections(positions[list(broken)], None, BAD_SCHEMA_HEADER, messages))
    return groups, rejections


def _last_headers(headers: pa.Array, name: str) -> tuple[Positions, pa.Array] | None:
    """Positions of the records that have a header of this name, and its values; None if none has."""
    if headers.null_count == len(headers):
        return None
    entries = headers.flatten()
    keys = entries.field(0)
    indexes = np.flatnonzero(pc.equal(keys, pa.scalar(name, keys.type)).to_numpy(zero_copy_only=False))
    if not len(indexes):
        return None
    rows = pc.list_parent_indices(headers).to_numpy(zero_copy_only=False)[indexes].astype(np.int64)
    last = np.append(rows[1:] != rows[:-1], True)
    texts = entries.field(1).take(pa.array(indexes[last]))
    valued = texts.is_valid()
    return rows[last][valued.to_numpy(zero_copy_only=False)], texts.filter(valued)


def _by_text(rows: Positions, texts: pa.Array) -> Iterator[tuple[Positions, bytes]]:
    """Records grouped by equal header, and the header: there are few different ones."""
    encoded = texts.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    for chosen, first in _runs(codes):
        yield rows[chosen], encoded.dictionary[codes[first].item()].as_py()


def _runs(codes: np.ndarray) -> Iterator[tuple[Positions, int]]:
    """The positions of each distinct code, in order, and its first position; by ascending code."""
    if not len(codes):
        return
    order = np.argsort(codes, kind="stable")
    edges = np.flatnonzero(np.diff(codes[order])) + 1
    for chosen in np.split(order, edges):
        yield chosen, int(chosen[0])


def _ids(data: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The schema ids after the magic bytes: 4 bytes, big-endian."""
    ids = np.zeros(len(starts), dtype=np.int64)
    for index in range(1, wire.PREFIX_BYTES):
        ids = (ids << 8) | data[starts + index]
    return ids


def _explain(value: bytes) -> str:
    if len(value) < wire.PREFIX_BYTES:
        return f"the value has {len(value)} bytes, too few for a schema id; was it written by a serializer?"
    return f"the value begins with byte {value[0]}, not with the magic byte 0 of a schema id"
