"""Fits decoded columns to the table's schema, by name, without loss, and adds the ``_kafka_*`` columns.

Fields take the names of their columns, missing columns become nulls, narrower types are widened by safe
casts. ``model/columns/evolution.py`` has ensured that nothing else is needed.

*Why this is safe.* Columns match by name, never by position, and each cast is Arrow's checked one: a value
that the target cannot hold raises ArrowInvalid instead of being truncated, and is refused alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from tabletopic_kernel.formats.arrays import without_nulls
from tabletopic_kernel.formats.rejection import Refused, halves, narrowed
from tabletopic_kernel.model.columns.evolution import HEADER, KEY, METADATA
from tabletopic_kernel.model.columns.names import step
from tabletopic_kernel.model.dead_letter import DOES_NOT_FIT
from tabletopic_kernel.model.fingerprint import fingerprint
from tabletopic_kernel.model.ledger import CLOCK_TOLERANCE_MS, Outliers, all_outliers


def file_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of a table's data files, with field ids (Iceberg spec, "Column Projection")."""
    return schema_to_pyarrow(schema, include_field_ids=True)


def conform(columns: Mapping[str, pa.Array], rows: int, target: pa.Schema) -> pa.RecordBatch:
    """Arrays of length ``rows`` as a batch of exactly ``target``; ArrowInvalid if a value does not fit."""
    if unknown := columns.keys() - set(target.names):
        raise ValueError(f"the table has no columns {sorted(unknown)}")
    arrays = [
        fit(columns[field.name] if field.name in columns else pa.nulls(rows, field.type), field.type)
        for field in target
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def as_batch(columns: Mapping[str, pa.Array], count: int) -> pa.RecordBatch:
    """Columns of ``count`` rows, perhaps none, as a batch."""
    fields = [pa.field(name, array.type) for name, array in columns.items()]
    if not fields:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(fields))


def fitted(
    columns: Mapping[str, pa.Array], count: int, target: pa.Schema
) -> tuple[list[tuple[range, pa.RecordBatch]], list[Refused]]:
    """``conform`` for the rows that fit, and which of them each batch has; each other one is refused."""
    refused: list[Refused] = []

    def work(part: range) -> tuple[range, pa.RecordBatch]:
        if len(part) == count:
            return part, conform(columns, count, target)
        chosen = pa.array(part)  # a slice would keep other rows' list items, which may be what does not fit
        return part, conform({name: array.take(chosen) for name, array in columns.items()}, len(part), target)

    def cut(part: range, error: BaseException) -> Sequence[range]:
        if not isinstance(error, pa.ArrowInvalid):
            raise error
        if len(part) > 1:
            return halves(part)
        refused.append(Refused(part.start, DOES_NOT_FIT, str(error)))
        return ()

    return narrowed(work, range(count), cut), refused


