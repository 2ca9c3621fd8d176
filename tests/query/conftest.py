"""A small catalog, written by PyIceberg."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.query.duckdb import DuckLake


def small_catalog(folder: Path) -> Catalog:
    """Two tables: ``default.clicks`` (three rows) and ``web.Orders`` (two)."""
    opened = open_catalog(
        {
            "name": "lake",
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}/warehouse",
        }
    )
    clicks = pa.table({"id": [1, 2, 3], "url": ["/", "/a", "/b"]})
    orders = pa.table({"order_id": [10, 11], "click_id": [2, 3]})
    for name, rows in (("default.clicks", clicks), ("web.Orders", orders)):
        opened.create_namespace_if_not_exists(name.split(".", maxsplit=1)[0])
        opened.create_table(name, rows.schema).append(rows)
    return opened


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """A small catalog of the test's own, to change."""
    return small_catalog(tmp_path)


@pytest.fixture
def own(catalog: Catalog) -> Iterator[DuckLake]:
    """DuckDB over the test's own catalog; it costs half a second."""
    made = DuckLake(catalog)
    yield made
    made.close()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckLake]:
    """DuckDB over a small catalog that nobody changes."""
    made = DuckLake(small_catalog(tmp_path_factory.mktemp("lake")))
    yield made
    made.close()


@pytest.fixture
def loaded(catalog: Catalog) -> list[object]:
    """The names by which the test's catalog is asked for tables."""
    names: list[object] = []
    load = catalog.load_table
    catalog.load_table = lambda name: (names.append(name), load(name))[1]  # type: ignore[method-assign]
    return names
