"""Engines answer as the rows themselves do, but for the faults that docs/how-to/query.md names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from pyiceberg.expressions import EqualTo, IsNull
from pyiceberg.manifest import FileFormat
from pyiceberg.schema import Schema
from pyiceberg.types import (
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UUIDType,
)
from pyspark.sql import SparkSession

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.model.errors import ActionNeededError
from tabletopic_kernel.query.duckdb import DuckLake
from tests.engines.engines import session_in, spark_of
from tests.engines.run import run
from tests.table.lake import Lake
from tests.table.samples import sqlite_catalog
from tests.table.test_upsert import played

pytestmark = pytest.mark.integration
Ask = Callable[[str], list[list[object]]]
_SEED, _QUESTIONS = 36, 250
_PRUNING = "spark.sql.optimizer.nestedSchemaPruning.enabled"
_IDS = {"one": "11111111-1111-4111-8111-111111111111", "two": "ffffffff-ffff-4fff-bfff-ffffffffffff"}


def _field(number: int, name: str, kind: object, *, required: bool = False) -> NestedField:
    return NestedField(number, name, kind, required=required)


_SCHEMA = Schema(
    _field(1, "id", LongType()),
    _field(2, "name", StringType()),
    _field(3, "u", UUIDType()),
    _field(4, "s", StructType(_field(5, "b", StringType(), required=True), _field(6, "a", IntegerType()))),
    _field(7, "m", MapType(8, StringType(), 9, StructType(_field(10, "a", StringType())), False)),
    _field(
        11,
        "l",
        ListType(12, StructType(_field(13, "a", StringType()), _field(14, "n", IntegerType())), False),
    ),
)
_ROWS = {
    "id": [1, 2],
    "name": ["ab", None],
    "u": [bytes.fromhex(text.replace("-", "")) for text in _IDS.values()],
    "s": [{"b": "x", "a": 7}, None],
    "m": [[("p", {"a": "x"})], None],
    "l": [[{"a": "x", "n": 1}], None],
}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, class_archive: None) -> Iterator[SparkSession]:
    """Spark as the product starts it."""
    started = session_in(tmp_path_factory.mktemp("spark"))
    yield started
    started.stop()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For the tables."""
    return tmp_path_factory.mktemp("tables")


def _table(name: str, folder: Path, session: SparkSession, *by: str) -> tuple[Lake, Ask]:
    """A table of two rows, and Spark's answers about it."""
    place = {"uri": f"sqlite:///{folder}/{name}.db", "warehouse": f"file://{folder}/{name}"}
    properties = {"name": name, "type": "sql", **place}
    lake = Lake(open_catalog(properties), _SCHEMA, by)
    lake.append(_ROWS)

    def ask(sql: str) -> list[list[object]]:
        rows = spark_of(properties, session).query(sql).rows
        return [list(row.values()) for row in rows.to_pylist()]

    return lake, ask


def test_engines_agree_with_the_rows(session: SparkSession, folder: Path) -> None:
    """No answer is wrong, of any engine, about tables that have changed in every way."""
    outcome = run(_SEED, _QUESTIONS, session, folder)
    assert not outcome.wrong, "\n".join(outcome.wrong)
    assert min(outcome.answers[name] for name in ("duckdb", "spark", "pyiceberg")) > _QUESTIONS // 10, outcome


@pytest.mark.parametrize("seed", range(6, 10))
def test_engines_agree_about_tables_kept_by_key(seed: int, session: SparkSession, folder: Path) -> None:
    """After a random history, and at snapshots of it: DuckDB, PyIceberg and Spark have the model's rows."""
    name = f"keyed_{seed}"
    (folder / name).mkdir()
    catalog = sqlite_catalog(folder / name, name)
    table = played(seed, catalog)
    place = {key: catalog.properties[key] for key in ("type", "uri", "warehouse")}
    spark = spark_of({"name": name, **place}, session)
    snapshots = [snapshot.snapshot_id for snapshot in table.lake.table.snapshots()]
    for at in (*Random(seed).sample(snapshots, 2), snapshots[-1]):
        rows = spark.query(f"SELECT id, value FROM clicks VERSION AS OF {at}").rows.to_pydict()
        read = sorted(zip(rows["id"], rows["value"], strict=True))
        assert read == table.rows(at) == table.rows_of_duckdb(at)
    assert read == table.expected()


