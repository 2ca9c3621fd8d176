"""What completes SQL: the names in scope at a place, and nothing in strings and comments."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pandas as pd
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType, StructType, TimestamptzType

from tabletopic_kernel.faces.notebook.sql import results
from tabletopic_kernel.faces.notebook.sql.names import Kept, Names
from tabletopic_kernel.faces.notebook.sql.suggestions import Scope, suggest
from tabletopic_kernel.model.errors import RetryableError

VARIABLES = {"busy": pd.DataFrame({"views": [1]}), "raw": pa.table({"n": [1]}), "country": "DE", "_x": 1}
CLICKS = Schema(
    NestedField(1, "url", StringType(), doc="the page"),
    NestedField(2, "order", LongType()),
    NestedField(3, "device", StructType(NestedField(4, "kind", StringType()))),
)
ORDERS = Schema(NestedField(1, "order_id", LongType()), NestedField(2, "placed_at", TimestamptzType()))


def _scope(open_catalog: Any, engine: str = "duckdb") -> Scope:
    servers = SimpleNamespace(catalog={"name": "lake"}, catalogs={"prod": {}})
    names = Names(SimpleNamespace(workbench=SimpleNamespace(open_catalog=open_catalog, servers=servers)))  # type: ignore[arg-type]
    columns = {
        name: (lambda table=table: results.columns_of(table))
        for name, table in results.tables_in(VARIABLES).items()
    }
    return Scope(names, engine, results.about(VARIABLES), columns)


@pytest.fixture(scope="module")
def scope(tmp_path_factory: pytest.TempPathFactory) -> Scope:
    """Two catalogs with a table each."""
    folder = tmp_path_factory.mktemp("lake")
    for name, namespace, table, schema in (
        ("lake", "default", "clicks", CLICKS),
        ("prod", "web", "orders", ORDERS),
    ):
        catalog = _open(folder, name)
        catalog.create_namespace(namespace)
        catalog.create_table((namespace, table), schema)
    return _scope(lambda name=None: _open(folder, name or "lake"))


def _open(folder: Path, name: str) -> SqlCatalog:
    return SqlCatalog(name, uri=f"sqlite:///{folder}/{name}.db", warehouse=f"file://{folder}/{name}")


@pytest.mark.parametrize(
    ("sql", "some", "others"),
    [
        ("SEL|", {"SELECT"}, {"clicks", "url"}),
        ("sel|", {"select"}, {"SELECT"}),
        ("SELECT * FROM |", {"clicks", "default.clicks", "prod.web.orders", "busy", "raw"}, {"country"}),
        ("SELECT * FROM default.cl|", {"clicks"}, {"url"}),
        ("SELECT * FROM prod.web.|", {"orders"}, {"clicks"}),
        ("SELECT * FROM clicks JOIN bu|", {"busy"}, {"clicks"}),
        ("SELECT | FROM clicks", {"url", '"order"', "device", "clicks", "date_trunc"}, {"order_id"}),
        ("SELECT c.| FROM clicks AS c", {"url", "device"}, {"order_id", "date_trunc", "SELECT"}),
        ("SELECT c.u| FROM clicks c, prod.web.orders", {"url"}, {"device"}),
        ('SELECT "o| ', set(), {"url"}),
        ("SELECT device.| FROM clicks", {"kind"}, {"url"}),
        ("SELECT c.device.k| FROM clicks$live c", {"kind"}, {"url"}),
        ("SELECT * FROM prod.web.orders WHERE p|", {"placed_at"}, {"url"}),
        ("WITH few AS (SELECT url AS page, 1 AS n FROM clicks) SELECT | FROM few", {"page", "n"}, {"url"}),
        ("WITH few AS (SELECT 1) SELECT * FROM f|", {"few"}, {"clicks"}),
        ("SELECT s.| FROM (SELECT * FROM clicks) s", {"url"}, {"order_id"}),
        ("SELECT (SELECT max(|) FROM prod.web.orders) FROM clicks", {"placed_at", "url"}, set()),
        ("SELECT * FROM busy WHERE v|", {"views"}, set()),
        ("SELECT * FROM clicks WHERE url = $c|", {"$country"}, {"$_x", "country"}),
        ("SELECT date_tr|", {"date_trunc"}, {"date_part"}),
        ("SELECT 1; SELECT | FROM prod.web.orders", {"order_id"}, {"url"}),
        ("SELECT 'u| FROM clicks", set(), {"url"}),
        ("SELECT 1 -- u|", set(), {"url"}),
        ("SELECT u| /* x */ FROM clicks -- all", {"url"}, set()),
    ],
)  # fmt: skip
def test_what_may_stand_at_a_place(scope: Scope, sql: str, some: set[str], others: set[str]) -> None:
    """Names of the tables that the query reads, by alias and part; functions, keywords and variables."""
    at = sql.index("|")
    found = {one.text for one in suggest(sql.replace("|", ""), at, scope)[1]}
    assert some <= found
    assert not others & found


def _about(sql: str, cursor: int, scope: Scope) -> dict[str, str]:
    return {text: about.replace("\xa0", " ") for text, about in suggest(sql, cursor, scope)[1]}


def test_a_suggestion_says_what_it_is(scope: Scope) -> None:
    """Type and comment of a column, arguments and result of a function, what a variable holds."""
    about = _about("SELECT  FROM clicks", 7, scope)
    assert about["url"] == "column string: the page"
    assert about["date_trunc"].startswith("function (part, timestamp) → ")
    assert _about("FROM ", 5, scope)["busy"] == "result DataFrame of 1 x 1"


def test_functions_are_those_of_the_engine(scope: Scope) -> None:
    """Spark's have its own arguments; a column that is a reserved word is quoted its way."""
    spark = Scope(scope.names, "spark", {}, {})
    about = _about("SELECT  FROM clicks", 7, spark)
    assert about["date_trunc"].startswith("function (format, timestamp)")
    assert "`order`" in about


