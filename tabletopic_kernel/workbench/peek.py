"""The newest records of a topic, decoded by the pipeline; and settings that the newest one suggests.

Longer than other modules, as values and keys of each format are decoded here for display.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import Message
from pyiceberg.schema import Schema

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.clients.kafka.reader import Reader
from tabletopic_kernel.clients.registry.registry import (
    RegisteredSchema,
    Registry,
    UnknownSchemaError,
    find_schema,
)
from tabletopic_kernel.formats import wire
from tabletopic_kernel.formats.decoder import InferringDecoder, inferring_decoder, make_decoder
from tabletopic_kernel.formats.json.infer import merged_columns
from tabletopic_kernel.formats.json.text import JsonTextError, parse
from tabletopic_kernel.formats.rejection import Refused, in_parts, narrowed
from tabletopic_kernel.formats.wire import KEY_HEADER, SchemaKey, WriterSchema
from tabletopic_kernel.model.columns.evolution import VALUE
from tabletopic_kernel.model.dead_letter import (
    BAD_SCHEMA,
    BAD_SCHEMA_HEADER,
    INTERNAL_ERROR,
    NO_SCHEMA_ID,
    OTHER_MESSAGE,
)
from tabletopic_kernel.model.errors import ActionNeededError, UsageError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.plan import WHOLE_TOPIC
from tabletopic_kernel.pipeline.split_by_schema import Group, split, unsplit
from tabletopic_kernel.pipeline.stage import SOURCE_HEADERS
from tabletopic_kernel.pipeline.transform.columns import reserved_in_rows
from tabletopic_kernel.pipeline.write import Refusals
from tabletopic_kernel.table.schemas.registered import (
    WITHOUT_SCHEMA,
    key_subject,
    key_writer,
    value_writer,
    whole_writer,
    why_foreign,
)

# Records read per partition: a delete of Debezium's is followed by a record without a value.
_RECORDS: Final = 3
_LONGEST: Final = 300  # characters of an error


@dataclass(frozen=True)
class PeekedRecord:
    """A record in Kafka. ``value`` has its fields; if it cannot become a row, ``error`` says why.

    Both are None for a record without a value. ``raw`` is the value's bytes, ``key`` the key's; ``key_value``
    is the key decoded by its schema, if keys name one.
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


def peek(
    topic: str, settings: TopicSettings, broker: Broker, registry: Registry, count: int
) -> list[PeekedRecord]:
    """The ``count`` newest committed records of all partitions, newest first, decoded with the settings.

    Raises:
        UsageError: there is no such topic.
        RetryableError: broker or registry do not respond.
    """
    facts = broker.facts(topic)
    starts = {p: max(facts.first.get(p, 0), end - count) for p, end in facts.end.items()}
    with Reader(broker.properties, "tabletopic-readers") as reader:
        messages = list(chain.from_iterable(reader.read_range(topic, starts, facts.end)))
    messages.sort(key=lambda message: (message.timestamp()[1], message.offset() or 0), reverse=True)
    messages = messages[:count]
    parts = in_parts(
        lambda start, stop: _decoded(messages[start:stop], topic, settings, registry), len(messages)
    )
    return [*chain.from_iterable(parts)]


_Decode = Callable[[Group], tuple[pa.RecordBatch, list[Refused]]]


@dataclass
class _Found:
    """Decoded values, or keys, of some records, by position."""

    ids: dict[int, SchemaKey] = field(default_factory=dict)
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)


