"""Rows of the dead-letter table, from refused records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa

from tabletopic_kernel.core.wire import SchemaKey
from tabletopic_kernel.ingest.conform import conform

Positions = np.ndarray[tuple[int], np.dtype[np.int64]]
# Ids are signed integers to registries. A larger one comes from a damaged record; its message has it.
_MAX_ID = 2**31 - 1


@dataclass(frozen=True)
class Refusals:
    """Records of a batch that cannot become rows: positions, and a reason and message for each or for all."""

    positions: Positions
    schema_id: SchemaKey | None
    reasons: Sequence[str] | str
    messages: Sequence[str] | str

    def __len__(self) -> int:
        return len(self.positions)

    def among(self, positions: Positions, schema_id: SchemaKey | None) -> Refusals:
        """Those of them that are at ``positions``, told with another schema id."""
        chosen = np.flatnonzero(np.isin(self.positions, positions))

        def picked(texts: Sequence[str] | str) -> Sequence[str] | str:
            return texts if isinstance(texts, str) else [texts[at] for at in chosen.tolist()]

        at = self.positions[chosen]
        return Refusals(at, schema_id, picked(self.reasons), picked(self.messages))

    @property
    def told_id(self) -> int | None:
        """The schema id as a letter tells it; None for a GUID, which the message names, and for none."""
        one = self.schema_id
        return one if isinstance(one, int) and 0 <= one <= _MAX_ID else None

    def reason(self, index: int) -> str:
        """Why record ``index`` (of these) is refused."""
        return self.reasons if isinstance(self.reasons, str) else self.reasons[index]

    def message(self, index: int) -> str:
        """What is wrong with record ``index`` (of these)."""
        return self.messages if isinstance(self.messages, str) else self.messages[index]


def letters_of(
    topic: str, batch: pa.RecordBatch, refused: Refusals, at: datetime, target: pa.Schema
) -> pa.RecordBatch:
    """The letters of ``refused``.

    Args:
        topic: where the records came from.
        batch: of the source's columns; ``headers`` may be missing.
        refused: positions in ``batch``.
        at: now, with a time zone.
        target: ``file_schema`` of the dead-letter table, see ``core/dead_letter.py``.
    """
    count = len(refused)
    source = batch if count == len(batch) else batch.take(pa.array(refused.positions))
    names = [name for name in source.schema.names if name in target.names]
    columns = {name: source.column(name) for name in names} | {
        "topic": pa.repeat(pa.scalar(topic, pa.large_string()), count),
        "schema_id": pa.repeat(pa.scalar(refused.told_id, pa.int32()), count),
        "reason": _texts(refused.reasons, count),
        "message": _texts(refused.messages, count),
        "at": pa.repeat(pa.scalar(at, pa.timestamp("us", "UTC")), count),
    }
    return conform(columns, count, target)


def _texts(texts: Sequence[str] | str, count: int) -> pa.Array:
    if isinstance(texts, str):
        return pa.repeat(pa.scalar(texts, pa.large_string()), count)
    return pa.array(texts, pa.large_string())
