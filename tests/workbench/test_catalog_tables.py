"""Tables of catalogs by their metadata, and subjects of a registry, without servers."""

from __future__ import annotations

import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, MonthTransform
from pyiceberg.types import BinaryType, LongType, NestedField, UUIDType

from tabletopic_kernel.clients.registry.registry import RegisteredSchema, UnknownSchemaError
from tabletopic_kernel.faces.operations import BY_NAME
from tabletopic_kernel.faces.operations.operation import plain
from tabletopic_kernel.model.errors import UnknownTopicError, UsageError
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.catalog.subjects import subject_of
from tabletopic_kernel.workbench.workbench import Workbench

NAME = 'shop."o<b>.x"'


def sqlite(folder: Path, name: str) -> dict[str, str]:
    """A catalog in a file."""
    return {"type": "sql", "uri": f"sqlite:///{folder}/{name}.db", "warehouse": f"file://{folder}/{name}"}


@pytest.fixture
def workbench(tmp_path: Path) -> Workbench:
    """Two catalogs and one that is away; a table that another program changed, one in a nested namespace."""
    made = Workbench(
        Settings(
            state_dir=str(tmp_path),
            kafka={"bootstrap.servers": "127.0.0.1:1"},
            registry={"url": "http://127.0.0.1:1"},
            catalog={**sqlite(tmp_path, "main"), "name": "main"},
            catalogs={"prod": sqlite(tmp_path, "prod"), "lab": sqlite(tmp_path / "missing", "lab")},
        )
    )
    made.catalog.create_namespace("shop")
    schema = pa.schema([("id", pa.int32()), ("day", pa.date32()), ("s", pa.string())])
    table = made.catalog.create_table(("shop", "o<b>.x"), schema, properties={"my.secret-key": "geheim"})
    with table.update_spec() as spec:
        spec.add_field("day", MonthTransform())
    day = pa.scalar(20_000).cast(pa.int32()).cast(pa.date32())
    table.append(pa.table({"id": [1, 2], "day": [day.as_py()] * 2, "s": ["a", None]}, schema))
    with table.update_schema() as columns:
        columns.add_column("n", LongType(), "the <i>count</i>")
        columns.rename_column("s", "r")
        columns.update_column("id", LongType())
    later = {"id": [3], "day": [None], "r": ["b" * 300], "n": [4]}
    table.append(
        pa.table(
            later,
            pa.schema([("id", pa.int64()), ("day", pa.date32()), ("r", pa.string()), ("n", pa.int64())]),
        )
    )
    prod = made.catalog_of("prod")
    for namespace in (("a",), ("a", "b")):
        prod.create_namespace(namespace)
    prod.create_table(("a", "b", "t"), schema)
    return made


def test_tables_of_all_catalogs_are_listed(workbench: Workbench) -> None:
    """Each has a name that finds it again; a catalog that is away is a line with the remedy."""
    all_tables = workbench.tables.all()
    assert [table.table for table in all_tables.tables] == [NAME, 'prod."a.b".t']
    assert [workbench.tables.detail(each.table).table for each in all_tables.tables] == [NAME, 'prod."a.b".t']
    assert workbench.tables.detail("prod.a.b.t").snapshots == []
    (trouble,) = all_tables.troubles
    assert "[catalogs.lab]" in trouble
    with pytest.raises(UnknownTopicError, match="did you mean shop"):
        workbench.tables.detail("shop.ox")


def test_a_table_is_shown_by_its_metadata(workbench: Workbench) -> None:
    """Columns with docs, partitions, snapshots, properties without secrets; and what a snapshot changed."""
    detail = workbench.tables.detail(NAME)
    assert (detail.rows, detail.files, detail.topic) == (3, 2, None)
    assert [(column.name, column.type, column.doc) for column in detail.columns][3] == (
        "n",
        "long",
        "the <i>count</i>",
    )
    assert detail.partition_by == ["month(day)"]
    assert "geheim" not in str(detail)
    newest, first = detail.snapshots
    change = workbench.tables.compare(NAME, first.snapshot_id, newest.snapshot_id)
    assert (change.rows, change.files) == (1, 1)
    assert change.changes == ["id: int becomes long", "rename s to r", "add n long"]
    with pytest.raises(UsageError, match="has no snapshot 7; its newest"):
        workbench.tables.compare(NAME, 7, newest.snapshot_id)


