"""What the demo reads from the table at the end."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from tabletopic_kernel.demo import proof
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.model.progress.events import SchemaEvolved
from tabletopic_kernel.table.schemas.covered import CoveredSchema
from tests.demo.made_up import METADATA, rows_of_events


def _ledger(offset: int, epoch: int, commit_id: str) -> dict[str, str]:
    return Ledger("clicks", "cluster", "topic", {0: offset}, epoch, commit_id).to_summary()


def test_history_is_read_from_the_table_alone(tmp_path: Path) -> None:
    """Commits with their epochs and waits, foreign snapshots left out, schemas with their causes."""
    rows, _ = rows_of_events()
    data = pa.table({"_kafka_metadata": pa.array([row["_kafka_metadata"] for row in rows[:8:4]], METADATA)})
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("default")
    table = catalog.create_table("default.clicks", data.schema)
    table.append(data.slice(0, 1), snapshot_properties=_ledger(1, 1, "a"))
    table.append(data.slice(0, 0))  # somebody else's
    table.append(data.slice(0, 0), snapshot_properties=_ledger(1, 2, "b"))
    table.append(data.slice(1, 1), snapshot_properties=_ledger(2, 2, "c"))
    connection = duckdb.connect()
    connection.register("clicks", data)

    commits = proof.commits(lambda sql: connection.execute(sql).fetchall(), "clicks", table.metadata)
    assert [(commit.epoch, commit.rows, commit.next_offsets_sum) for commit in commits] == [
        (1, 1, 1),
        (2, 0, 1),
        (2, 1, 2),
    ]
    assert [one.oldest_ms for one in commits] == [0, None, 4]
    assert commits[1].waited_s is None
    assert commits[2].waited_s == ((commits[2].at_ms - 4) / 1000,) * 2

    evolved = SchemaEvolved(topic="clicks", at_ms=1, changes=["widen a"], cause=None, table_schema_id=0)
    [step] = proof.schemas(table.metadata, {5: CoveredSchema(5, "clicks-value", 2, 0)}, [evolved])
    assert step == proof.SchemaStep(0, 4, ("widen a",), ("clicks-value version 2 (id 5)",))
