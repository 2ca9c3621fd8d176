"""For all tests of the path of a record."""

from __future__ import annotations

import pytest
from pyiceberg.catalog import Catalog

from tests.pipeline.planned_here import projections_are_planned_here  # noqa: F401
from tests.table.samples import sqlite_catalog


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """One for the tests of a module."""
    return sqlite_catalog(tmp_path_factory.mktemp("lake"))
