"""Names of Kafka topics: which are valid, and which are internal topics of programs; our own group."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

from tabletopic_kernel.model.errors import UsageError

SETTINGS_TOPIC: Final = "__tabletopic.settings"
CONTROL_TOPIC: Final = "__tabletopic.control"
HOSTS_GROUP: Final = "tabletopic-hosts"  # the consumer group that shares topics among hosts
# Kafka's own rule (org.apache.kafka.common.internals.Topic), and the name of a further table.
_LEGAL: Final = re.compile(r"[A-Za-z0-9._-]{1,249}(@[A-Za-z0-9._-]{1,100})?")
_STREAMS: Final = (
    r".+-(KSTREAM|KTABLE)-.*\d{10}.*-(changelog|repartition|(subscription-(registration|response))-topic)"
)
# By owner; each pattern must match the whole name. Not everything that begins with two underscores is
# internal: Debezium's heartbeats are events.
_INTERNAL: Final = {
    "Kafka's own": (
        r"__(consumer_offsets|transaction_state|cluster_metadata|share_group_state|remote_log_metadata"
        r"|diskless_metadata)"
    ),
    "a schema registry's": (
        r"_schemas(_.+)?|_schema_encoders|kafkasql-(journal|snapshots|events)|registry-events"
    ),
    "Confluent's own": r"_confluent[-.].+|__confluent[-.].+",
    "Kafka Connect's": r"(.+[-_.])?connect[-_.](configs?|offsets?|status|statuses)",
    "MirrorMaker's": r"mm2-(configs|offsets|status|offset-syncs)\..+\.internal|.+\.checkpoints\.internal",
    "Kafka Streams'": _STREAMS,
    "the cluster's operator's": (
        r"__amazon_msk_.+|__strimzi.+|strimzi\.cruisecontrol\..+|__CruiseControlMetrics"
        r"|__KafkaCruiseControl.+|_redpanda\..+|__redpanda\..+|_internal_connectors_.+"
    ),
}
# What Debezium's connectors keep for themselves, by the names that its manual and its users give.
_SCHEMA_HISTORY: Final = re.compile(
    r"(?:\A|[-_.])(schema[-_.]?history|schema[-_.]changes|db[-_.]?history)(?:[-_.]|\Z)", re.IGNORECASE
)
_PATTERNS: Final = {owner: re.compile(pattern) for owner, pattern in _INTERNAL.items()}


def kafka_topic(name: str) -> str:
    """The Kafka topic of a table topic: ``orders@history`` is a further table of ``orders``.

    >>> kafka_topic("orders@history"), kafka_topic("orders")
    ('orders', 'orders')
    """
    return name.partition("@")[0]


def check_topic_name(name: str) -> None:
    """Check that the name is a Kafka topic's, or such a name, @ and a table's; raises UsageError.

    >>> check_topic_name("a b")
    Traceback (most recent call last):
    tabletopic_kernel.model.errors.UsageError: 'a b' is not a valid topic name: use letters, digits, . _ and -
    """
    if not _LEGAL.fullmatch(name) or kafka_topic(name) in (".", ".."):
        short = f"{name[:60]}…" if len(name) > 61 else name
        why = "at most 249 characters" if len(name) > 249 else "letters, digits, . _ and -"
        raise UsageError(f"{short!r} is not a valid topic name: use {why}")


def internal_owner(name: str) -> str | None:
    """The owner of an internal topic, in words; None for a regular topic.

    >>> internal_owner("__consumer_offsets"), internal_owner("clicks")
    ("Kafka's own", None)
    """
    if name in (SETTINGS_TOPIC, CONTROL_TOPIC):
        return "the workbench's own"
    return next((owner for owner, pattern in _PATTERNS.items() if pattern.fullmatch(name)), None)


def check_table_topic(name: str) -> None:
    """Check that the topic may be a table topic; raises UsageError if its name is invalid or internal."""
    check_topic_name(name)
    if (owner := internal_owner(kafka_topic(name))) is not None:
        raise UsageError(not_a_table_topic(name, owner))


def not_a_table_topic(name: str, owner: str) -> str:
    """Why an internal topic is rejected."""
    return f"{name} is {owner} topic: its records are not events, so it cannot be a table topic"


def stands_for(pattern: str, exclude: Iterable[str], name: str) -> bool:
    """Whether a pattern without the patterns ``exclude`` stands for a topic.

    It never does for internal topics, nor for schema histories of connectors: their records are no events.

    >>> stands_for("*", (), "schema-changes.shop"), stands_for("shop.*", ["*-retry"], "shop.carts")
    (False, True)
    """
    return (
        fnmatchcase(name, pattern)
        and not any(fnmatchcase(name, excluded) for excluded in exclude)
        and not name.startswith("__")
        and internal_owner(name) is None
        and not _SCHEMA_HISTORY.search(name)
    )
