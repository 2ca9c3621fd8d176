"""Which message of a Protobuf file a topic's records are."""

from __future__ import annotations

from tabletopic_kernel.adapters.kafka import Broker
from tabletopic_kernel.adapters.registry import Registry
from tabletopic_kernel.commit.peek import peek
from tabletopic_kernel.core.dead_letter import OTHER_MESSAGE
from tabletopic_kernel.core.errors import UsageError
from tabletopic_kernel.core.settings import TopicSettings


def check_message(topic: str, settings: TopicSettings, broker: Broker, registry: Registry) -> None:
    """See that the newest record is of the message that a new table would have, where none is named.

    That is the first of the file, which may well be one that the records' own only uses.

    Raises:
        UsageError: it is of another message of its schema.
        RetryableError: broker or registry do not answer.
    """
    if settings.value_format != "by_schema_id" or settings.value_message is not None:
        return
    latest = registry.latest(settings.subject_of(topic))
    if latest is None or latest.kind != "PROTOBUF":
        return
    for record in peek(topic, settings, broker, registry, 1):
        reason, _, told = (record.error or "").partition(": ")
        if reason == OTHER_MESSAGE:
            raise UsageError(
                f"the schema of {topic} has several messages, and the newest record has not the first: {told}"
            )
