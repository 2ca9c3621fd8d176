"""JSON without a schema, before there is a table: what the first records may be."""

from __future__ import annotations

from pathlib import Path as Folder
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.plan import StageResult
from tabletopic_kernel.pipeline.stage import StageTask
from tests.pipeline.source import SOURCE
from tests.pipeline.whole_path import Path, without
from tests.table.samples import sqlite_catalog


@pytest.fixture
def catalog(tmp_path: Folder) -> Catalog:
    """A catalog of the test's own."""
    return sqlite_catalog(tmp_path)


def topic(catalog: Catalog, **more: Any) -> Path:
    """A topic of JSON without a schema."""
    return Path(catalog, TopicSettings(value_format="json", **more))


def test_a_record_without_a_value_may_come_with_the_first(catalog: Catalog) -> None:
    """A tombstone, a null and an empty object among the first records are rows of nulls, as later."""
    path = topic(catalog)
    found = path.send(None, b'{"a": 1}', b"{}", b"null")
    assert without(found, "@") == [{"a": None}, {"a": 1}, {"a": None}, {"a": None}]
    assert path.dead_letters == {}


@pytest.mark.parametrize("transform", ["flatten", "none"])
@pytest.mark.parametrize("value", [None, b"{}", b"null"])
def test_records_that_tell_of_no_column_wait_for_one(
    catalog: Catalog, transform: Any, value: bytes | None
) -> None:
    """Alone they ask for nothing and are no rows yet: the worker waits for a record with a column."""
    row = {"value": value, "partition": 0, "offset": 0, "timestamp": 0}
    batch = pa.RecordBatch.from_pylist([row] * 100, schema=SOURCE)
    result = StageResult()
    for answer in StageTask(topic(catalog, transform=transform).keeper.plan())(iter([batch])):
        result.add(answer.column("result")[0].as_py())
    assert not result.needs
    assert (result.records, result.rows, result.refused) == (100, 0, {})
