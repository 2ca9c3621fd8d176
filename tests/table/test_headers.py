"""The column of headers: a list that keeps them all, or the map of a table that was created with one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, MapType, NestedField, StringType

from tabletopic_kernel.model.columns.table_columns import table_schema
from tabletopic_kernel.model.columns.types import spell
from tabletopic_kernel.model.errors import ActionNeededError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.table_names import table_identifier
from tabletopic_kernel.pipeline.decode import LoadedPlan
from tabletopic_kernel.pipeline.stage import stage_files
from tabletopic_kernel.table.topic_table import TopicTable
from tests.pipeline.source import SOURCE
from tests.pipeline.whole_path import Path

SETTINGS = TopicSettings(value_format="string")
SENT: list[Any] = [
    [("trace", b"1"), ("to", None), ("trace", b"2"), ("to", b"")], None, [("trace", None)], None,
    [("", b"\0\xff")],
]  # fmt: skip


def _sent_to(path: Path) -> list[Any]:
    rows = [
        {
            "value": b"x", "key": None,
            "headers": headers and [{"key": key, "value": value} for key, value in headers], "partition": 0,
            "offset": at, "timestamp": at,
        }
        for at, headers in enumerate(SENT)
    ]  # fmt: skip
    batch = pa.RecordBatch.from_pylist(rows, schema=SOURCE)
    (file,) = stage_files(LoadedPlan(path.keeper.plan()), [batch]).files
    found: list[Any] = pq.read_table(file.file_path.removeprefix("file://"))["_kafka_header"].to_pylist()
    return found


def test_a_new_table_has_every_header(catalog: Catalog) -> None:
    """Repeated keys in their order; a null value is not an empty one, and no headers are null."""
    path = Path(catalog, SETTINGS)
    found = [row and [(one["key"], one["value"]) for one in row] for row in _sent_to(path)]
    assert found == SENT
    table = path.keeper.needed_table()
    kind = table.table.schema().find_type("_kafka_header")
    assert spell(kind) == "list<struct<key: string, value: binary>>"
    with table.table.update_schema() as update:
        update.add_column(("_kafka_header", "note"), StringType())
    table.reload()
    path.keeper.check_writable()
    assert [row and [one["note"] for one in row] for row in _sent_to(path)][2:] == [[None], None, [None]]
    with table.table.update_schema() as update:
        update.rename_column("_kafka_header.value", "text")
    table.reload()
    with pytest.raises(ActionNeededError, match=r"_kafka_header\.element\.value"):
        path.keeper.check_writable()


def test_a_table_that_has_a_map_keeps_it(catalog: Catalog) -> None:
    """Of a repeated key, it has the last header."""
    headers = MapType(1, StringType(), 2, BinaryType(), value_required=False)
    topic = "with_a_map"
    columns = table_schema(
        Schema(NestedField(1, "_kafka_value", StringType(), required=False)),
        SETTINGS.model_copy(update={"metadata_columns": ("metadata",)}),
    )
    schema = Schema(*columns.fields, NestedField(99, "_kafka_header", headers, required=False))
    settings = SETTINGS.model_copy(update={"metadata_columns": ("header", "metadata")})
    identifier = table_identifier(topic, settings)
    TopicTable.create(catalog, identifier, schema, UNPARTITIONED_PARTITION_SPEC, topic, settings)
    path = Path(catalog, settings, topic=topic)
    path.keeper.check_writable()
    assert _sent_to(path) == [list(dict(row).items()) if row else None for row in SENT]
    table = path.keeper.needed_table().table
    assert isinstance(table.schema().find_type("_kafka_header"), MapType)
    with table.update_schema() as update:
        update.rename_column("_kafka_header", "headers")
    path.keeper.needed_table().reload()
    with pytest.raises(ActionNeededError, match="_kafka_header"):
        path.keeper.check_writable()
