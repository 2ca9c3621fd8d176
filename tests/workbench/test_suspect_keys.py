"""Keys whose rows may be too old, as a change of theirs is a dead letter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.pipeline.conform import conform, file_schema
from tabletopic_kernel.render.records import suspect_keys_table
from tabletopic_kernel.workbench.peek.suspect_keys import SuspectKey, suspect_keys
from tests.table.samples import TOPIC, sqlite_catalog
from tests.table.test_upsert import Upserts

REGISTRY: Any = None


def test_keys_of_dead_letters_are_listed(tmp_path: Path) -> None:
    """With the newest letter of each, also of records without a key; none before there are letters."""
    table = Upserts(sqlite_catalog(tmp_path))
    assert suspect_keys(TOPIC, table.settings, REGISTRY, table.catalog, None).keys == []
    table.letters.ensure(table.lake.topic, table.lake.ledger)
    assert table.letters.table is not None
    letters = [(b"b", 0, 4), (b"a", 1, 2), (b"a", 0, 9), (None, 0, 1), (b"\xff", 0, 2)]
    columns = {"topic": pa.array([TOPIC] * len(letters))}
    columns |= {
        name: pa.array([letter[at] for letter in letters]) for at, name in ((0, "key"), (2, "offset"))
    }
    columns |= {"partition": pa.array([letter[1] for letter in letters], pa.int32())}
    columns |= {name: pa.array(["bad"] * len(letters)) for name in ("reason", "message")}
    times = pa.array([1_000 * letter[2] for letter in letters], pa.timestamp("us", "UTC"))
    rows = conform(
        {**columns, "timestamp": times, "at": times}, 5, file_schema(table.letters.table.table.schema())
    )
    table.letters.table.table.append(pa.Table.from_batches([rows]))
    found = suspect_keys(TOPIC, table.settings, REGISTRY, table.catalog, None)
    assert found.keys[0] == SuspectKey("a", 2, 0, 9)
    assert {suspect.key: suspect.letters for suspect in found.keys[1:]} == {"b": 1, None: 1, "\\xff": 1}
    assert len(suspect_keys(TOPIC, table.settings, REGISTRY, table.catalog, "partition = 1").keys) == 1
    assert len(suspect_keys(TOPIC, table.settings, REGISTRY, table.catalog, "value is null").keys) == 4
    assert suspect_keys_table(found).rows[0] == ("a", "2", "0", "9")
    assert found.to_json()["keys"][0] == {"key": "a", "letters": 2, "partition": 0, "offset": 9}


def test_a_table_of_all_records_has_none(tmp_path: Path) -> None:
    """A dead letter leaves no row there as it was."""
    table = Upserts(sqlite_catalog(tmp_path))
    settings = table.settings.model_copy(update={"mode": "append", "key": (), "order_by": None})
    with pytest.raises(UsageError, match="a row for each record"):
        suspect_keys(TOPIC, settings, REGISTRY, table.catalog, None)
