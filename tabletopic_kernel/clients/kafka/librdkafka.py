"""Clients of librdkafka, without its output on stderr."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tabletopic_kernel.clients.kafka.connection_errors import ConnectionErrors
from tabletopic_kernel.model.errors import SettingsError

T = TypeVar("T")
# Without a logger, librdkafka prints connection errors to stderr; users get errors with a remedy instead.
_LOG = logging.getLogger("tabletopic.librdkafka")


def make_admin(properties: Mapping[str, str], errors: ConnectionErrors | None = None) -> AdminClient:
    """An admin client whose connections report to ``errors``.

    Raises SettingsError if librdkafka refuses the properties.
    """
    return _make(AdminClient, properties, {"error_cb": errors} if errors else {})


def make_consumer(properties: Mapping[str, str], **overrides: Any) -> Consumer:
    """A consumer; ``overrides`` have underscores for dots. Raises as ``make_admin``."""
    return _make(Consumer, properties, overrides)


def make_producer(properties: Mapping[str, str], **overrides: Any) -> Producer:
    """A producer; see ``make_consumer``."""
    return _make(Producer, properties, overrides)


def check_addressed(properties: Mapping[str, str]) -> None:
    """Raise SettingsError if no broker is named."""
    if not {"bootstrap.servers", "metadata.broker.list"} & properties.keys():
        raise SettingsError(
            "[kafka] bootstrap.servers is not set and no local stack is running; `tabletopic up` starts one"
        )


def _make(kind: Callable[[dict[str, Any]], T], properties: Mapping[str, str], extra: Mapping[str, Any]) -> T:
    check_addressed(properties)
    ours = {key if key == "error_cb" else key.replace("_", "."): value for key, value in extra.items()}
    try:
        return kind({"log_level": 0, "logger": _LOG, **properties, **ours})
    except KafkaException as error:
        raise SettingsError(f"[kafka] {error.args[0].str()}") from error
