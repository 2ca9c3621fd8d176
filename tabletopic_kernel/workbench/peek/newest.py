"""Settings that the newest records suggest."""

from __future__ import annotations

from typing import Final

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.clients.registry.registry import Registry
from tabletopic_kernel.formats import wire
from tabletopic_kernel.formats.json.text import JsonTextError, parse
from tabletopic_kernel.model.dead_letter import NO_SCHEMA_ID, OTHER_MESSAGE
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.workbench.peek import PeekedRecord
from tabletopic_kernel.workbench.peek.change_events import SAMPLE, advice
from tabletopic_kernel.workbench.peek.search import look
from tabletopic_kernel.workbench.peek.wanted import Search

# Records read per partition: Debezium sends a record without a value after each delete.
_RECORDS: Final = 3
_LONGEST: Final = 300  # characters of an error


def newest_records(
    topic: str, settings: TopicSettings, broker: Broker, registry: Registry, count: int
) -> list[PeekedRecord]:
    """The ``count`` newest committed records of all partitions, newest first, decoded with the settings."""
    return look(topic, settings, broker, registry, Search(limit=count))


def check_newest(topic: str, settings: TopicSettings, broker: Broker, registry: Registry) -> list[str]:
    """Whether the newest record with a value would become a row of a new table; a message if not, and advice.

    It has the reason, and the setting that may be wrong. Raises UsageError if the record's Protobuf message
    is not the first in the file: the table would have the first, which may only be a part of it.
    """
    count = SAMPLE if settings.transform == "flatten_debezium" else _RECORDS
    records = newest_records(topic, settings, broker, registry, count)
    shown = advice(records, settings)
    newest = next((record for record in records if record.raw is not None), None)
    if newest is None:
        return shown
    reason, _, detail = (newest.error or "").partition(": ")
    named = settings.value_message is not None or settings.value_format != "by_schema_id"
    if reason == OTHER_MESSAGE and not named:
        raise UsageError(
            f"the schema of {topic} has several messages, and the newest record is not the first: {detail}"
        )
    remedy = _remedy(newest, settings)
    if newest.error is None and remedy is None:
        return shown
    name = f"the newest record (partition {newest.partition}, offset {newest.offset})"
    problem = f"{name} cannot become a row: {newest.error[:_LONGEST]}" if newest.error else name
    return [f"{problem}; {remedy}" if remedy else problem, *shown]


def _remedy(record: PeekedRecord, settings: TopicSettings) -> str | None:
    """Advice on the setting that fits the value better; None if there is none."""
    raw = record.raw or b""
    begins_with_id = len(raw) > wire.PREFIX_BYTES and raw[0] == wire.MAGIC
    if settings.value_format == "by_schema_id":
        is_bare = record.error is not None and record.error.startswith(NO_SCHEMA_ID)
        return f"its value is {_form(raw)}" if is_bare else None
    if begins_with_id and (record.error is not None or settings.value_format == "string"):
        number = int.from_bytes(raw[1 : wire.PREFIX_BYTES], "big")
        return f"its value seems to begin with schema id {number}: if so, set value_format = by_schema_id"
    return None


def _form(raw: bytes) -> str:
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