def fit(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The values as another type: by name inside structs, widened; ArrowInvalid if one does not fit."""
    if pa.types.is_struct(target) and pa.types.is_struct(array.type):
        return _fit_struct(array, target)
    if pa.types.is_map(target) and pa.types.is_map(array.type):
        return _fit_map(array, target)
    if pa.types.is_map(target) and pa.types.is_list(array.type):
        return _fit_map(_last_of_each_key(array), target)
    if pa.types.is_large_list(target) and pa.types.is_list(array.type):  # of the source
        array = array.cast(pa.large_list(array.type.value_field))
    if pa.types.is_large_list(target) and pa.types.is_large_list(array.type):
        return rebuilt(array, target, fit(array.values, target.value_type))
    return array if array.type.equals(target) else array.cast(target, safe=True)


def _fit_struct(array: pa.StructArray, target: pa.StructType) -> pa.StructArray:
    children = []
    for field in target:
        index = array.type.get_field_index(field.name)
        child_array = array.field(index) if index >= 0 else pa.nulls(len(array), field.type)
        child = fit(child_array, field.type)
        children.append(child if field.nullable or not child.null_count else _required(child, array))
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def _fit_map(array: pa.MapArray, target: pa.MapType) -> pa.MapArray:
    entries = pa.StructArray.from_arrays(
        [fit(array.keys, target.key_type), fit(array.items, target.item_type)],
        fields=[target.key_field, target.item_field],
    )
    return rebuilt(array, target, entries)


def _required(child: pa.Array, parent: pa.StructArray) -> pa.Array:
    """A required field below a struct with nulls: these are the struct's nulls, not the field's.

    Parquet's writer counts the field's own nulls, so they are removed where the parent hides them.
    """
    if pc.any(pc.and_(child.is_null(), parent.is_valid())).as_py():
        raise pa.ArrowInvalid("a required field is null")
    return without_nulls(child)


def map_entries(array: pa.MapArray) -> pa.StructArray:
    """Keys and values of a map as one struct array."""
    return pa.StructArray.from_arrays(
        [array.keys, array.items], fields=[array.type.key_field, array.type.item_field]
    )


def rebuilt(array: pa.Array, target: pa.DataType, values: pa.Array) -> pa.Array:
    """A list or map with the same offsets over different values; nothing is copied."""
    buffers = array.buffers()[:2]
    return pa.Array.from_buffers(target, len(array), buffers, offset=array.offset, children=[values])


def rename(columns: Mapping[str, pa.Array], renames: Mapping[str, str]) -> dict[str, pa.Array]:
    """The same arrays under their new names, by dotted path as in ``model/columns/evolution.py``."""
    return {
        renames.get(step(name), name): _inside(array, f"{step(name)}.", renames)
        for name, array in columns.items()
    }


def _inside(array: pa.Array, prefix: str, renames: Mapping[str, str]) -> pa.Array:
    if not any(path.startswith(prefix) for path in renames):
        return array
    kind = array.type
    if pa.types.is_struct(kind):
        children = [
            _inside(array.field(index), f"{prefix}{step(kind.field(index).name)}.", renames)
            for index in range(kind.num_fields)
        ]
        fields = [
            pa.field(renames.get(prefix + step(old.name), old.name), child.type, old.nullable)
            for old, child in zip(kind, children, strict=True)
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    if pa.types.is_map(kind):
        entries = map_entries(array)
        values = _inside(entries.field(1), f"{prefix}value.", renames)
        item = pa.field(kind.item_field.name, values.type, kind.item_field.nullable)
        pairs = pa.StructArray.from_arrays([entries.field(0), values], fields=[kind.key_field, item])
        return rebuilt(array, pa.map_(kind.key_field, item), pairs)
    values = _inside(array.values, f"{prefix}element.", renames)
    element = pa.field(kind.value_field.name, values.type, kind.value_field.nullable)
    return rebuilt(array, pa.large_list(element), values)


def kafka_columns(source: pa.RecordBatch, wanted: Sequence[str], key_format: str) -> dict[str, pa.Array]:
    """The enabled columns (``key``, ``header``, ``metadata``), except for keys that name their schema."""
    columns: dict[str, pa.Array] = {}
    if "key" in wanted and key_format in ("raw", "string"):
        columns[KEY] = source.column("key")
    if "header" in wanted:
        columns[HEADER] = source.column("headers")
    if "metadata" in wanted:
        arrays = [source.column(name) for name in ("partition", "offset", "timestamp")]
        columns[METADATA] = pa.StructArray.from_arrays(arrays, names=["partition", "offset", "timestamp"])
    return columns


# Microseconds of the years 1 to 9999: Iceberg's libraries can write dates of these.
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999


def with_dated_records(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with null for timestamps that no column can hold: a producer may send any number."""
    times = batch.column("timestamp")
    numbers = times.cast(pa.int64())
    ends = pc.min_max(numbers).as_py()
    if ends["min"] is None or (ends["min"] >= _FIRST_US and ends["max"] <= _LAST_US):
        return batch
    fits = pc.and_(pc.greater_equal(numbers, _FIRST_US), pc.less_equal(numbers, _LAST_US))
    kept = pc.if_else(fits, times, pa.nulls(len(times), times.type))
    return batch.set_column(batch.schema.get_field_index("timestamp"), batch.schema.field("timestamp"), kept)


def headers_of(batch: pa.RecordBatch) -> pa.Array | None:
    """The headers of a batch; None if the source did not read them."""
    return batch.column("headers") if "headers" in batch.schema.names else None


def note_last(batch: pa.RecordBatch, last_records: dict[int, tuple[int, str]]) -> None:
    """Update the offset and the fingerprint of the last record by partition (I8)."""
    partitions = batch.column("partition").to_numpy(zero_copy_only=False)
    offsets = batch.column("offset").to_numpy(zero_copy_only=False)
    for partition in np.unique(partitions).tolist():
        rows = np.flatnonzero(partitions == partition)
        row = int(rows[offsets[rows].argmax()])
        offset = int(offsets[row])
        if offset > last_records.get(partition, (-1, ""))[0]:
            key, value, stamp = (batch.column(name)[row] for name in ("key", "value", "timestamp"))
            stamp_ms = stamp.value // 1000 if stamp.is_valid else None
            last_records[partition] = offset, fingerprint(key.as_py(), value.as_py(), stamp_ms)


def note_newest(
    batch: pa.RecordBatch, now_ms: int, newest_ms: dict[int, int], outliers: dict[int, Outliers]
) -> None:
    """Update newest timestamps by partition, in ms, and records ahead of the clock; letters may lack one."""
    if batch.column("timestamp").null_count:
        batch = batch.filter(batch.column("timestamp").is_valid())
    if not len(batch):
        return
    timestamps = batch.column("timestamp").cast(pa.int64()).to_numpy(zero_copy_only=False) // 1000
    partitions = batch.column("partition").to_numpy(zero_copy_only=False)
    ahead = timestamps > now_ms + CLOCK_TOLERANCE_MS
    if ahead.any():
        offsets = batch.column("offset").to_numpy(zero_copy_only=False)
        for partition in np.unique(partitions[ahead]).tolist():
            (places,) = np.nonzero(ahead & (partitions == partition))
            last = places[offsets[places].argmax()]
            new = {partition: Outliers(len(places), int(offsets[last]), int(timestamps[last]))}
            outliers |= all_outliers(outliers, new)
        timestamps, partitions = timestamps[~ahead], partitions[~ahead]
    for partition in np.unique(partitions).tolist():
        newest = int(timestamps[partitions == partition].max())
        newest_ms[partition] = max(newest, newest_ms.get(partition, newest))


_MAP_TYPE = pa.map_(pa.large_string(), pa.large_binary())


def _last_of_each_key(headers: pa.Array) -> pa.Array:
    """Kafka's list of (key, value) as a map, in which the last of a repeated key wins."""
    if headers.null_count == len(headers):
        return pa.nulls(len(headers), _MAP_TYPE)
    lists = headers.value_lengths()
    parents = pc.list_parent_indices(headers).to_numpy(zero_copy_only=False)
    if pc.max(lists).as_py() > 1 and _repeats(parents, headers.flatten().field(0)):
        last_values = [
            row and list({pair["key"]: pair["value"] for pair in row}.items()) for row in headers.to_pylist()
        ]
        return pa.array(last_values, _MAP_TYPE)
    entries = headers.values
    pairs = pa.StructArray.from_arrays(
        [entries.field(0).cast(pa.large_string()), entries.field(1).cast(pa.large_binary())],
        fields=[_MAP_TYPE.key_field, _MAP_TYPE.item_field],
    )
    return rebuilt(headers, _MAP_TYPE, pairs)


def _repeats(parents: np.ndarray, keys: pa.Array) -> bool:
    codes = keys.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    pairs = parents.astype(np.int64) * (int(codes.max(initial=0)) + 1) + codes
    return len(np.unique(pairs)) != len(pairs)
