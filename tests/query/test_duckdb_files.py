"""DuckDB reads what PyIceberg's client reads, on stores that it has no way to itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import PyArrowFile

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.clients.catalog.pyiceberg_seams.files import TableFileIO
from tabletopic_kernel.model.errors import RetryableError, UsageError
from tabletopic_kernel.query.duckdb import DuckLake


class StoreHere(TableFileIO):
    """A store of objects in a folder, ``store.folder``; buckets are folders there."""

    def _here(self, location: str) -> str:
        return f"{self.properties['store.folder']}/{location.partition('://')[2]}"

    def new_input(self, location: str) -> PyArrowFile:
        """The file in the folder."""
        if self.properties.get("store.trouble"):
            raise OSError("google::cloud::Status(UNAVAILABLE: no answer)")
        return super().new_input(self._here(location))

    def new_output(self, location: str) -> PyArrowFile:
        """The file in the folder."""
        made = super().new_output(self._here(location))
        made._location = location
        return made


def lake(folder: Path, warehouse: str, name: str = "lake") -> Catalog:
    """A catalog whose tables lie in such a store."""
    io = f"{StoreHere.__module__}.{StoreHere.__qualname__}"
    place = {"warehouse": warehouse, "store.folder": str(folder / name), "py-io-impl": io}
    return open_catalog({"name": name, "type": "sql", "uri": f"sqlite:///{folder}/{name}.db", **place})


def filled(catalog: Catalog, name: str, values: list[int]) -> Any:
    """A table with rows."""
    rows = pa.table({"a": values})
    catalog.create_namespace_if_not_exists("default")
    table = catalog.create_table(f"default.{name}", rows.schema)
    table.append(rows)
    return table


@pytest.mark.parametrize("scheme", ["gs", "gcs", "abfs", "abfss", "wasb", "wasbs"])
def test_tables_of_every_scheme_are_read(tmp_path: Path, scheme: str) -> None:
    """Also a second time, after a commit, and one of before."""
    catalog = lake(tmp_path, f"{scheme}://bucket/w")
    table = filled(catalog, "t", list(range(10)))
    duck = DuckLake(catalog)
    assert duck.sql("SELECT sum(a) AS s FROM t").to_pylist() == [{"s": 45}]
    table.append(pa.table({"a": [100]}))
    assert duck.sql("SELECT sum(a) AS s, count(*) AS n FROM t WHERE a > 4").to_pylist() == [
        {"s": 135, "n": 6}
    ]
    duck.close()
    assert duck.sql("SELECT count(*) AS n FROM t").to_pylist() == [{"n": 11}]
    duck.close()


def test_tables_of_two_stores_are_joined(tmp_path: Path) -> None:
    """Each is read by its own client, though both are in buckets of one name."""
    ours, theirs = lake(tmp_path, "gs://bucket/w"), lake(tmp_path, "gs://bucket/v", "other")
    filled(ours, "t", [1, 2])
    filled(theirs, "u", [2, 3])
    duck = DuckLake(ours, others={"other": lambda: theirs})
    found = duck.sql("SELECT t.a FROM t JOIN other.default.u u ON u.a = t.a").to_pylist()
    assert found == [{"a": 2}]
    duck.close()


def test_a_store_that_does_not_answer_is_no_mistake_in_sql(tmp_path: Path) -> None:
    """It is told as what it is; a mistake afterwards is one again."""
    catalog = lake(tmp_path, "gs://bucket/w")
    filled(catalog, "t", [1])
    duck = DuckLake(catalog)
    assert duck.sql("SELECT a FROM t").num_rows == 1
    real = catalog.load_table

    def away(identifier: Any) -> Any:
        table = real(identifier)
        table.io.properties = {**table.io.properties, "store.trouble": "yes"}
        return table

    catalog.load_table = away  # type: ignore[method-assign]
    with pytest.raises(RetryableError, match=r"the storage does not respond .*is it reachable"):
        duck.sql("SELECT a FROM t")
    catalog.load_table = real  # type: ignore[method-assign]
    with pytest.raises(UsageError):
        duck.sql("SELECT nonsense FROM t")
    duck.close()


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    """It is the storage's trouble, too."""
    catalog = lake(tmp_path, "gs://bucket/w")
    table = filled(catalog, "t", [1])
    duck = DuckLake(catalog)
    (data,) = (task.file.file_path for task in table.scan().plan_files())
    Path(table.io._here(data)).unlink()
    with pytest.raises(RetryableError, match="is missing files"):
        duck.sql("SELECT sum(a) AS s FROM t")
    duck.close()
