"""The ``_kafka_*`` columns, and what else is read from the source's own columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tabletopic_kernel.model.columns.evolution import HEADER, KEY, METADATA

_HEADER_TYPE = pa.map_(pa.large_string(), pa.large_binary())


def kafka_columns(source: pa.RecordBatch, wanted: Sequence[str], key_format: str) -> dict[str, pa.Array]:
    """The columns that are switched on (``key``, ``header``, ``metadata``), by their names in the table.

    Not of keys that name their schema: see ``pipeline/keys.py``.
    """
    columns: dict[str, pa.Array] = {}
    if "key" in wanted and key_format in ("raw", "string"):
        columns[KEY] = source.column("key")
    if "header" in wanted:
        columns[HEADER] = _headers(source.column("headers"))
    if "metadata" in wanted:
        place = [source.column(name) for name in ("partition", "offset", "timestamp")]
        columns[METADATA] = pa.StructArray.from_arrays(place, names=["partition", "offset", "timestamp"])
    return columns


def with_null_headers(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with null for headers that are none: Spark hands them over as empty lists."""
    headers = headers_of(batch)
    if headers is None or headers.null_count == len(headers):
        return batch
    present = pc.fill_null(pc.greater(pc.list_value_length(headers), 0), False)
    if pc.all(present).as_py():
        return batch
    nulls = pa.nulls(len(headers), headers.type)
    kept = pc.if_else(present, headers, nulls) if pc.any(present).as_py() else nulls
    return batch.set_column(batch.schema.get_field_index("headers"), "headers", kept)


def headers_of(batch: pa.RecordBatch) -> pa.Array | None:
    """The headers of a batch; None where the source did not read them."""
    return batch.column("headers") if "headers" in batch.schema.names else None


def note_newest(batch: pa.RecordBatch, newest_ms: dict[int, int]) -> None:
    """Newest record timestamp by partition, in ms; letters that others wrote may have none."""
    if batch.column("timestamp").null_count:
        batch = batch.filter(batch.column("timestamp").is_valid())
    if not len(batch):
        return
    timestamps = batch.column("timestamp").cast(pa.int64()).to_numpy(zero_copy_only=False) // 1000
    partitions = batch.column("partition").to_numpy(zero_copy_only=False)
    for partition in np.unique(partitions).tolist():
        newest = int(timestamps[partitions == partition].max())
        newest_ms[partition] = max(newest, newest_ms.get(partition, newest))


def _headers(headers: pa.Array) -> pa.Array:
    """Kafka's list of (key, value) as a map; null where a record has none, of a repeated key the last."""
    if headers.null_count == len(headers):
        return pa.nulls(len(headers), _HEADER_TYPE)
    entries = headers.values
    keys = entries.field(0)
    lists = headers.value_lengths()
    parents = pc.list_parent_indices(headers).to_numpy(zero_copy_only=False)
    flat_keys = headers.flatten().field(0)
    if pc.max(lists).as_py() > 1 and _repeats(parents, flat_keys):
        last = [
            row and list({one["key"]: one["value"] for one in row}.items()) for row in headers.to_pylist()
        ]
        return pa.array(last, _HEADER_TYPE)
    key_array, value_array = keys.cast(pa.large_string()), entries.field(1).cast(pa.large_binary())
    pairs = pa.StructArray.from_arrays(
        [key_array, value_array], fields=[_HEADER_TYPE.key_field, _HEADER_TYPE.item_field]
    )
    return pa.Array.from_buffers(
        _HEADER_TYPE, len(headers), headers.buffers()[:2], offset=headers.offset, children=[pairs]
    )


def _repeats(parents: np.ndarray, keys: pa.Array) -> bool:
    codes = keys.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    pairs = parents.astype(np.int64) * (int(codes.max(initial=0)) + 1) + codes
    return len(np.unique(pairs)) != len(pairs)
