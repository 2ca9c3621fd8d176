"""Metadata is parsed once, and copied without its history."""

from __future__ import annotations

import gc
import json
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg import serializers
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.snapshots import Snapshot
from sqlalchemy import text

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.clients.catalog.pyiceberg_seams import tables
from tests.table.histories import place_of

_NAME = "default.t"
_ROW = pa.table({"id": [1]})


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """A catalog with a table of two snapshots."""
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }
    made = open_catalog(properties)
    made.create_namespace("default")
    made.create_table(_NAME, _ROW.schema).append(_ROW)
    made.load_table(_NAME).append(_ROW)
    yield made
    made.close()


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records what is parsed from now on."""
    texts = list[str]()

    class Counting(TableMetadataUtil):
        @staticmethod
        def parse_raw(data: str) -> TableMetadata:
            texts.append(data)
            return TableMetadataUtil.parse_raw(data)

    monkeypatch.setattr(serializers, "TableMetadataUtil", Counting)
    return texts


def in_file(table: Table) -> TableMetadata:
    """What another process reads at the table's location."""
    return TableMetadataUtil.parse_raw(place_of(table.metadata_location).read_text())


def test_what_was_written_is_not_read(catalog: Catalog, parsed: list[str]) -> None:
    """Neither by who wrote it nor by the catalog, and it is what the file has, after each kind of change."""
    table = catalog.load_table(_NAME)
    parsed.clear()
    table.append(_ROW)
    table.manage_snapshots().create_tag(table.metadata.snapshots[0].snapshot_id, "kept").commit()
    with table.transaction() as change:
        change.set_properties({"a": "1"})
    with table.update_schema() as evolution:
        evolution.add_column("b", table.schema().find_type("id"))
    table.maintenance.expire_snapshots().by_id(table.metadata.snapshots[1].snapshot_id).commit()
    assert catalog.load_table(_NAME).metadata is table.metadata
    assert parsed == []
    assert table.metadata == in_file(table)
    assert table.metadata.model_dump_json() == in_file(table).model_dump_json()


def written_by_another(catalog: Catalog, **changes: Any) -> str:
    """Commit like another process: a new file, which the catalog then refers to."""
    now = place_of(catalog.load_table(_NAME).metadata_location)
    new = now.with_name(f"00009-{uuid.uuid4()}.metadata.json")
    new.write_text(json.dumps(json.loads(now.read_text()) | changes))
    with catalog.engine.begin() as connection:  # type: ignore[attr-defined]
        connection.execute(
            text("UPDATE iceberg_tables SET metadata_location = :new"), {"new": f"file://{new}"}
        )
    return str(new)


def test_what_others_commit_is_read_once(catalog: Catalog, parsed: list[str], tmp_path: Path) -> None:
    """The next commit is made to it; a name that may be used again is read again."""
    table = catalog.load_table(_NAME)
    parsed.clear()
    written_by_another(catalog, properties={"theirs": "1"})
    fresh = catalog.load_table(_NAME)
    assert fresh.properties == {"theirs": "1"}
    assert table.properties == {}
    fresh.append(_ROW)
    assert len(parsed) == 1
    assert (in_file(fresh).properties, len(in_file(fresh).snapshots)) == ({"theirs": "1"}, 3)
    place = tmp_path / "v1.metadata.json"
    shutil.copy(place_of(table.metadata_location), place)
    first = tables.read_metadata(table.io.new_input(f"file://{place}"))
    place.write_text(json.dumps(json.loads(place.read_text()) | {"properties": {"new": "1"}}))
    second = tables.read_metadata(table.io.new_input(f"file://{place}"))
    assert (first.properties, second.properties) == ({}, {"new": "1"})


def test_nothing_piles_up(catalog: Catalog) -> None:
    """What no table holds any more is forgotten."""
    table = catalog.load_table(_NAME)
    locations = {table.metadata_location}
    for _ in range(3):
        table.append(_ROW)
        locations.add(table.metadata_location)
    gc.collect()
    assert set(tables._known) & locations == {table.metadata_location}
    texts = {id(snapshot) for snapshot in table.metadata.snapshots}
    assert len(texts) == 5
    assert texts <= set(tables._texts)
    del table
    gc.collect()
    assert not set(tables._known) & locations
    assert not texts & set(tables._texts)


@pytest.mark.parametrize("properties", [{}, {"a": '"snapshots":[]', '"snapshots":[]': "b"}])
@pytest.mark.parametrize("version", ["1", "2"])
def test_the_json_is_pyicebergs(
    catalog: Catalog, version: str, properties: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the byte, whatever the metadata says; that of a snapshot is made once, for all commits."""
    made = list[int]()
    dump = Snapshot.model_dump_json
    monkeypatch.setattr(
        Snapshot, "model_dump_json", lambda self, **how: made.append(self.snapshot_id) or dump(self, **how)
    )
    table = catalog.create_table(
        "default.o", _ROW.schema, properties=properties | {"format-version": version}
    )
    for number in range(4):
        table.append(_ROW)
        assert place_of(table.metadata_location).read_text() == table.metadata.model_dump_json()
        assert len(table.metadata.snapshots) == number + 1
    assert sorted(made) == sorted({*made})
    assert len(made) == (4 if version == "2" else 0)