def test_two_hundred_tables_of_a_hundred_columns(tmp_path: Path) -> None:
    """Once the catalog has been listed it is asked for the tables of the query alone."""
    catalog = _open(tmp_path, "lake")
    catalog.create_namespace("default")
    wide = Schema(*(NestedField(n, f"c{n}", StringType()) for n in range(1, 101)))
    first = catalog.create_table("default.t0", wide)
    for number in range(1, 200):
        catalog.register_table(f"default.t{number}", first.metadata_location)
    asked = Mock(wraps=catalog)
    large = _scope(lambda name=None: asked)
    for _ in range(2):
        found = suggest("SELECT  FROM t7 JOIN t8 USING (c1)", 7, large)[1]
        assert len(suggest("FROM t", 6, large)[1]) == 200
    assert {"c1", "c100"} <= {one.text for one in found}
    # Once for each of the two catalogs, which are the same here; and once for each table of the query.
    assert (asked.list_tables.call_count, asked.load_table.call_count) == (2, 2)


def test_a_catalog_that_is_away_spoils_no_completion() -> None:
    """What needs no server is suggested."""

    def away(name: str | None = None) -> None:
        raise RetryableError("away")

    assert {"SELECT"} == {one.text for one in suggest("FROM t SELEC", 12, _scope(away))[1]}
    assert suggest("SELECT * FROM b", 15, _scope(away))[1][0].text == "busy"


def test_a_server_that_hangs_is_waited_for_once() -> None:
    """Not with each key: cells would wait behind the completions."""
    kept, ends, began = Kept(first_patience_s=0.5), threading.Event(), time.monotonic()
    assert {kept.get("tables", ends.wait, False, keep_s=60) for _ in range(12)} == {False}
    assert time.monotonic() - began < 5  # 12 times the first patience is 6
    ends.set()