def _decoded(
    messages: Sequence[Message], topic: str, settings: TopicSettings, registry: Registry
) -> list[PeekedRecord]:
    headers = _headers(messages)
    raw = pa.array([message.value() for message in messages], pa.binary())
    framed = settings.value_format == "by_schema_id"
    groups = split(raw, headers) if framed else unsplit(raw)
    values = _found(*groups, lambda group: _decode(group, topic, settings, registry))
    keys = _Found()
    if settings.has_typed_keys:
        named = split(pa.array([message.key() for message in messages], pa.binary()), headers, KEY_HEADER)
        keys = _found(*named, lambda group: _decode_keys(group, topic, settings, registry))
    return [
        PeekedRecord(
            partition=message.partition() or 0,
            offset=message.offset() or 0,
            timestamp_ms=message.timestamp()[1],
            key=_bytes(message.key()),
            schema_id=values.ids.get(at),
            value=values.rows.get(at),
            error=values.errors.get(at) or (f"key: {keys.errors[at]}" if at in keys.errors else None),
            raw=_bytes(message.value()),
            key_value=_alone(keys.rows.get(at)),
        )
        for at, message in enumerate(messages)
    ]


def _found(
    groups: Sequence[Group],
    unframed: Refusals,
    decode: _Decode,
) -> _Found:
    found = _Found()
    for index, position in enumerate(unframed.positions.tolist()):
        found.errors[position] = f"{unframed.reason(index)}: {unframed.message(index)}"
    for group in groups:
        if group.schema_id is None:
            continue
        positions = group.positions.tolist()
        if group.schema_id != WHOLE_TOPIC:
            found.ids.update(dict.fromkeys(positions, group.schema_id))
        _take(found, group, decode)
    return found


def _take(found: _Found, group: Group, decode: _Decode) -> None:
    """Decode a group into ``found``; an unexpected exception is reported for the records that cause it."""
    positions = group.positions.tolist()

    def rows(start: int, stop: int) -> tuple[int, list[dict[str, Any]], list[Refused]]:
        decoded, refused = decode(group.part(start, stop))
        return start, decoded.to_pylist(maps_as_pydicts="lossy"), refused

    try:
        done = narrowed(rows, len(positions), patient=True)
    except (UnknownSchemaError, ActionNeededError) as error:
        found.errors.update(dict.fromkeys(positions, str(error)))
        return
    for failure in done.failures:
        found.errors[positions[failure.index]] = f"{INTERNAL_ERROR}: {failure.line}"
    for start, decoded, refused in done.made:
        reasons = {positions[start + bad.index]: f"{bad.reason}: {bad.message}" for bad in refused}
        found.errors.update(reasons)
        stop = start + len(decoded) + len(refused)
        good = [position for position in positions[start:stop] if position not in reasons]
        found.rows.update(zip(good, decoded, strict=True))


def _alone(key: dict[str, Any] | None) -> Any:
    """A key that is not a record is the value itself."""
    return key[VALUE] if key is not None and list(key) == [VALUE] else key


def _infer(values: pa.Array, settings: TopicSettings) -> tuple[pa.RecordBatch, list[Refused]]:
    """Decode JSON without a schema, into the columns that these records would create."""
    columns = Schema()
    while True:
        decoder = inferring_decoder(columns, reserved_in_rows(settings.transform))
        decoded = decoder.decode(values)
        needed = decoder.needed if isinstance(decoder, InferringDecoder) else None
        if needed is None:
            return decoded
        columns = merged_columns(columns, [needed])


def _decode(
    group: Group, topic: str, settings: TopicSettings, registry: Registry
) -> tuple[pa.RecordBatch, list[Refused]]:
    """Rows and rejections of a group; raises if it has no decoder."""
    kind = WITHOUT_SCHEMA.get(settings.value_format)
    if kind == "INFERRED":
        return _infer(group.values, settings)
    if kind is not None:
        return make_decoder(WHOLE_TOPIC, whole_writer(kind)).decode(group.values)
    framed = settings.value_format == "by_schema_id"
    subject = settings.subject_of(topic)
    key = group.schema_id or 0
    registered = find_schema(registry, key, subject) if framed else registry.latest(subject)
    if registered is None:
        raise ActionNeededError(f"the subject {subject} has no schema yet")
    _check_own(registered, topic, settings, registry)
    return _by_schema(group, registered, value_writer(registered, settings))


