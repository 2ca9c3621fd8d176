"""Split a batch by schema id, with array operations.

Source: Confluent wire format, see ``core/wire.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tabletopic_kernel.core import wire
from tabletopic_kernel.core.dead_letter import NO_SCHEMA_ID
from tabletopic_kernel.ingest.letters import Positions, Refusals
from tabletopic_kernel.ingest.plan import WHOLE_TOPIC


@dataclass(frozen=True)
class Group:
    """The records of one schema id: their positions in the batch and their values, in order.

    ``schema_id`` None holds records without a value (tombstones).
    """

    schema_id: int | None
    positions: Positions
    values: pa.Array


def split(values: pa.Array) -> tuple[list[Group], Refusals]:
    """Group the values of a batch by schema id.

    Args:
        values: binary or large_binary, length n.

    Returns:
        Groups by ascending id (tombstones first) and the records that have no frame; together their
        positions are 0 to n-1, each once.
    """
    count = len(values)
    positions = np.arange(count, dtype=np.int64)
    if count == 0:
        return [], _unframed(values, positions)
    starts, lengths, data = _layout(values)
    present = (
        np.ones(count, dtype=bool)
        if values.null_count == 0
        else values.is_valid().to_numpy(zero_copy_only=False)
    )
    framed = present & (lengths >= wire.PREFIX_BYTES)
    if len(data):
        framed &= data[np.where(framed, starts, 0)] == wire.MAGIC
    ids = _ids(data, starts[framed])
    if framed.all() and (ids == ids[0]).all():
        return [Group(int(ids[0]), positions, values)], _unframed(values, positions[:0])
    groups = []
    if not present.all():
        absent = positions[~present]
        groups.append(Group(None, absent, values.take(pa.array(absent))))
    framed_positions = positions[framed]
    for schema_id in np.unique(ids):
        chosen = framed_positions[ids == schema_id]
        groups.append(Group(int(schema_id), chosen, values.take(pa.array(chosen))))
    return groups, _unframed(values, positions[present & ~framed])


def unsplit(values: pa.Array) -> tuple[list[Group], Refusals]:
    """The values of a topic whose records name no schema: those that are there are one group."""
    positions = np.arange(len(values), dtype=np.int64)
    present = values.is_valid().to_numpy(zero_copy_only=False)
    nobody = _unframed(values, positions[:0])
    if not len(values) or present.all():
        return [Group(WHOLE_TOPIC, positions, values)] if len(values) else [], nobody
    absent, there = positions[~present], positions[present]
    groups = [Group(None, absent, values.take(pa.array(absent)))]
    if len(there):
        groups.append(Group(WHOLE_TOPIC, there, values.take(pa.array(there))))
    return groups, nobody


def _unframed(values: pa.Array, positions: Positions) -> Refusals:
    """Records whose value does not begin with a schema id."""
    messages = [_explain(values[at].as_py()) for at in positions.tolist()]
    return Refusals(positions, None, NO_SCHEMA_ID, messages)


def _layout(values: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Start, length and bytes of every value, as views of the array's buffers."""
    wide = pa.types.is_large_binary(values.type)
    _, offsets_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int64 if wide else np.int32)
    offsets = offsets[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(data_buffer, dtype=np.uint8) if data_buffer else np.empty(0, dtype=np.uint8)
    return offsets[:-1], np.diff(offsets), data


def _ids(data: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The schema ids behind the magic bytes: 4 bytes, big-endian."""
    ids = np.zeros(len(starts), dtype=np.int64)
    for place in range(1, wire.PREFIX_BYTES):
        ids = (ids << 8) | data[starts + place]
    return ids


def _explain(value: bytes) -> str:
    if len(value) < wire.PREFIX_BYTES:
        return f"the value has {len(value)} bytes, too few for a schema id; was it written by a serializer?"
    return f"the value begins with byte {value[0]}, not with the magic byte 0 of a schema id"
