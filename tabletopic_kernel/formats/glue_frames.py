"""Values in the frame of AWS Glue's serializers, split by schema with array operations.

For the frame, see ``formats/wire.py``. The results have the prefix that decoders expect.
"""

from __future__ import annotations

import uuid
import zlib
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tabletopic_kernel.formats import wire
from tabletopic_kernel.formats.arrays import Positions
from tabletopic_kernel.model.errors import TooMuchAtOnceError

_HEADS = pa.array([bytes((wire.GLUE_MAGIC, code)) for code in (wire.GLUE_PLAIN, wire.GLUE_ZLIB)], pa.binary())
# Kafka's brokers accept 1 MB by default, but a few compressed bytes can expand to gigabytes.
_MOST_BYTES = 64 * 1024**2
_MOST_AT_ONCE = 2 * _MOST_BYTES  # several values together


@dataclass
class GlueFrames:
    """Positions and values by UUID; positions of damaged values with their errors; other positions."""

    groups: list[tuple[str, Positions, pa.Array]] = field(default_factory=list)
    damaged: list[tuple[int, str]] = field(default_factory=list)
    others: Positions = field(default_factory=lambda: np.empty(0, np.int64))


def split_glue(values: pa.Array, positions: Positions) -> GlueFrames:
    """Split the values at ``positions``, which are not null and not in Confluent's frame."""
    chosen = values.take(pa.array(positions))
    heads = pc.binary_slice(chosen, 0, wire.GLUE_BYTES)
    is_head = pc.is_in(pc.binary_slice(heads, 0, 2), value_set=_HEADS.cast(chosen.type))
    is_framed = pc.and_(is_head, pc.equal(pc.binary_length(heads), wire.GLUE_BYTES))
    framed = is_framed.to_numpy(zero_copy_only=False)
    frames, room = GlueFrames(others=positions[~framed]), _Room()
    encoded = heads.filter(is_framed).dictionary_encode()
    codes, indexes = encoded.indices.to_numpy(zero_copy_only=False), np.flatnonzero(framed)
    for code, head in enumerate(encoded.dictionary.to_pylist()):
        _add_group(frames, head, chosen, indexes[codes == code], positions, room)
    return frames


class _Room:
    """The bytes that uncompressed values may still take."""

    def __init__(self) -> None:
        self._values = self._bytes = 0

    def take(self, text: bytes) -> bytes:
        """The value, if it fits beside those before it; the first one does."""
        self._values, self._bytes = self._values + 1, self._bytes + len(text)
        if self._values > 1 and self._bytes > _MOST_AT_ONCE:
            raise TooMuchAtOnceError(
                f"{self._values} compressed values have more than {_MOST_AT_ONCE // 1024**2} MiB"
            )
        return text


def _add_group(
    frames: GlueFrames, head: bytes, chosen: pa.Array, indexes: Positions, positions: Positions, room: _Room
) -> None:
    # Value by value: Arrow 26 raises an error if a slice leaves nothing of a value.
    front, is_packed = wire.prefix(0), head[1] == wire.GLUE_ZLIB
    texts: list[bytes] = []
    intact: list[int] = []
    for index, value in enumerate(chosen.take(pa.array(indexes)).to_pylist()):
        body = value[wire.GLUE_BYTES :]
        try:
            texts.append(front + (room.take(_inflated(body)) if is_packed else body))
            intact.append(index)
        except (zlib.error, ValueError) as error:
            message = f"the value is not compressed as its frame says: {error}"
            frames.damaged.append((int(positions[indexes[index]]), message))
    if texts:
        guid = str(uuid.UUID(bytes=head[2:]))
        frames.groups.append((guid, positions[indexes[intact]], pa.array(texts, chosen.type)))


def _inflated(body: bytes) -> bytes:
    inflate = zlib.decompressobj()
    text = inflate.decompress(body, _MOST_BYTES)
    if not inflate.eof:
        raise ValueError(f"it ends too early, or has more than {_MOST_BYTES // 1024**2} MiB")
    return text
