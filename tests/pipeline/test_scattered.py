"""Rows of thousands of partitions: each of a batch's partitions has one file, whatever the tasks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType

from tabletopic_kernel.clients.catalog.pyiceberg_seams.snapshots import SnapshotChange, snapshot_of, write
from tabletopic_kernel.clients.catalog.pyiceberg_seams.tables import QuickTransaction
from tabletopic_kernel.model.columns.evolution import VALUE
from tabletopic_kernel.model.columns.partitions import partition_spec
from tabletopic_kernel.model.columns.table_columns import table_schema
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.arrange import ScatteredError
from tabletopic_kernel.pipeline.plan import SchemaPlan, StagePlan, StageResult
from tabletopic_kernel.pipeline.stage import StageTask
from tabletopic_kernel.table.schemas.registered import whole_writer
from tabletopic_kernel.table.topic_table import TopicTable
from tests.pipeline.source import SOURCE
from tests.table.samples import sqlite_catalog


def _plan(folder: Path, by: str) -> StagePlan:
    catalog = sqlite_catalog(folder)
    settings = TopicSettings(value_format="string")
    schema = table_schema(Schema(NestedField(1, VALUE, StringType())), settings)
    table = TopicTable.create(
        catalog, ("default", "orders"), schema, partition_spec((by,), schema), "orders", settings
    )
    values = SchemaPlan({-1: whole_writer("STRING")})
    return StagePlan("orders", table.plan(), None, 1, values, True, settings)


def _staged(plan: StagePlan, records: int) -> StageResult:
    rows = [
        {"value": b"%d" % n, "key": None, "headers": None, "partition": 0, "offset": n, "timestamp": n}
        for n in range(records)
    ]
    total = StageResult()
    for answer in StageTask(plan)(iter([pa.RecordBatch.from_pylist(rows, schema=SOURCE)])):
        total.add(answer.column("result")[0].as_py())
    return total


def _files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.parquet"))


def test_one_of_several_tasks_writes_nothing_for_scattered_rows(tmp_path: Path) -> None:
    """It would make a small file of each partition, and the other tasks would, too."""
    result = _staged(replace(_plan(tmp_path, "truncate(8, _kafka_value)"), tasks=2), 101)
    assert isinstance(result.error, ScatteredError)
    assert str(result.error) == "101 rows belong to 101 partitions"
    assert (result.rows, result.files, _files(tmp_path)) == (0, [], [])


@pytest.mark.parametrize(("tasks", "records"), [(1, 101), (2, 100)])
def test_rows_of_many_partitions_are_written_by_one_task(tmp_path: Path, tasks: int, records: int) -> None:
    """And by one of several, as long as they are few."""
    result = _staged(replace(_plan(tmp_path, "truncate(8, _kafka_value)"), tasks=tasks), records)
    assert (result.error, result.rows, len(result.files)) == (None, records, records)
    assert len(_files(tmp_path)) == records


def test_a_commit_of_many_files_writes_blocks_of_entries(tmp_path: Path) -> None:
    """PyIceberg's own writer compresses each entry alone, to several times the bytes."""
    files = _staged(_plan(tmp_path, "truncate(8, _kafka_value)"), 250).files
    table = sqlite_catalog(tmp_path).load_table(("default", "orders"))
    ledger = Ledger("orders", "cluster", "topic-id", {0: 250}, 1, "first")
    producer = snapshot_of(QuickTransaction(table), SnapshotChange(ledger, tuple(files)))
    write(producer)
    (manifest,) = producer.listed  # type: ignore[attr-defined]
    with Path(manifest.manifest_path.removeprefix("file://")).open("rb") as stream:
        assert [block.num_records for block in fastavro.block_reader(stream)] == [100, 100, 50]
    entries = manifest.fetch_manifest_entry(table.io)
    assert [(entry.data_file.file_path, entry.data_file.partition) for entry in entries] == [
        (file.file_path, file.partition) for file in files
    ]


def test_files_say_how_long_they_are_and_have_offsets_as_differences(tmp_path: Path) -> None:
    """The length comes from the writer, without a question to the storage; readers find the encoding."""
    (file,) = _staged(_plan(tmp_path, "bucket(1, _kafka_value)"), 1_000).files
    path = Path(file.file_path.removeprefix("file://"))
    assert file.file_size_in_bytes == path.stat().st_size
    group = pq.ParquetFile(path).metadata.row_group(0)
    columns = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
    encodings = {name: column.encodings for name, column in columns.items()}
    differences = {name for name, used in encodings.items() if "DELTA_BINARY_PACKED" in used}
    assert differences == {"_kafka_metadata.offset", "_kafka_metadata.timestamp"}
    assert pq.read_table(path)["_kafka_metadata"].combine_chunks().field("offset").to_pylist() == [
        *range(1_000)
    ]
