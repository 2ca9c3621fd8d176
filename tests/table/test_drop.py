"""A table is dropped with its own files, and with nobody else's."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.schema import Schema
from pyiceberg.typedef import Identifier
from pyiceberg.types import LongType, NestedField
from requests.exceptions import ConnectionError as RequestsConnectionError

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.model.errors import StartOverError
from tabletopic_kernel.table.files.drop import claim_table, drop_table, plan_drop
from tabletopic_kernel.table.sweep import claim_files
from tests.table.histories import place_of
from tests.table.lake import Lake
from tests.table.samples import IDENTIFIER

SCHEMA = Schema(NestedField(1, "n", LongType()))


def files_below(location: str) -> list[Path]:
    """The files in a folder."""
    return sorted(path for path in place_of(location).rglob("*") if path.is_file())


def staged(lake: Lake) -> Path:
    """A file that an owner has staged and nobody committed."""
    (data,) = {Path(task.file.file_path).parent for task in lake.table.scan().plan_files()}
    path = place_of(str(data)) / "staged.parquet"
    path.write_bytes(b"half a file")
    return path


def test_a_dropped_table_leaves_no_file(catalog: Catalog) -> None:
    """Data of old snapshots, staged files, metadata and the claim of the folder go."""
    lake = Lake(catalog, SCHEMA)
    lake.append({"n": [1, 2, 3]})
    path = staged(lake)
    location = lake.table.location()
    plan = plan_drop(lake.table, "default.t")
    assert (plan.rows, plan.files) == (3, len(files_below(location)))
    assert plan.bytes > path.stat().st_size
    assert drop_table(claim_table(lake.table, "default.t", catalog), catalog).files == plan.files
    assert files_below(location) == []
    with pytest.raises(NoSuchTableError):
        catalog.load_table(IDENTIFIER)


def test_shared_files_stay(catalog: Catalog) -> None:
    """With gc.enabled = false, only the catalog forgets the table."""
    lake = Lake(catalog, SCHEMA, table_properties={"gc.enabled": "false"})
    lake.append({"n": [1]})
    before = files_below(lake.table.location())
    outcome = drop_table(claim_table(lake.table, "default.t", catalog), catalog)
    assert "stay" in outcome.note
    assert files_below(place_of(lake.topic.table.location()).as_uri()) == before
    assert not catalog.table_exists(IDENTIFIER)


def test_the_table_of_a_copied_catalog_stays(catalog: Catalog, tmp_path: Path) -> None:
    """Files belong to the catalog that claimed them: a copy of it drops nothing."""
    lake = Lake(catalog, SCHEMA)
    lake.append({"n": [1]})
    other = open_catalog({"uri": f"sqlite:///{tmp_path}/copy.db", "warehouse": (tmp_path / "w").as_uri()})
    other.create_namespace_if_not_exists(IDENTIFIER[:-1])
    copy = other.register_table(IDENTIFIER, lake.table.metadata_location)
    claim_files(lake.table, lambda: lake.table)
    before = files_below(lake.table.location())
    with pytest.raises(StartOverError, match="belong to the catalog"):
        claim_table(copy, "default.t", other)
    assert files_below(lake.table.location()) == before
    assert other.table_exists(IDENTIFIER)


class LosesAnswers(SqlCatalog):
    """A catalog that drops, and whose answer is lost."""

    def drop_table(self, identifier: str | Identifier) -> None:
        """See ``Catalog``."""
        super().drop_table(identifier)
        raise RequestsConnectionError("reset")


def test_a_drop_without_an_answer_was_made(tmp_path: Path) -> None:
    """The files of a table that the catalog no longer has go, too."""
    place = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": (tmp_path / "w").as_uri()}
    catalog = LosesAnswers("lake", **place)
    lake = Lake(catalog, SCHEMA)
    lake.append({"n": [1]})
    location = lake.table.location()
    drop_table(claim_table(lake.table, "default.t", catalog), catalog)
    assert files_below(location) == []
