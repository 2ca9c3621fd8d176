"""The catalog's errors: each has a remedy, or is an outcome of Iceberg.

test_outside_errors.py tests which error becomes which.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.catalog import AVAILABLE_CATALOGS, Catalog, CatalogType
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    ForbiddenError,
    NoSuchIcebergTableError,
    NoSuchNamespaceError,
    NoSuchTableError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from sqlalchemy.exc import OperationalError

from tabletopic_kernel.clients.catalog.catalog import create_table, open_catalog, reachable
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError, SettingsError


@pytest.mark.parametrize(
    "error",
    [
        CommitFailedException("first"), NoSuchTableError("x"), KeyError("x"), ValueError("x"),
        RetryableError("x"),
    ],
)  # fmt: skip
def test_outcomes_that_are_no_trouble(error: Exception) -> None:
    """Outcomes and faults of ours stay what they are; a table of another format is not created again."""
    with pytest.raises(type(error)), reachable("the catalog"):
        raise error


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"type": "rest"}, "uri"),
        ({"type": "sql"}, "uri"),
        ({"type": "sql", "uri": "postgres://u@h/db"}, r"postgresql\+psycopg2://"),
        ({"uri": "postgres://u@h/db"}, "set type"),
        ({"uri": "sqlite://", "schema_version": "v7"}, "v0' or 'v1"),
    ],
)
def test_what_no_server_has_to_be_asked_for_is_told_at_once(properties: dict[str, str], said: str) -> None:
    """As a wrong setting, with what to write."""
    with pytest.raises(SettingsError, match=rf"^\[catalog\] .*{said}"):
        open_catalog(properties)


def test_a_table_of_another_format_is_no_table_that_is_missing() -> None:
    """It would be created again and again."""
    with pytest.raises(ActionNeededError, match="choose another with --table"), reachable("the catalog"):
        raise NoSuchIcebergTableError("Property table_type is hive, expected iceberg: default.clicks")


class _Stingy(InMemoryCatalog):
    """Denies access to namespaces."""

    def namespace_exists(self, namespace: object) -> bool:
        raise ForbiddenError("not yours")

    def create_table(self, *_: object, **__: object) -> Table:
        raise NoSuchNamespaceError("Namespace does not exist: web")


def test_a_namespace_that_is_missing_and_may_not_be_made_is_named(tmp_path: Path) -> None:
    """The server says of it that it is not there; that is no fault of ours."""
    catalog = _Stingy("lake", warehouse=str(tmp_path))
    with pytest.raises(ActionNeededError, match=r"namespace web.*create it"):
        create_table(catalog, ("web", "clicks"), Schema(), UNPARTITIONED_PARTITION_SPEC, {})


def test_two_programs_may_open_a_new_catalog_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both see no tables, and one is too late to create them."""
    real, late = AVAILABLE_CATALOGS[CatalogType.SQL], ["table iceberg_tables already exists"]

    def load(name: str, properties: dict[str, str]) -> Catalog:
        if late:
            raise OperationalError("CREATE TABLE iceberg_tables", (), Exception(late.pop()))
        return real(name, properties)

    monkeypatch.setitem(AVAILABLE_CATALOGS, CatalogType.SQL, load)
    place = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": tmp_path.as_uri()}
    assert open_catalog(place).list_namespaces() == []
