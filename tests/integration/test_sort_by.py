"""A topic whose table has a sort order: every file is in it, through a change and a compaction."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFile
from pyspark.sql.functions import expr

from tabletopic_kernel.workbench.workbench import Workbench
from tests.integration.conftest import Sender
from tests.recovery.waiting import wait_until

pytestmark = [pytest.mark.story, pytest.mark.usefixtures("host")]

SCHEMA = """{"type": "record", "name": "Visit", "fields": [
    {"name": "id", "type": "int"}, {"name": "town", "type": ["null", "string"]}]}"""


def _rows(numbers: range) -> list[dict[str, Any]]:
    return [{"id": n * 7919 % 1000, "town": None if n % 5 == 0 else f"town {n % 7}"} for n in numbers]


def test_files_are_sorted_through_a_change_and_a_compaction(
    bench: Workbench, new_topic: Callable[..., Sender], caught_up: Callable[..., Any]
) -> None:
    """Each file says the order that it has, and all engines read the same rows."""
    sender = new_topic()
    topic, sent = bench.topic(sender.topic), 40
    sender.avro(SCHEMA, *_rows(range(sent)))
    topic.enable(commit_interval_ms="300ms", sort_by=("town desc nulls first", "id"))

    def send() -> None:
        nonlocal sent
        for _ in range(3):
            sender.avro(SCHEMA, *_rows(range(sent, sent + 40)))
            sent += 40
            caught_up(sender.topic)

    send()
    table = bench.open_catalog().load_table(f"default.{sender.topic.replace('-', '_')}")
    assert {file.sort_order_id for file in _files(table)} == {1}
    epoch = topic.status().epoch
    topic.alter(sort_by=("id",))
    wait_until(
        "the new order is in force",
        lambda: topic.status().epoch > epoch and topic.status().state == "running",
    )
    send()
    assert {file.sort_order_id for file in _files(table)} == {1, 2}
    _check(bench, table, sent)
    before = len(_files(table))
    done = topic.compact()
    assert done is not None
    assert done.error is None

    assert len(_files(table)) < before
    assert {file.sort_order_id for file in _files(table)} == {2}
    _check(bench, table, sent)
    _go_on_beside_spark(bench, sender, table, send)
    _check(bench, table, sent)


def _go_on_beside_spark(bench: Workbench, sender: Sender, table: Any, send: Callable[[], None]) -> None:
    """Spark sees the order, writes by it, gives the table another one, and drops a column that was in it."""
    spark, name = bench.spark(), f"lake.{'.'.join(table.name())}"

    def order() -> str:
        spark.sql(f"REFRESH TABLE {name}")
        properties = {row["key"]: row["value"] for row in spark.sql(f"SHOW TBLPROPERTIES {name}").collect()}
        return str(properties.get("sort-order"))

    assert order() == "id ASC NULLS FIRST"
    more = spark.table(name).limit(3).withColumn("id", expr("CAST(id + 5000 AS INT)"))
    more.writeTo(name).append()
    spark.sql(f"DELETE FROM {name} WHERE id >= 5000")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN note STRING")
    spark.sql(f"ALTER TABLE {name} WRITE ORDERED BY note DESC, id")
    send()
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN note TO remark")
    assert order() == "remark DESC NULLS LAST, id ASC NULLS FIRST"
    send()
    with pytest.raises(Exception, match="sort field"):  # Iceberg wants the order changed first
        spark.sql(f"ALTER TABLE {name} DROP COLUMN remark")
    spark.sql(f"ALTER TABLE {name} WRITE ORDERED BY id")
    spark.sql(f"ALTER TABLE {name} DROP COLUMN remark")
    send()
    assert order() == "id ASC NULLS FIRST"


def _files(table: Any) -> list[DataFile]:
    return [task.file for task in table.refresh().scan().plan_files()]


def _check(bench: Workbench, table: Any, sent: int) -> None:
    for file in _files(table):
        path = file.file_path.removeprefix("file://")
        rows = pq.ParquetFile(path).read(columns=["town", "id"]).to_pylist()
        if file.sort_order_id != 1:  # by id, or by a column of others, null in all rows, and id
            keys = [row["id"] for row in rows]
            assert keys == sorted(keys)
        else:
            towns = [(row["town"] is None, row["town"] or "") for row in rows]
            assert towns == sorted(towns, reverse=True)
            assert all(a["id"] <= b["id"] for a, b in pairwise(rows) if a["town"] == b["town"])
    wanted = sorted((row["id"], row["town"] or "") for row in _rows(range(sent)))
    scanned = table.scan(selected_fields=("id", "town")).to_arrow().to_pylist()
    name = ".".join(table.name())
    asked = [
        bench.query(f"SELECT id, town FROM {name}", engine).rows.to_pylist() for engine in ("duckdb", "spark")
    ]
    for found in (scanned, *asked):
        assert sorted((row["id"], row["town"] or "") for row in found) == wanted