def test_files_are_shown_by_their_manifests(workbench: Workbench) -> None:
    """Partitions with sizes, the largest files, and bounds of columns, widened ones too, cut off if long."""
    files = workbench.tables.files(NAME, limit=1)
    assert (files.partition_count, files.file_count, len(files.files)) == (2, 2, 1)
    assert {partition.partition for partition in workbench.tables.files(NAME).partitions} == {
        "day_month=2024-10", "day_month=null",
    }  # fmt: skip
    assert files.bytes == sum(file.bytes for file in workbench.tables.files(NAME).files)
    bounds = {column.name: column for column in files.columns}
    assert (bounds["id"].lower, bounds["id"].upper, bounds["r"].nulls) == ("1", "3", 1)
    assert len(bounds["r"].upper or "") <= 100
    assert workbench.tables.files("prod.a.b.t").files == []


def test_bounds_of_bytes_are_shown_as_in_queries(workbench: Workbench) -> None:
    """Not as base64; a UUID as such."""
    schema = Schema(NestedField(1, "raw", BinaryType()), NestedField(2, "id", UUIDType()))
    spec = PartitionSpec(PartitionField(1, 100, IdentityTransform(), "raw"))
    table = workbench.catalog.create_table(("shop", "raw"), schema, partition_spec=spec)
    key = uuid.UUID(int=5)
    table.append(
        pa.table({"raw": [b"a\xff"], "id": pa.array([key.bytes], pa.uuid())}, table.schema().as_arrow())
    )
    files = workbench.tables.files("shop.raw")
    assert [column.lower for column in files.columns] == ["a\\xFF", str(key)]
    assert files.partitions[0].partition == "raw=a\\xFF"


@pytest.mark.parametrize(
    ("name", "arguments", "part"),
    [("tables", (), "o<b>.x"), ("table", (NAME,), "month(day)"), ("files", (NAME, 5), "day_month=2024-10")],
)
def test_operations_have_text_and_json(
    workbench: Workbench, name: str, arguments: tuple[Any, ...], part: str
) -> None:
    """The command line shows a table, programs get plain values."""
    operation = BY_NAME[name]
    result = operation(workbench, *arguments)
    assert part in str(operation.text(result, {}))
    assert part in str(plain(result))


class _Registry:
    """Two versions, of which one refers to a schema that was removed."""

    def versions(self, subject: str) -> list[int]:
        return [1, 2] if subject == "clicks-value" else []

    def by_version(self, subject: str, version: int) -> RegisteredSchema:
        if version == 1:
            raise UnknownSchemaError("there is no version 3 of parts")
        return RegisteredSchema(7, "AVRO", '{"type":"string"}', (("parts", "{}"),), subject, version)

    def rule(self, _: str) -> str:
        return "BACKWARD"


def test_a_subject_has_its_versions_and_topics() -> None:
    """Newest first and indented, with the rule; a version that is not whole, or no subject, says why."""
    orders = SimpleNamespace(settings=SimpleNamespace(value_subject="clicks-value"))
    fake = SimpleNamespace(
        registry=_Registry(),
        kafka_topics=lambda: {"clicks": 4},
        desired_topics=lambda: {"orders": orders},
        statuses=lambda _: [SimpleNamespace(topic="other", schema_versions=[{"subject": "clicks-value"}])],
    )
    subject = subject_of(cast("Workbench", fake), "clicks-value")
    assert subject.topics == ["clicks", "orders", "other"]
    newest, first = subject.versions
    assert (newest.text, newest.references) == ('{\n  "type": "string"\n}', ["parts\n{}"])
    assert first.error == "there is no version 3 of parts"
    assert "BACKWARD" in str(BY_NAME["subject"].text(subject, {}))
    with pytest.raises(UnknownTopicError, match="tabletopic subjects"):
        subject_of(cast("Workbench", fake), "nope")
