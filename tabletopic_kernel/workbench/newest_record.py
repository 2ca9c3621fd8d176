"""What the newest record of a topic says of the settings that a table would be made with."""

from __future__ import annotations

from typing import Final

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.clients.registry import Registry
from tabletopic_kernel.formats import wire
from tabletopic_kernel.formats.json.text import JsonTextError, parse
from tabletopic_kernel.model.dead_letter import NO_SCHEMA_ID, OTHER_MESSAGE
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.workbench.peek import PeekedRecord, peek

# Of each partition: behind a delete of Debezium is a record without a value.
_RECORDS: Final = 3
_LONGEST: Final = 300


def check_newest(topic: str, settings: TopicSettings, broker: Broker, registry: Registry) -> list[str]:
    """Look at the newest record with a value: would it become a row of a new table?

    Returns:
        What to tell a person, if it would not: the reason, and the setting that may be wrong.

    Raises:
        UsageError: it is of another message of its Protobuf file than the table would have, which is the
            first of the file, and may well be one that the records' own only uses.
        RetryableError: broker or registry do not answer.
    """
    found = peek(topic, settings, broker, registry, _RECORDS)
    newest = next((one for one in found if one.raw is not None), None)
    if newest is None:
        return []
    reason, _, detail = (newest.error or "").partition(": ")
    named = settings.value_message is not None or settings.value_format != "by_schema_id"
    if reason == OTHER_MESSAGE and not named:
        raise UsageError(
            f"the schema of {topic} has several messages, and the newest record has not the first: {detail}"
        )
    remedy = _remedy(newest, settings)
    if newest.error is None and remedy is None:
        return []
    where = f"the newest record (partition {newest.partition}, offset {newest.offset})"
    why = f"{where} cannot become a row: {newest.error[:_LONGEST]}" if newest.error else where
    return [f"{why}; {remedy}" if remedy else why]


def _remedy(record: PeekedRecord, settings: TopicSettings) -> str | None:
    """The setting that fits better what the value looks like; None where it says nothing."""
    raw = record.raw or b""
    begins_with_id = len(raw) > wire.PREFIX_BYTES and raw[0] == wire.MAGIC
    if settings.value_format == "by_schema_id":
        is_bare = record.error is not None and record.error.startswith(NO_SCHEMA_ID)
        return f"its value is {_looks(raw)}" if is_bare else None
    if begins_with_id and (record.error is not None or settings.value_format == "string"):
        number = int.from_bytes(raw[1 : wire.PREFIX_BYTES], "big")
        return (
            f"its value begins as one with the schema id {number} does: if it is one, "
            "set value_format = by_schema_id"
        )
    return None


def _looks(raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return (
            "not text: if it was written by one known schema without its id, set value_format = "
            "by_latest_schema, otherwise raw"
        )
    try:
        parse(raw)
    except (JsonTextError, RecursionError):
        return (
            "plain text: set value_format = string" if text.isprintable() else "odd: set value_format = raw"
        )
    return (
        "JSON without a schema id: set value_format = json, or by_latest_schema if the registry has the "
        "schema of all records"
    )
