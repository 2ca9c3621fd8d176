"""A topic in detail: newest records, schema versions, snapshots, events, and commits on request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tabletopic_kernel.host.host import Host
from tabletopic_kernel.local.machine import now_ms
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.workbench.hosts import HostStatus
from tabletopic_kernel.workbench.workbench import Workbench
from tests.recovery.waiting import wait_until

pytestmark = pytest.mark.story
V1 = '{"type":"record","name":"Look","fields":[{"name":"n","type":"int"},{"name":"city","type":"string"}]}'
V2 = (
    '{"type":"record","name":"Look","fields":[{"name":"n","type":"long"},{"name":"city","type":"string"},'
    '{"name":"zip","type":["null","string"],"default":null}]}'
)


def test_the_newest_records_are_seen_before_any_table(
    bench: Workbench, new_topic: Callable[..., Any]
) -> None:
    """Decoded by their schema ids; bad ones with the reason, those without a value as such; newest first."""
    sender = new_topic(partitions=2)
    sender.avro(V1, *({"n": n, "city": "Delft"} for n in range(8)), partition=0)
    sender.raw(b"no schema id", partition=1)
    sender.raw(None, partition=1)
    sender.raw(b"\x00\x00\x0f\x42\x3frest", partition=1)
    sender.flush()
    found = bench.topic(sender.topic).peek(6)
    assert [(one.partition, one.offset) for one in found[:3]] == [(1, 2), (1, 1), (1, 0)]
    unknown, empty, text, *rows = found
    assert "999999" in str(unknown.error)
    assert unknown.schema_id == 999_999
    assert (empty.value, empty.error, empty.raw) == (None, None, None)
    assert "no_schema_id" in str(text.error)
    assert [row.value for row in rows] == [{"n": n, "city": "Delft"} for n in (7, 6, 5)]
    assert len(bench.topic(sender.topic).peek(100)) == 11


@pytest.mark.parametrize(
    ("value_format", "raw", "value"),
    [
        ("string", b"plain", {"_kafka_value": "plain"}),
        ("raw", b"\xff", {"_kafka_value": b"\xff"}),
        ("json", b'{"a": 1, "b": {"c": [2]}}', {"a": 1, "b": {"c": [2]}}),
    ],
)
def test_values_without_a_schema_are_read_as_the_settings_say(
    bench: Workbench, new_topic: Callable[..., Any], value_format: str, raw: bytes, value: dict[str, Any]
) -> None:
    """The format of a topic that is enabled is the one that counts."""
    sender = new_topic()
    sender.raw(raw)
    sender.flush()
    bench.enable(sender.topic, {"value_format": value_format})
    try:
        (found,) = bench.topic(sender.topic).peek()
    finally:
        bench.disable(sender.topic)
    assert (found.value, found.error) == (value, None)


def test_a_topic_that_is_not_there_is_told(bench: Workbench) -> None:
    """No record is waited for where there is no topic."""
    with pytest.raises(UsageError, match="there is no topic"):
        bench.topic("nowhere_at_all").peek()


def test_a_live_host_reports_what_it_is(bench: Workbench, host: Host, new_topic: Callable[..., Any]) -> None:
    """Before it runs a topic, and with the topic; other programs read the same from the control topic."""

    def found() -> HostStatus | None:
        return next(
            (status for status in bench.host_statuses() if status.host == host.id and status.version), None
        )

    one = wait_until("a report", found)
    assert one is not None
    assert one.started_ms is not None
    assert 0 < now_ms() - one.started_ms < 24 * 3600 * 1000
    assert one.memory_bytes is not None
    assert one.memory_bytes > 20 * 2**20
    sender = new_topic()
    bench.enable(sender.topic)
    try:
        wait_until("the topic runs", lambda: (one := found()) is not None and sender.topic in one.topics)
    finally:
        bench.disable(sender.topic)
    wait_until("it is gone", lambda: (one := found()) is not None and sender.topic not in one.topics)
    assert all(event.type != "HostHeartbeat" for event in bench.newest_events())


def test_a_commit_on_request_does_not_wait_for_the_interval(
    bench: Workbench, host: Host, new_topic: Callable[..., Any]
) -> None:
    """All that is in the topic is committed when somebody asks; other wishes do not repeat the request."""
    sender = new_topic()
    sender.avro(V1, *({"n": n, "city": "Delft"} for n in range(5)))
    topic = bench.topic(sender.topic)
    topic.enable(commit_interval_ms="1h")
    try:
        wait_until("the records are staged", lambda: topic.status().staged_rows == 5)
        assert topic.status().rows == 0
        topic.commit()
        wait_until("the records are committed", lambda: topic.status().rows == 5)
        history = topic.history()
        assert history[-1].added_rows == 0  # it claimed the table
        (committed,) = [one for one in history if one.added_rows]
        assert (committed.added_rows, committed.next_offsets) == (5, {0: 5})
        assert history[0].to_json()["snapshot_id"] == str(topic.status().snapshot_id)
        events = topic.events(20)
        kinds = [event.type for event in events]
        assert kinds.index("Committed") < kinds.index("CommitRequested")
        assert kinds.count("CommitRequested") == 1
        assert [event.at_ms for event in events] == sorted((event.at_ms for event in events), reverse=True)
        assert "Heartbeat" not in kinds
        assert len(topic.events(2)) == 2
        for rows in (8, 11):  # Spark would read them in an hour
            sender.avro(V1, *({"n": n, "city": "Delft"} for n in range(3)))
            topic.commit()
            wait_until(
                "what was not read yet is committed too", lambda rows=rows: topic.status().rows == rows
            )
        assert topic.history()[0].next_offsets == {0: 11}
    finally:
        topic.disable()


def test_versions_of_the_schema_and_what_they_change(
    bench: Workbench, host: Host, new_topic: Callable[..., Any], caught_up: Callable[..., Any]
) -> None:
    """The table's columns, those of a version, and the difference of two, in words."""
    sender = new_topic()
    topic = bench.topic(sender.topic)
    sender.avro(V1, {"n": 1, "city": "Delft"})
    assert [version.table_schema_id for version in topic.schema().versions] == [None]  # there is no table yet
    with pytest.raises(UsageError, match="there is no topic 'mistyped'"):
        bench.topic("mistyped").schema()
    topic.enable(commit_interval_ms=300)
    try:
        caught_up(sender.topic)
        sender.register(V2)
        schema = topic.schema()
        assert [(one.version, one.table_schema_id is None) for one in schema.versions] == [
            (1, False),
            (2, True),
        ]
        assert schema.columns[0].type == "int"
        assert {column.name for column in topic.schema(version=2).columns} == {"n", "city", "zip"}
        assert topic.schema_diff(1, 2) == ["widen n int → long", "add zip string"]
        with pytest.raises(UsageError, match="has no version 7; existing versions: 1, 2"):
            topic.schema_diff(1, 7)
    finally:
        topic.disable()


def test_a_dropped_topic_begins_anew(
    bench: Workbench, host: Host, new_topic: Callable[..., Any], caught_up: Any
) -> None:
    """A plan, then nothing of it is left but the records: enabled again, they are read from the start."""
    sender = new_topic()
    sender.avro(V1, *({"n": n, "city": "Delft"} for n in range(20)))
    sender.raw(b"no schema id")
    sender.flush()
    topic = bench.topic(sender.topic)
    topic.enable(commit_interval_ms=200)
    caught_up(sender.topic)
    table = bench.table_of(sender.topic)
    plan = topic.drop(dry_run=True)
    assert [(each.table, each.rows) for each in plan.tables] == [(table, 20), (f"{table}__dead_letters", 1)]
    assert topic.drop().done
    assert sender.topic not in bench.desired_topics()
    with pytest.raises(UsageError, match="name the table"):
        topic.drop()
    with pytest.raises(UsageError, match="nothing to drop"):
        topic.drop(table)
    topic.enable(commit_interval_ms=200)
    caught_up(sender.topic)
    assert topic.status().rows == 20