def _decode_keys(
    group: Group, topic: str, settings: TopicSettings, registry: Registry
) -> tuple[pa.RecordBatch, list[Refused]]:
    registered = find_schema(registry, group.schema_id or 0, key_subject(topic))
    _check_own(registered, topic, settings, registry, of_keys=True)
    return _by_schema(group, registered, key_writer(registered, settings))


def _check_own(
    registered: RegisteredSchema,
    topic: str,
    settings: TopicSettings,
    registry: Registry,
    *,
    of_keys: bool = False,
) -> None:
    if why := why_foreign(registry, registered, topic, settings, of_keys=of_keys):
        raise ActionNeededError(f"{BAD_SCHEMA}: {why}")


def _by_schema(
    group: Group, registered: RegisteredSchema, schema: WriterSchema
) -> tuple[pa.RecordBatch, list[Refused]]:
    if fault := group.header_fault(schema.kind):
        raise ActionNeededError(f"{BAD_SCHEMA_HEADER}: {fault}")
    return make_decoder(registered.id, schema).decode(group.values)


def _headers(messages: Sequence[Message]) -> pa.Array:
    """Headers in the source's format."""
    rows = [
        [{"key": str(header[0]), "value": _bytes(header[1])} for header in message.headers() or ()]
        for message in messages
    ]
    return pa.array(rows, SOURCE_HEADERS)


def _bytes(value: object) -> bytes | None:
    return None if value is None else bytes(value)  # type: ignore[call-overload]


def check_newest(topic: str, settings: TopicSettings, broker: Broker, registry: Registry) -> list[str]:
    """Check the newest record with a value: would it become a row of a new table?

    Returns:
        A message for the user, if it would not: the reason, and the setting that may be wrong.

    Raises:
        UsageError: its message in the Protobuf file is not the table's, which is the first of the file, and
        may well be one that the records' message only uses.
        RetryableError: broker or registry do not respond.
    """
    records = peek(topic, settings, broker, registry, _RECORDS)
    newest = next((record for record in records if record.raw is not None), None)
    if newest is None:
        return []
    reason, _, detail = (newest.error or "").partition(": ")
    named = settings.value_message is not None or settings.value_format != "by_schema_id"
    if reason == OTHER_MESSAGE and not named:
        raise UsageError(
            f"the schema of {topic} has several messages, and the newest record is not the first: {detail}"
        )
    remedy = _remedy(newest, settings)
    if newest.error is None and remedy is None:
        return []
    where = f"the newest record (partition {newest.partition}, offset {newest.offset})"
    why = f"{where} cannot become a row: {newest.error[:_LONGEST]}" if newest.error else where
    return [f"{why}; {remedy}" if remedy else why]


def _remedy(record: PeekedRecord, settings: TopicSettings) -> str | None:
    """The setting that fits the value's form better; None if there is none."""
    raw = record.raw or b""
    begins_with_id = len(raw) > wire.PREFIX_BYTES and raw[0] == wire.MAGIC
    if settings.value_format == "by_schema_id":
        is_bare = record.error is not None and record.error.startswith(NO_SCHEMA_ID)
        return f"its value is {_looks(raw)}" if is_bare else None
    if begins_with_id and (record.error is not None or settings.value_format == "string"):
        number = int.from_bytes(raw[1 : wire.PREFIX_BYTES], "big")
        return f"its value seems to begin with schema id {number}: if so, set value_format = by_schema_id"
    return None


def _looks(raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return (
            "not text: if all values follow one known schema without its id, set value_format = "
            "by_latest_schema, otherwise raw"
        )
    try:
        parse(raw)
    except (JsonTextError, RecursionError):
        return (
            "plain text: set value_format = string"
            if text.isprintable()
            else "text with control characters: set value_format = raw"
        )
    return (
        "JSON without a schema id: set value_format = json, or by_latest_schema if the registry has the "
        "schema of all records"
    )
