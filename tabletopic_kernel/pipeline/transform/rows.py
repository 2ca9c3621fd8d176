"""What a transform gives: columns, and what became of the rows that are not in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tabletopic_kernel.formats.arrays import Positions
from tabletopic_kernel.formats.rejection import Refused


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


def every(count: int) -> Positions:
    """The indexes of ``count`` rows."""
    return np.arange(count, dtype=np.int64)
