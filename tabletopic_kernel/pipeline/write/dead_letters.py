"""Rows of the dead-letter table, from refused records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa

from tabletopic_kernel.formats.arrays import Positions
from tabletopic_kernel.formats.wire import SchemaKey
from tabletopic_kernel.pipeline.conform import conform

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
    def known_id(self) -> int | None:
        """The schema id as a letter tells it; None for a GUID, which the message names, and for none."""
        one = self.schema_id
        return one if isinstance(one, int) and 0 <= one <= _MAX_ID else None

    def reason(self, index: int) -> str:
        """Why record ``index`` (of these) is refused."""
        return self.reasons if isinstance(self.reasons, str) else self.reasons[index]

    def message(self, index: int) -> str:
        """What is wrong with record ``index`` (of these)."""
        return self.messages if isinstance(self.messages, str) else self.messages[index]


def dead_letters_of(
    topic: str, batch: pa.RecordBatch, refused: Sequence[Refusals], at: datetime, target: pa.Schema
) -> pa.RecordBatch:
    """The letters of all ``refused``: where ids are garbage there are as many of these as records.

    Args:
        topic: where the records came from.
        batch: of the source's columns; ``headers`` may be missing.
        refused: positions in ``batch``.
        at: now, with a time zone.
        target: ``file_schema`` of the dead-letter table, see ``model/dead_letter.py``.
    """
    count = sum(len(one) for one in refused)
    source = batch
    if len(refused) > 1 or count < len(batch):
        source = batch.take(pa.array(np.concatenate([one.positions for one in refused])))
    names = [name for name in source.schema.names if name in target.names]
    columns = {name: source.column(name) for name in names} | {
        "topic": pa.repeat(pa.scalar(topic, pa.large_string()), count),
        "schema_id": pa.array([one.known_id for one in refused for _ in range(len(one))], pa.int32()),
        "reason": _texts(refused, lambda one: one.reasons),
        "message": _texts(refused, lambda one: one.messages),
        "at": pa.repeat(pa.scalar(at, pa.timestamp("us", "UTC")), count),
    }
    return conform(columns, count, target)


def _texts(refused: Sequence[Refusals], texts_of: Callable[[Refusals], Sequence[str] | str]) -> pa.Array:
    found: list[str] = []
    for one in refused:
        texts = texts_of(one)
        found += [texts] * len(one) if isinstance(texts, str) else texts
    # A message may quote a record, and Python's text may hold what UTF-8 cannot.
    return pa.array([text.encode("utf-8", "replace") for text in found], pa.large_binary()).cast(
        pa.large_string()
    )
