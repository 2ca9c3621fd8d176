"""Which topics may be table topics, by their names."""

from __future__ import annotations

import pytest

from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.topic_names import check_table_topic, check_topic_name, internal_owner


@pytest.mark.parametrize(
    "name",
    [
        "__consumer_offsets", "__transaction_state", "__cluster_metadata", "__share_group_state",
        "__remote_log_metadata", "__tabletopic.settings", "__tabletopic.control", "_schemas",
        "_schemas_schemaregistry_confluent", "_confluent-command", "_confluent-ksql-default__command_topic",
        "__confluent.support.metrics", "connect-configs", "connect-offsets", "connect-status",
        "docker-connect-status", "my_connect_offsets", "mm2-offset-syncs.west.internal",
        "west.checkpoints.internal", "shop-KSTREAM-AGGREGATE-STATE-STORE-0000000003-changelog",
        "shop-KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition", "kafkasql-journal",
        "__amazon_msk_canary",
    ],
)  # fmt: skip
def test_internal_topics_are_told(name: str) -> None:
    """Topics in which programs keep their state are refused, and the message says whose each is."""
    assert internal_owner(name)
    with pytest.raises(UsageError, match="cannot be a table topic"):
        check_table_topic(name)


@pytest.mark.parametrize(
    "name",
    [
        "clicks", "web.orders", "_private", "__debezium-heartbeat.shop", "shop.transaction", "schemas",
        "db-changelog", "connected-devices", "connect.orders", "disconnect_status_events", "x" * 249,
    ],
)  # fmt: skip
def test_topics_of_events_are_not_taken_for_internal(name: str) -> None:
    """A name that only looks a little like an internal one may be a table topic."""
    check_table_topic(name)


@pytest.mark.parametrize("name", ["", ".", "..", "no'such", "a b", "ü", "a/b", "a\n", "x" * 250, "x" * 5_000])
def test_names_that_kafka_cannot_have(name: str) -> None:
    """They are a mistake of the person who asks, whatever the broker would say; the message is short."""
    with pytest.raises(UsageError, match="is not a valid topic name") as told:
        check_topic_name(name)
    assert len(str(told.value)) < 200