def test_spark_reads_what_it_would_fail_on(session: SparkSession, folder: Path) -> None:
    """A null struct with a required field, and a field that is newer than a map's files."""
    lake, ask = _table("mended", folder, session)
    with lake.table.update_schema() as update:
        update.add_column(("m", "b"), StringType())
    assert ask("SELECT s FROM clicks ORDER BY id") == [[{"b": "x", "a": 7}], [None]]
    assert ask("SELECT m['p'].b FROM clicks") == [[None], [None]]


def test_compaction_mends_what_spark_fails_on_by_default(session: SparkSession, folder: Path) -> None:
    """A file gets the fields that its map lacks."""
    lake, ask = _table("completed", folder, session)
    with lake.table.update_schema() as update:
        update.add_column(("m", "b"), StringType())
    session.conf.set(_PRUNING, "true")
    try:
        with pytest.raises(ActionNeededError, match="is not in the store"):
            ask("SELECT m['p'].b FROM clicks")
        lake.topic.reload()
        lake.compact()
        assert ask("SELECT m['p'].b FROM clicks") == [[None], [None]]
    finally:
        session.conf.set(_PRUNING, "false")


def test_deletion_vectors_of_another_program(session: SparkSession, folder: Path) -> None:
    """All engines leave out the rows that they delete, in a table of format version 3."""
    lake, ask = _table("vectors", folder, session)
    name = f"vectors.{'.'.join(lake.table.name())}"
    ask("SELECT count(*) FROM clicks")  # Spark knows the catalog now
    session.sql(
        f"ALTER TABLE {name} SET TBLPROPERTIES "
        "('format-version' = '3', 'write.delete.mode' = 'merge-on-read')"
    )
    session.sql(f"DELETE FROM {name} WHERE id = 1")
    table = lake.table.refresh()
    (task,) = table.scan().plan_files()
    assert [file.file_format for file in task.delete_files] == [FileFormat.PUFFIN]
    assert ask("SELECT id FROM clicks") == [[2]]
    assert table.scan().to_arrow()["id"].to_pylist() == [2]
    duckdb = DuckLake(table.catalog)
    try:
        assert duckdb.sql("SELECT id FROM clicks")["id"].to_pylist() == [2]
    finally:
        duckdb.close()


def test_faults_of_spark(session: SparkSession, folder: Path) -> None:
    """It still has each fault that docs/how-to/query.md names, and the way round works."""
    _, ask = _table("by_name", folder, session, "name")
    with pytest.raises(ActionNeededError, match="Invalid object: null"):
        ask("SELECT id FROM clicks WHERE name IN ('ab', 'cd')")
    assert ask("SELECT id FROM clicks WHERE name IS NOT NULL AND name IN ('ab', 'cd')") == [[1]]

    lake, ask = _table("changed", folder, session)
    assert ask(f"SELECT id FROM clicks WHERE u = '{_IDS['one']}'") == []
    assert ask(f"SELECT id FROM clicks WHERE lower(u) = '{_IDS['one']}'") == [[1]]
    first = lake.table.metadata.current_snapshot_id
    with lake.table.update_schema() as update:
        update.rename_column("name", "called")
    lake.append({"id": [3]})
    with pytest.raises(ActionNeededError, match="Cannot find field"):
        ask(f"SELECT id FROM clicks VERSION AS OF {first} WHERE name = 'ab'")
    assert ask(f"SELECT id FROM clicks VERSION AS OF {first} WHERE concat(name) = 'ab'") == [[1]]


def test_faults_of_pyiceberg(session: SparkSession, folder: Path) -> None:
    """It still has each fault that docs/how-to/query.md names."""
    lake, _ = _table("pyiceberg", folder, session)
    first = lake.table.metadata.current_snapshot_id
    assert lake.table.scan(IsNull("s.b")).to_arrow()["id"].to_pylist() == []
    assert lake.table.scan().to_arrow()["l"].to_pylist() == [[{"a": "x", "n": 1}], []]
    with lake.table.update_schema() as update:
        update.rename_column("name", "called")
    with pytest.raises(ValueError, match="Could not find field"):
        lake.table.scan(EqualTo("name", "ab"), snapshot_id=first).to_arrow()
