"""Views of Arrow's arrays that every format needs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

# Where records are in a batch, ascending.
Positions = np.ndarray[tuple[int], np.dtype[np.int64]]


def not_text(values: pa.Array) -> Positions:
    """Positions of binary values that are not UTF-8; nulls are fine."""
    try:
        values.cast(pa.large_string())
    except pa.ArrowInvalid:
        return np.array([at for at, value in enumerate(values.to_pylist()) if not _is_text(value)], np.int64)
    return np.empty(0, np.int64)


def _is_text(value: bytes | None) -> bool:
    try:
        return value is None or value.decode() is not None
    except UnicodeDecodeError:
        return False
