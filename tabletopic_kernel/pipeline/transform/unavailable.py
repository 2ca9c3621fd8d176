"""Finds the placeholders that Debezium sends for large values of PostgreSQL which an update did not touch.

Each type has its own; others, such as lists of timestamps, are sent as null, which tells nothing.
"""

from __future__ import annotations

import base64
import uuid
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tabletopic_kernel.model.moved_rows import Mask

_TEXT: Final = "__debezium_unavailable_value"
_BYTES: Final = _TEXT.encode()
_TEXTS: Final = (_TEXT, f'{{"{_TEXT}":"{_TEXT}"}}', base64.b64encode(_BYTES).decode())  # also hstore, bytes
_LENGTHS: Final = tuple(map(len, _TEXTS))
_UUID: Final = uuid.UUID("b68a35a7-17ad-35b3-af2a-ae46edb4545a").bytes  # Java's UUID of the bytes
_ID: Final = b"PARQUET:field_id"


def columns_with_unavailable(rows: pa.RecordBatch) -> set[int]:
    """The field ids of the columns of a table in which some rows have a placeholder."""
    return {
        int(field.metadata[_ID])
        for field, values in zip(rows.schema, rows.columns, strict=True)
        if unavailable(values).any()
    }


def unavailable(values: pa.Array) -> Mask:
    """Which values are only placeholders."""
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    kind = values.type
    if _is_text(kind):
        return _texts(values)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _lists(values, values.values)
    if pa.types.is_map(kind):
        return _lists(values, values.keys)
    return np.zeros(len(values), np.bool_)


def _is_text(kind: pa.DataType) -> bool:
    of_texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(is_one(kind) for is_one in of_texts)


def _texts(values: pa.Array) -> Mask:
    """By length first, which is known without a look at the text."""
    lengths = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False)
    mask: Mask = np.zeros(len(values), np.bool_)
    for length, text in zip(_LENGTHS, _TEXTS, strict=True):
        if len(chosen := np.flatnonzero(lengths == length)):
            mask[chosen] = _are(values.take(pa.array(chosen)), text.encode())
    return mask


def _are(values: pa.Array, wanted: bytes) -> Mask:
    equal = pc.equal(values, pa.scalar(wanted, pa.binary()).cast(values.type))
    mask: Mask = np.asarray(pc.fill_null(equal, False), np.bool_)
    return mask


def _lists(values: pa.Array, items: pa.Array) -> Mask:
    """Lists of one placeholder, or of its bytes as numbers."""
    if isinstance(items, pa.ExtensionArray):
        items = items.storage
    starts = values.offsets.to_numpy()[:-1]
    lengths = np.diff(values.offsets.to_numpy())
    mask: Mask = np.zeros(len(values), np.bool_)
    if _is_text(items.type) or items.type == pa.binary(16):
        single = np.flatnonzero(lengths == 1)
        first = items.take(pa.array(starts[single]))
        mask[single] = _texts(first) if _is_text(items.type) else _are(first, _UUID)
    elif pa.types.is_integer(items.type) or pa.types.is_date32(items.type):
        wanted = pa.array(list(_BYTES), pa.int32()).cast(items.type)
        for at in np.flatnonzero(lengths == len(_BYTES)).tolist():
            mask[at] = items.slice(starts[at], len(_BYTES)).equals(wanted)
    mask &= np.asarray(values.is_valid())
    return mask
