"""Records of a topic, decoded by the pipeline.

``search.py`` looks for records, ``fates.py`` says what became of them, ``newest.py`` which settings fit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from tabletopic_kernel.clients.registry.registry import Registry
from tabletopic_kernel.formats.wire import KEY_HEADER, VALUE_HEADER, SchemaKey
from tabletopic_kernel.model.columns.evolution import VALUE
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.plan import WHOLE_TOPIC
from tabletopic_kernel.pipeline.sinks import Memory, Rejections, StagedRows
from tabletopic_kernel.pipeline.source import SOURCE_SCHEMA
from tabletopic_kernel.table.draft import Draft, ValuesDraft, try_records


@dataclass(frozen=True)
class Fate:
    """What became of a record: ``text`` for people, ``kind`` for programs.

    ``snapshot_id``: of the table, with the record's row, or that the record was read for, committed
    ``at_ms``. ``reason``: of a dead letter, or why there is no row. ``offset``: of the record that has the
    key's row now, in ``partition``.
    """

    kind: Literal["not_yet", "row", "dead_letter", "no_row", "deleted", "superseded", "unknown"]
    text: str
    snapshot_id: str | None = None  # text, for JSON's sake
    at_ms: int | None = None
    reason: str | None = None
    partition: int | None = None
    offset: int | None = None


@dataclass(frozen=True)
class WrittenBy:
    """The registered schema of a record, and its columns as text."""

    subject: str
    version: int
    columns: list[str]


@dataclass(frozen=True)
class PeekedRecord:
    """A record in Kafka. ``value`` has its fields; if it cannot become a row, ``error`` says why.

    Both are None for a record without a value. ``raw`` and ``key`` are the bytes of value and key;
    ``key_value`` is the key decoded by its schema, if keys name a schema. ``fate`` and ``schema`` are there
    if they were asked for.
    """

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    schema_id: SchemaKey | None
    value: dict[str, Any] | None
    error: str | None
    raw: bytes | None
    key_value: Any = None
    headers: list[dict[str, Any]] = field(default_factory=list)
    fate: Fate | None = None
    schema: WrittenBy | None = None

    @property
    def readable_key(self) -> Any:
        """The key decoded by its schema, or as text if its bytes are readable text; else the bytes."""
        if self.key_value is not None or self.key is None:
            return self.key_value
        try:
            text = self.key.decode()
        except UnicodeDecodeError:
            return self.key
        return text if text.isprintable() else self.key


def decoded(
    records: pa.RecordBatch, topic: str, settings: TopicSettings, registry: Registry
) -> list[PeekedRecord]:
    """Records of ``SOURCE_SCHEMA``, decoded with the settings."""
    values, keys = _read(records, ValuesDraft(topic, settings, registry)), _Decoded()
    if settings.has_typed_keys:
        keys = _read(keys_as_values(records), ValuesDraft(topic, settings, registry, of_keys=True))
    return [
        PeekedRecord(
            partition=record["partition"],
            offset=record["offset"],
            timestamp_ms=-1 if record["timestamp"] is None else record["timestamp"] // 1000,
            key=record["key"],
            schema_id=values.ids.get(position),
            value=values.rows.get(position),
            error=values.errors.get(position)
            or (f"key: {keys.errors[position]}" if position in keys.errors else None),
            raw=record["value"],
            key_value=_unwrapped(keys.rows.get(position)),
            headers=record["headers"] or [],
        )
        for position, record in enumerate(_as_dicts(records))
    ]


@dataclass
class _Decoded:
    ids: dict[int, SchemaKey] = field(default_factory=dict)
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)


def _read(records: pa.RecordBatch, draft: Draft) -> _Decoded:
    present = records.column("value").is_valid()
    positions = [position for position, is_present in enumerate(present.to_pylist()) if is_present]
    memory, _ = try_records(draft, [records.filter(present)], Memory)
    result = _Decoded()
    parts: list[StagedRows | Rejections] = [*memory.staged, *memory.refused]
    for part in parts:
        if part.schema_id is not None and part.schema_id != WHOLE_TOPIC:
            result.ids |= dict.fromkeys((positions[n] for n in part.positions.tolist()), part.schema_id)
    for staged in memory.staged:
        rows = staged.rows.to_pylist(maps_as_pydicts="lossy")
        result.rows.update(zip((positions[n] for n in staged.positions.tolist()), rows, strict=True))
    for refused in memory.refused:
        for index, n in enumerate(refused.positions.tolist()):
            reason, message = refused.reason(index), refused.message(index)
            result.errors[positions[n]] = f"{reason}: {message}" if reason else message
    return result


def keys_as_values(records: pa.RecordBatch) -> pa.RecordBatch:
    """The same records with their keys, and the headers that name their schemas, in place of the values."""
    headers = [
        [{**header, "key": VALUE_HEADER} for header in row or () if header["key"] == KEY_HEADER]
        for row in records.column("headers").to_pylist()
    ]
    columns = {name: records.column(name) for name in records.schema.names}
    columns |= {"value": columns["key"], "headers": pa.array(headers, SOURCE_SCHEMA.field("headers").type)}
    return pa.RecordBatch.from_pydict(columns, schema=SOURCE_SCHEMA)


def _as_dicts(records: pa.RecordBatch) -> list[dict[str, Any]]:
    """The records, with timestamps as numbers: a producer may send any, even outside Python's dates."""
    column = records.schema.get_field_index("timestamp")
    numbers = pc.cast(records.column(column), pa.int64())
    rows: list[dict[str, Any]] = records.set_column(column, "timestamp", numbers).to_pylist()
    return rows


def _unwrapped(key: dict[str, Any] | None) -> Any:
    """The key's record, or its value if its schema is not a record."""
    return key[VALUE] if key is not None and list(key) == [VALUE] else key
