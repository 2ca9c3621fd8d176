"""Projections and expectations without the child process that plans them, for a conftest to import."""

from __future__ import annotations

import pytest
from pyiceberg.schema import Schema

from tabletopic_kernel.pipeline.transform import expectations
from tabletopic_kernel.pipeline.transform.projection.projection import SqlProjection
from tabletopic_kernel.table.schemas import columns


@pytest.fixture(autouse=True)
def projections_are_planned_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in a child, which takes a second to start and has tests of its own."""

    def planned(text: str, batch: Schema) -> Schema:
        return SqlProjection(text, batch).iceberg_schema

    if not request.node.get_closest_marker("integration"):
        for module in (columns, expectations):
            monkeypatch.setattr(module, "planned_columns", planned)
