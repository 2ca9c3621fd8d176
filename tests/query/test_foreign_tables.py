"""Tables of other programs beside ours: read where PyIceberg and DuckDB can, one plain line else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tabletopic_kernel.model.errors import ActionNeededError
from tabletopic_kernel.query.duckdb import DuckLake

Change = Callable[[dict[str, Any]], None]


def _column(kind: str, **more: Any) -> Change:
    def change(metadata: dict[str, Any]) -> None:
        field = {"id": 2, "name": "v", "type": kind, "required": False, **more}
        metadata["schemas"][0]["fields"].append(field)
        metadata["last-column-id"] = 2

    return change


def _version_4(metadata: dict[str, Any]) -> None:
    metadata["format-version"] = 4


def _nothing(metadata: dict[str, Any]) -> None:
    pass


def make_foreign(catalog: Catalog, name: str, change: Change) -> None:
    """A table of version 3 with two rows, and with a change of its metadata that PyIceberg cannot make."""
    table = catalog.create_table(f"default.{name}", Schema(NestedField(1, "id", LongType(), required=False)))
    table.append(pa.table({"id": pa.array([2, 3], pa.int64())}))
    path = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text()) | {"format-version": 3, "next-row-id": 2}
    change(metadata)
    # A new name, as the metadata of a name is remembered.
    other = path.with_name(path.name.replace("00001-", "00002-"))
    other.write_text(json.dumps(metadata))
    catalog.drop_table(f"default.{name}")
    _register(catalog, name, f"file://{other}")


def _register(catalog: Any, name: str, location: str) -> None:
    with catalog.engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location) "
            "VALUES (?, 'default', ?, ?)",
            (catalog.name, name, location),
        )


@pytest.mark.parametrize(
    ("change", "read"),
    [
        (_nothing, [2, 3]),
        (_column("long", **{"initial-default": 7, "write-default": 7}), [2, 3]),
        (_column("variant"), None),
        (_column("geometry(srid:4326)"), None),
        (_version_4, None),
    ],
    ids=["version 3", "default", "variant", "geometry", "version 4"],
)
def test_a_table_of_a_newer_format_breaks_no_other(
    catalog: Catalog, own: DuckLake, change: Change, read: list[int] | None
) -> None:
    """It is listed, others are read, and a query that needs it gets its rows, or a line with its name."""
    make_foreign(catalog, "theirs", change)
    assert "theirs" in own.sql("SHOW TABLES")["name"].to_pylist()
    assert own.sql("SELECT count(*) FROM clicks").to_pylist() == [{"count_star()": 3}]
    join = "SELECT id FROM clicks JOIN theirs USING (id) ORDER BY id"
    if read is not None:
        assert own.sql(join)["id"].to_pylist() == read
        return
    with pytest.raises(ActionNeededError, match=r"^default\.theirs: the table cannot be read [^\n]*$"):
        own.sql(join)


def test_a_default_of_another_program_is_read(catalog: Catalog, own: DuckLake) -> None:
    """Rows that were written before the column have the value that it says."""
    make_foreign(catalog, "theirs", _column("long", **{"initial-default": 7, "write-default": 7}))
    assert own.sql("SELECT v FROM theirs")["v"].to_pylist() == [7, 7]
