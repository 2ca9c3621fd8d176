"""The examples of docs/how-to/transforms.md, and the query of change-data.md, are what happens."""

from __future__ import annotations

import json
import random
import re
import tomllib
from pathlib import Path as File
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

from tabletopic_kernel.model.settings.sections import TopicSettings
from tests.pipeline.test_debezium import event, plain
from tests.pipeline.whole_path import Path
from tests.table.samples import sqlite_catalog
from tests.test_architecture import blocks

PAGE = (File(__file__).parents[2] / "docs/how-to/transforms.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def catalog(tmp_path: File) -> Catalog:
    """A catalog of the test's own."""
    root = tmp_path.as_posix()
    return sqlite_catalog(root)


def _blocks(kind: str) -> list[str]:
    return [text for found, text in BLOCKS if found == kind]


def test_the_example_of_a_projection(catalog: Catalog) -> None:
    """These records and settings make these rows, one letter and one record that is passed over."""
    records, rows = ([json.loads(line) for line in text.splitlines()] for text in _blocks("json"))
    path = Path(catalog, TopicSettings(**tomllib.loads(_blocks("toml")[1])["topics"]["orders"]))
    found = path.send(*map(plain, records))
    assert [{name: row[name] for name in row if name != "@"} for row in json.loads(_text(found))] == rows
    assert (path.dead_letters, path.result.passed_over) == ({3: "projection_failed"}, {"filtered": 1})


def _text(rows: object) -> str:
    return json.dumps(rows, default=str)


def test_the_example_of_times_of_change_events(catalog: Catalog) -> None:
    """Debezium's microseconds become a timestamp."""
    settings = tomllib.loads(_blocks("toml")[2])["topics"]["customers"]
    path = Path(catalog, TopicSettings(**settings, value_format="json"))
    (row,) = path.send(plain(event("c", None, {"id": 1, "created_at": 1_772_359_200_000_001})))
    assert row["created_at"].isoformat() == "2026-03-01T10:00:00.000001"
    assert path.columns()["created_at"] == "timestamp"


@pytest.mark.parametrize("seed", range(8))
def test_the_query_for_the_newest_state(catalog: Catalog, seed: int) -> None:
    """It shows what the database has, after truncates, moved keys and repeats, in any order of partitions."""
    chance, database, changes = random.Random(seed), dict[int, str](), list[tuple[int, dict[str, Any]]]()

    def log(op: str, before: Any, after: Any, lsn: int) -> None:
        change = event(op, before, after)
        change["source"] |= {"lsn": lsn, "snapshot": "false"}
        changes.append((chance.randrange(3), change))

    log("r", None, {"id": 0, "name": "first"}, 0)
    database[0] = "first"
    for lsn in range(1, 60):
        key, name = chance.randrange(8), f"n{lsn}"
        if chance.random() < 0.05:
            log("t", None, None, lsn)
            database.clear()
        elif key not in database:
            log("c", None, {"id": key, "name": name}, lsn)
            database[key] = name
        elif chance.random() < 0.3:
            log("d", {"id": key}, None, lsn)
            name = database.pop(key)
            other = (key + chance.randrange(1, 8)) % 8
            if other not in database:  # the key changed: one lsn
                log("c", None, {"id": other, "name": name}, lsn)
                database[other] = name
        else:
            log("u", None, {"id": key, "name": name}, lsn)
            database[key] = name
    changes += changes[-25:-10]  # sent again
    changes.sort(key=lambda one: one[0])
    path = Path(catalog, TopicSettings(transform="flatten_debezium", value_format="json"))
    rows = path.send(*(plain(change) for _, change in changes))
    assert path.dead_letters == {}
    columns = ("id", "name", "_cdc")
    customers = pa.Table.from_pylist([{name: row[name] for name in columns} for row in rows])
    connection = duckdb.connect()
    connection.register("customers", customers)
    _, text = blocks("docs/how-to/change-data.md", "sql")
    text = text.replace("shop_public_customers", "customers")
    assert {row[0]: row[1] for row in connection.execute(text).fetchall()} == database
