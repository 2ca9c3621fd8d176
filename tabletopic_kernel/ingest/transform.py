"""The step between decode and conform: decoded rows become the value's columns of the table.

What it does to columns, without rows, is ``core/transform.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from tabletopic_kernel.core.evolution import VALUE
from tabletopic_kernel.core.transform import Transform
from tabletopic_kernel.ingest.letters import Positions
from tabletopic_kernel.ingest.verdicts import Refused


@dataclass(frozen=True)
class Rows:
    """Columns by name, and which of the rows given they are.

    ``kept`` are their indexes, ascending. The others are ``refused``, or ask for no row and are counted in
    ``passed_over``: together each row once.
    """

    columns: dict[str, pa.Array]
    kept: Positions
    refused: list[Refused] = field(default_factory=list)
    passed_over: Mapping[str, int] = field(default_factory=dict)


class Step(Protocol):
    """One transform."""

    def rows(self, batch: pa.RecordBatch, offsets: pa.Array) -> Rows:
        """What becomes of decoded rows; ``offsets``: of their records."""
        ...


def make_step(transform: Transform) -> Step:
    """The step of a transform."""
    return WholeValue() if transform == "none" else Flatten()


class Flatten:
    """Each field of the value is a column."""

    def rows(self, batch: pa.RecordBatch, offsets: pa.Array) -> Rows:
        """See ``Step``."""
        return Rows(dict(zip(batch.schema.names, batch.columns, strict=True)), every(len(batch)))


class WholeValue:
    """All fields are in one column."""

    def rows(self, batch: pa.RecordBatch, offsets: pa.Array) -> Rows:
        """See ``Step``."""
        if batch.schema.names == [VALUE]:  # a value that is no record is in that column already
            return Flatten().rows(batch, offsets)
        return Rows({VALUE: batch.to_struct_array()}, every(len(batch)))


def every(count: int) -> Positions:
    """The indexes of ``count`` rows."""
    return np.arange(count, dtype=np.int64)
