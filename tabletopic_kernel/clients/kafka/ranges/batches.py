"""Record batches of a topic's records, and the buffers that the C function fills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from confluent_kafka import Message

HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
SOURCE_SCHEMA: Final = pa.schema(
    [
        ("value", pa.binary()),
        ("key", pa.binary()),
        ("headers", pa.list_(HEADER)),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)
# Records decoded together: enough to make the fast engine's fixed cost per call (about 2 ms) small, few
# enough that a group of long records fits into memory. Larger buffers than 64 MiB would be returned to the
# system and cleared again for each batch (ADR 0014).
RECORDS: Final = 65_536
ROOM: Final = {"value": 32 * 1024**2, "key": 8 * 1024**2, "name": 8 * 1024**2, "item": 8 * 1024**2}
HEADERS: Final = 262_144
_LONGEST_MS: Final = (2**63 - 1) // 1000


def schema_of(*, headers: bool) -> pa.Schema:
    """``SOURCE_SCHEMA``, without ``headers`` if nobody needs them."""
    return SOURCE_SCHEMA if headers else SOURCE_SCHEMA.remove(SOURCE_SCHEMA.get_field_index("headers"))


class Buffers:
    """Arrow's buffers for one batch, by the names that the C function has for them."""

    def __init__(self, room: Mapping[str, int], most_headers: int) -> None:
        slots = {"value": RECORDS, "key": RECORDS, "name": most_headers, "item": most_headers}
        self.ends = {name: np.zeros(count + 1, np.int32) for name, count in slots.items()}
        self.valid = {name: np.zeros(count // 8 + 1, np.uint8) for name, count in slots.items()}
        self.data = {name: np.empty(room[name], np.uint8) for name in slots}
        self.partition, self.header_ends = np.empty(RECORDS, np.int32), np.zeros(RECORDS + 1, np.int32)
        self.offset, self.time = np.empty(RECORDS, np.int64), np.empty(RECORDS, np.int64)
        self.time_valid, self.header_valid = (np.zeros(RECORDS // 8 + 1, np.uint8) for _ in range(2))

    def batch(self, rows: int, headers: int | None, nulls: dict[str, int]) -> pa.RecordBatch:
        """The first ``rows``; ``headers``: how many they have together, None: they were not wanted."""
        columns = {
            "value": self._bytes("value", rows, nulls["value"]),
            "key": self._bytes("key", rows, nulls["key"]),
            "partition": pa.array(self.partition[:rows]),
            "offset": pa.array(self.offset[:rows]),
            "timestamp": _array(
                SOURCE_SCHEMA.field("timestamp").type, rows, nulls["time"], self.time_valid, self.time
            ),
        }
        if headers is not None:
            names = _as_text(self._bytes("name", headers, 0))
            pairs = pa.StructArray.from_arrays(
                [names, self._bytes("item", headers, nulls["item"])], fields=list(HEADER)
            )
            columns["headers"] = _array(
                pa.list_(HEADER), rows, nulls["header"], self.header_valid, self.header_ends, children=[pairs]
            )
        schema = schema_of(headers=headers is not None)
        return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)

    def _bytes(self, name: str, count: int, nulls: int) -> pa.Array:
        return _array(pa.binary(), count, nulls, self.valid[name], self.ends[name], self.data[name])


def _array(
    kind: pa.DataType, count: int, nulls: int, valid: np.ndarray, *buffers: np.ndarray, **more: Any
) -> pa.Array:
    parts = [pa.py_buffer(valid) if nulls else None, *map(pa.py_buffer, buffers)]
    return pa.Array.from_buffers(kind, count, parts, nulls, **more)


def _as_text(names: pa.Array) -> pa.Array:
    """Names of headers; like Kafka's own client, with U+FFFD for what is not UTF-8."""
    text = names.view(pa.string())
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        text = pa.array([name.decode(errors="replace") for name in names.to_pylist()], pa.string())
    return text


def batch_of(messages: Sequence[Message], *, headers: bool) -> pa.RecordBatch:
    """The same from messages; a timestamp that Arrow cannot hold is null."""
    columns: dict[str, list[Any]] = {
        "value": [message.value() for message in messages],
        "key": [message.key() for message in messages],
        "headers": [_headers(message) for message in messages] if headers else [],
        "partition": [message.partition() for message in messages],
        "offset": [message.offset() for message in messages],
        "timestamp": [_micros(message.timestamp()[1]) for message in messages],
    }
    schema = schema_of(headers=headers)
    arrays = [pa.array(columns[column.name], column.type) for column in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _headers(message: Message) -> list[dict[str, Any]] | None:
    pairs: Any = message.headers() or ()  # the stubs say a dict, too
    return [{"key": key, "value": value} for key, value in pairs] or None


def _micros(milliseconds: int) -> int | None:
    return milliseconds * 1000 if abs(milliseconds) <= _LONGEST_MS else None
