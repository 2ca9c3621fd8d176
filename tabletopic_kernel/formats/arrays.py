"""What all formats use: views of Arrow arrays, an Iceberg schema as Arrow's, the dates of tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

# Positions of records in a batch, ascending.
Positions = np.ndarray[tuple[int], np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
# 0001-01-01 to 9999-12-31, in days since 1970-01-01: the dates of Python (which PyIceberg's column metrics
# use), Spark, Trino and Athena. Few programs could write a file with other dates, and fewer read it.
MIN_DAY: Final = -719_162
MAX_DAY: Final = 2_932_896
MILLIS_PER_DAY: Final = 86_400_000
MICROS_PER_DAY: Final = 1000 * MILLIS_PER_DAY


def arrow_schema_of(schema: Schema) -> pa.Schema:
    """The Arrow schema that PyIceberg's writer accepts without a cast: its own canonical types."""
    return schema_to_pyarrow(schema, include_field_ids=False)


class Bodies:
    """Records of one schema: the values of a binary array without nulls, without a copy.

    ``front``: bytes of the frame before each body, which an engine that reads a copy may overwrite there;
    ``positions``: of the values in the array passed to the decoder, ascending.
    """

    def __init__(self, values: pa.Array, front: int = 0, positions: Positions | None = None) -> None:
        self.values = values
        self.front = front
        self.positions: Positions = np.arange(len(values)) if positions is None else positions
        _, offsets, data = values.buffers()
        kind = np.int64 if pa.types.is_large_binary(values.type) else np.int32
        self.offsets = np.zeros(1, np.int64)  # the starts of values in the data, and the end of the last one
        if len(values):
            width = np.dtype(kind).itemsize
            raw = np.frombuffer(offsets, kind, len(values) + 1, values.offset * width)
            self.offsets = raw.astype(np.int64, copy=False)
        self.buffer: pa.Buffer = pa.py_buffer(b"") if data is None else data
        self._view = memoryview(self.buffer)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def size(self) -> int:
        """The total bytes of all values."""
        return int(self.offsets[-1] - self.offsets[0])

    @property
    def lengths(self) -> Positions:
        """The bytes of each body; below 0 if a value is shorter than its frame."""
        return np.diff(self.offsets) - self.front

    @property
    def data(self) -> Bytes:
        """The bytes that ``offsets`` point into."""
        return np.frombuffer(self._view, np.uint8)

    def body(self, index: int) -> bytes:
        return bytes(self._view[self.offsets[index] + self.front : self.offsets[index + 1]])

    def part(self, start: int, stop: int) -> Bodies:
        """The records from ``start`` to ``stop``, without a copy."""
        if stop - start == len(self):
            return self
        return Bodies(self.values.slice(start, stop - start), self.front, self.positions[start:stop])

    def parts(self, size: int) -> list[Bodies]:
        """The records in parts of at most ``size``."""
        return [self.part(start, min(start + size, len(self))) for start in range(0, len(self), size)]

    def take(self, indexes: Positions, front: int | None = None) -> Bodies:
        """The records at ``indexes``, which ascend; ``front``: a new start of their bodies, if it changes."""
        values = self.values if len(indexes) == len(self) else self.values.take(pa.array(indexes))
        return Bodies(values, self.front if front is None else front, self.positions[indexes])


def not_text(values: pa.Array) -> Positions:
    """Positions of binary values that are not UTF-8; nulls are fine."""
    try:
        values.cast(pa.large_string())
    except pa.ArrowInvalid:
        return np.array([i for i, value in enumerate(values.to_pylist()) if not _is_text(value)], np.int64)
    return np.empty(0, np.int64)


def _is_text(value: bytes | None) -> bool:
    try:
        return value is None or value.decode() is not None
    except UnicodeDecodeError:
        return False


def storage_type(arrow_type: pa.DataType) -> pa.DataType:
    """The type with extension types (uuid) replaced by their storage types, at every depth."""
    if isinstance(arrow_type, pa.BaseExtensionType):
        return arrow_type.storage_type
    if pa.types.is_struct(arrow_type):
        return pa.struct([f.with_type(storage_type(f.type)) for f in arrow_type])
    if pa.types.is_large_list(arrow_type):
        return pa.large_list(arrow_type.value_field.with_type(storage_type(arrow_type.value_type)))
    if pa.types.is_map(arrow_type):
        item = arrow_type.item_field
        return pa.map_(arrow_type.key_field, item.with_type(storage_type(item.type)))
    return arrow_type


class BatchMaker:
    """Makes batches of a schema from Python values; those of extension types are their storage's."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._types = [(field.type, storage_type(field.type)) for field in schema]

    def batch(self, columns: Iterable[Sequence[Any]]) -> pa.RecordBatch:
        """The values, column by column, as a batch."""
        arrays = []
        for values, (kind, storage) in zip(columns, self._types, strict=True):
            array = pa.array(values, storage)
            arrays.append(array if storage == kind else array.cast(kind))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def valid(array: pa.Array) -> Mask:
    """A mask of the elements that are not null."""
    return array.is_valid().to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def repeated_keys(offsets: np.ndarray[Any, Any], keys: pa.Array) -> Mask | None:
    """A mask of the keys that occurred before in their map; None if there are none."""
    lengths = np.diff(offsets)
    if lengths.max(initial=0) < 2:
        return None
    coded = keys.dictionary_encode()
    entries = np.repeat(np.arange(len(lengths)), lengths) * len(coded.dictionary) + np.asarray(coded.indices)
    order = np.argsort(entries, kind="stable")
    again = np.zeros(len(entries), bool)
    again[order[1:]] = entries[order[1:]] == entries[order[:-1]]
    return again if again.any() else None


def without_nulls(array: pa.Array) -> pa.Array:
    """Nulls as zeros and empty values: Parquet refuses them in required fields, even of a null struct."""
    kind = array.type
    if not array.null_count:
        return array
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, without_nulls(array.storage))
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays([array.field(i) for i in range(len(kind))], fields=list(kind))
    children = None
    if pa.types.is_large_list(kind):
        children = [array.values]
    if pa.types.is_map(kind):
        pair = [kind.key_field, kind.item_field]
        children = [pa.StructArray.from_arrays([array.keys, array.items], fields=pair)]
    count = len(array.buffers()) if children is None else 2
    buffers = [None, *array.buffers()[1:count]]
    return pa.Array.from_buffers(kind, len(array), buffers, 0, array.offset, children)
