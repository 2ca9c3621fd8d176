"""The examples of docs/how-to/transforms.md are what happens."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path as File

import duckdb
import pytest
from pyiceberg.catalog import Catalog

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.model.settings.sections import TopicSettings
from tests.pipeline.test_debezium import event, plain
from tests.pipeline.whole_path import Path

PAGE = (File(__file__).parents[2] / "docs/how-to/transforms.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def catalog(tmp_path: File) -> Catalog:
    """A catalog of the test's own."""
    root = tmp_path.as_posix()
    return open_catalog(
        {"name": "lake", "type": "sql", "uri": f"sqlite:///{root}/c.db", "warehouse": f"file://{root}/w"}
    )


def _blocks(kind: str) -> list[str]:
    return [text for found, text in BLOCKS if found == kind]


def test_the_example_of_a_projection(catalog: Catalog) -> None:
    """These records and settings make these rows, one letter and one record that is passed over."""
    records, rows = ([json.loads(line) for line in text.splitlines()] for text in _blocks("json"))
    path = Path(catalog, TopicSettings(**tomllib.loads(_blocks("toml")[0])))
    found = path.send(*map(plain, records))
    assert [{name: one[name] for name in one if name != "@"} for one in json.loads(_text(found))] == rows
    assert (path.dead_letters, path.result.passed_over) == ({3: "projection_failed"}, {"filtered": 1})


def _text(rows: object) -> str:
    return json.dumps(rows, default=str)


def test_the_example_of_times_of_change_events(catalog: Catalog) -> None:
    """Debezium's microseconds become a timestamp."""
    settings = tomllib.loads(_blocks("toml")[1])
    path = Path(catalog, TopicSettings(**settings, value_format="json"))
    (row,) = path.send(plain(event("c", None, {"id": 1, "created_at": 1_772_359_200_000_001})))
    assert row["created_at"].isoformat() == "2026-03-01T10:00:00.000001"
    assert path.columns()["created_at"] == "timestamp"


def test_the_query_for_the_newest_state() -> None:
    """Of each key the newest change counts, and a deleted one is gone."""
    changes = [(1, "I", 0), (2, "I", 1), (1, "U", 2), (2, "D", 3)]
    rows = ", ".join(f"({key}, {{'op': '{op}', 'offset': {at}}})" for key, op, at in changes)
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE customers AS SELECT * FROM (VALUES {rows}) AS t(id, _cdc)")
    (text,) = _blocks("sql")
    assert [(row[0], row[1]["offset"]) for row in connection.execute(text).fetchall()] == [(1, 2)]
