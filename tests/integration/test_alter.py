"""A running topic gets other settings and another schema: nothing is lost, all engines read it correctly."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.progress.events import SchemaEvolved
from tabletopic_kernel.workbench.workbench import Workbench
from tests.integration.conftest import METADATA, Sender, rows_by_offset

pytestmark = [pytest.mark.story, pytest.mark.usefixtures("host")]

V1 = """{"type": "record", "name": "Visit", "fields": [
    {"name": "id", "type": "int"}, {"name": "town", "type": "string"}, {"name": "Id", "type": "string"}]}"""
V2 = """{"type": "record", "name": "Visit", "fields": [{"name": "id", "type": "long"},
    {"name": "city", "type": "string", "aliases": ["town"]}, {"name": "Id", "type": "string"}]}"""
BAD = """{"type": "record", "name": "Visit", "fields": [{"name": "id", "type": "string"},
    {"name": "town", "type": "string"}, {"name": "Id", "type": "string"}]}"""


def old(number: int) -> dict[str, Any]:
    """A record of V1."""
    return {"id": number, "town": f"town {number % 3}", "Id": str(number)}


def test_settings_and_schema_change_while_records_flow(
    bench: Workbench, new_topic: Callable[..., Sender], caught_up: Callable[..., Any], tmp_path: Path
) -> None:
    """Partitions change live, a schema that was tried first renames a column, and all rows are there once."""
    sender = new_topic(partitions=2)
    topic = bench.topic(sender.topic)
    sender.avro(V1, *map(old, range(50)))
    topic.enable(commit_interval_ms="500ms", partition_by=("bucket(2, id)",))
    caught_up(sender.topic)
    stop, numbers = threading.Event(), iter(range(50, 100_000))

    def send() -> None:
        while not stop.wait(0.05):
            sender.avro(V1, old(next(numbers)))

    flow = threading.Thread(target=send)
    flow.start()
    try:
        with pytest.raises(UsageError, match="value_format cannot be changed"):
            topic.alter(value_format="json")
        plan = bench.plan(sender.topic, {"partition_by": ("town",)})
        assert (plan.partition_by_before, plan.partition_by) == (["bucket(2, id)"], ["town"])
        epoch = topic.status().epoch
        topic.alter(partition_by=("town",), on_incompatible="new_column")
        desired = bench.desired_topic(sender.topic)
        assert (desired.settings.commit_interval_ms, desired.settings.on_incompatible) == (500, "new_column")
        _wait(lambda: topic.status().epoch > epoch and topic.status().state == "running")
        _try_schemas(bench, sender, tmp_path)
    finally:
        stop.set()
        flow.join()
    sender.avro(V2, *({"id": 2**40 + n, "city": "new", "Id": "x"} for n in range(20)))
    sender.avro(V1, *map(old, range(10)))
    caught_up(sender.topic)
    changes = [c for event in topic.events(100) if isinstance(event, SchemaEvolved) for c in event.changes]
    assert "partition by town, before by bucket(2, id)" in changes
    assert {"widen id int → long", "rename town to city"} <= set(changes)
    check(bench, sender)


def _try_schemas(bench: Workbench, sender: Sender, folder: Path) -> None:
    """A running topic, and the registry's own rule; nothing is registered or changed."""
    for name, text in {"next.avsc": V2, "bad.avsc": BAD}.items():
        (folder / name).write_text(text)
    plan = bench.plan(sender.topic, schema=folder / "next.avsc")
    assert plan.changes == ["widen id int → long", "rename town to city"]
    assert plan.partition_by == ["city"]
    assert "would accept it" in str(plan.registry)
    plan = bench.plan(sender.topic, {"on_incompatible": "dead_letter"}, schema=folder / "bad.avsc")
    assert plan.incompatible == {"id": "is int in the table and string in the new schema"}
    assert "would refuse it" in str(plan.registry)
    assert len(bench.registry.versions(f"{sender.topic}-value")) == 1


def _wait(done: Callable[[], bool]) -> None:
    from tests.recovery.waiting import wait_until

    wait_until("the topic runs with its new settings", done)


def check(bench: Workbench, sender: Sender) -> None:
    """Rows read by PyIceberg, DuckDB and Spark equal those sent; files have both specs."""
    expected = {
        (sent.partition, sent.offset): (
            sent.value["id"],
            sent.value.get("city", sent.value.get("town")),
            sent.value["Id"],
        )
        for sent in sender.sent
    }
    rows = rows_by_offset(bench, sender.topic)
    assert {place: (row["id"], row["city"], row["Id_2"]) for place, row in rows.items()} == expected
    name = bench.table_of(sender.topic)
    sql = f"SELECT {METADATA}.partition AS p, {METADATA}.offset AS o, id, city, Id_2 FROM {name}"
    for engine in ("duckdb", "spark"):
        found = bench.query(sql, engine).rows.to_pylist()  # type: ignore[arg-type]
        assert {(row["p"], row["o"]): (row["id"], row["city"], row["Id_2"]) for row in found} == expected
        assert len(found) == len(expected)
        counted = bench.query(f"SELECT count(*) AS n FROM {name} WHERE city = 'new'", engine)  # type: ignore[arg-type]
        assert counted.rows.to_pylist() == [{"n": 20}]
    with pytest.raises(UsageError) as wrong:  # in a few words, not as Spark's trace has it
        bench.query(f"SELECT * FROM {name}_typo", "spark")
    assert f"{name}_typo".rpartition(".")[2] in str(wrong.value)
    assert len(str(wrong.value).splitlines()) < 20
    files = bench.open_catalog().load_table(name).inspect.data_files().to_pylist()
    assert {file["spec_id"] for file in files} == {0, 1}
