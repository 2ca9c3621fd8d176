"""A table that is kept by key equals what its topic says last, on the real servers."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from tabletopic_kernel.workbench.workbench import Workbench
from tests.integration.conftest import Sender
from tests.integration.together import Story, together
from tests.pipeline.test_debezium import COLUMNS, envelope, event

pytestmark = [pytest.mark.story, pytest.mark.usefixtures("host")]
V1 = json.dumps(envelope(*COLUMNS))
FAST = {"commit_interval_ms": "500ms", "mode": "upsert"}


def _state(bench: Workbench, topic: str, key: str, value: str, engine: str = "duckdb") -> dict[Any, Any]:
    """The table's rows by key; a key with two rows is an error."""
    answer = bench.query(f"SELECT {key} AS k, {value} AS v FROM {bench.table_of(topic)}", engine=engine)
    rows = [(row["k"], row["v"]) for row in answer.rows.to_pylist()]
    assert len(dict(rows)) == len(rows)
    return dict(rows)


@together(partitions=3)
def test_updates_and_tombstones_by_the_kafka_key(bench: Workbench, sender: Sender) -> Story:
    """The newest value of each key, as DuckDB and Spark read it; a record without a key is a letter."""
    dice, model = Random(1), dict[str, str]()

    def send(count: int) -> None:
        for number in range(count):
            key = f"k{dice.randrange(40)}"
            if dice.random() < 0.2:
                model.pop(key, None)
                sender.raw(None, None, key=key.encode())
            else:
                model[key] = f"v{number}"
                sender.raw(model[key].encode(), model[key], key=key.encode())
        sender.flush()

    send(300)
    yield {**FAST, "value_format": "string", "key_format": "string"}
    for _ in range(3):
        send(100)
        yield None
    sender.raw(b"nobody", None, key=None)
    status = yield None
    assert (status.refused, status.rows) == ({"no_key": 1}, len(model))
    for engine in ("duckdb", "spark"):
        assert _state(bench, sender.topic, "_kafka_key", "_kafka_value", engine) == model


@together()
def test_change_events_by_column(bench: Workbench, sender: Sender) -> Story:
    """Deletes, a changed key and a truncate; what is sent again changes nothing."""

    def row(number: int, name: str) -> dict[str, Any]:
        return {"id": number, "first_name": name, "email": f"{number}@shop"}

    def change(op: str, before: Any, after: Any, lsn: int) -> dict[str, Any]:
        made = event(op, before, after)
        made["source"]["lsn"] = lsn
        return made

    old = [change("c", None, row(n, "a"), n) for n in range(1, 6)]
    sender.avro(V1, *old)
    yield {**FAST, "transform": "flatten_debezium", "key": "id"}
    sender.avro(V1, change("u", row(1, "a"), row(1, "b"), 11), change("d", row(2, "a"), None, 12))
    sender.raw(None)
    sender.avro(V1, change("u", row(3, "a"), row(30, "c"), 13))
    large = {**row(4, "a"), "email": "__debezium_unavailable_value"}
    sender.avro(V1, change("u", None, large, 14), change("u", None, {**large, "first_name": "e"}, 15))
    sender.avro(V1, change("d", row(5, "a"), None, 16), change("c", None, {**large, "id": 50}, 16))
    yield None
    emails = {1: "1@shop", 4: "4@shop", 30: "30@shop", 50: "5@shop"}
    for engine in ("duckdb", "spark"):
        assert _state(bench, sender.topic, "id", "email", engine) == emails
    sender.avro(V1, *old)  # as Connect does after a crash
    status = yield None
    assert _state(bench, sender.topic, "id", "first_name") == {1: "b", 4: "e", 50: "a", 30: "c"}
    assert status.rows == 4
    sender.avro(V1, change("t", None, None, 20), change("c", None, row(7, "d"), 21))
    status = yield None
    assert _state(bench, sender.topic, "id", "first_name") == {7: "d"}
    assert status.passed_over == {"delete": 2, "tombstone": 1, "truncate": 1}
    assert (status.rows, status.dead_letters) == (1, 0)


@together(partitions=2)
def test_the_state_and_the_history_of_one_topic(bench: Workbench, sender: Sender) -> Story:
    """Two tables of one topic, each with settings, a ledger and dead letters of its own."""
    history = f"{sender.topic}@history"
    sender.raw(b"one", None, key=b"a")
    sender.raw(b"two", None, key=b"a")
    sender.raw(b"nobody", None, key=None)
    sender.flush()
    bench.enable(history, {"value_format": "string", "commit_interval_ms": "500ms"})
    try:
        status = yield {**FAST, "value_format": "string", "key_format": "string"}
        assert (status.rows, status.refused) == (1, {"no_key": 1})
        assert _state(bench, sender.topic, "_kafka_key", "_kafka_value") == {"a": "two"}
        bench.topic(history).wait()
        values = _state(bench, history, "_kafka_value", "_kafka_metadata.offset")
        assert values.keys() == {"one", "two", "nobody"}
        assert bench.table_of(history) == bench.table_of(sender.topic) + "_history"
    finally:
        bench.disable(history)
