"""SQL over several catalogs: which one a name means, and one that does not respond."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.model.errors import RetryableError, SettingsError, Trouble, UsageError
from tabletopic_kernel.query.athena import AthenaLake
from tabletopic_kernel.query.catalogs import no_such_table
from tabletopic_kernel.query.duckdb import DuckLake
from tabletopic_kernel.query.statements.sql import with_catalogs

GLUE = {"name": "lake", "type": "glue", "glue.region": "eu-central-1"}
S3_TABLES = {
    "type": "rest",
    "warehouse": "arn:aws:s3tables:eu-central-1:1:bucket/prod",
    "client.region": "eu-central-1",
}


def prod(folder: Path) -> Catalog:
    """A catalog with ``default.clicks`` too, and nothing else in common."""
    folder.mkdir()
    found = open_catalog(
        {"name": "prod", "type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/w"}
    )
    for name in ("default.clicks", "sales.a.orders"):
        rows = pa.table({"id": [2, 3, 4, 5], "name": list("abcd")})
        found.create_namespace_if_not_exists(tuple(name.split(".")[:-1]))
        found.create_table(name, rows.schema).append(rows)
    return found


@pytest.fixture
def both(catalog: Catalog, tmp_path: Path) -> Iterator[DuckLake]:
    """DuckDB over the small catalog, ``prod``, and ``away``, which does not respond."""
    other = prod(tmp_path / "prod")

    def away() -> Catalog:
        raise RetryableError(Trouble("no answer", "is {section} right?"))

    made = DuckLake(catalog, others={"prod": lambda: other, "away": away})
    yield made
    made.close()


def test_a_name_means_one_catalog(both: DuckLake) -> None:
    """Without a catalog it is the default one's; three parts begin with a catalog's name, in any case."""

    def count(table: str) -> int:
        return int(both.sql(f"SELECT count(*) AS n FROM {table}").column("n")[0].as_py())

    assert [count(name) for name in ("clicks", "default.clicks", "lake.default.clicks")] == [3, 3, 3]
    assert [count(name) for name in ("prod.default.clicks", "PROD.default.Clicks")] == [4, 4]
    assert count('prod."sales.a".orders') == 4
    assert count("clicks") == 3  # also after the other one was asked
    joined = "SELECT a.url, b.name FROM clicks a JOIN prod.default.clicks b USING (id) ORDER BY id"
    answer = both.query(joined)
    assert answer.rows.to_pylist() == [{"url": "/a", "name": "a"}, {"url": "/b", "name": "b"}]
    assert {one.table for one in answer.tables} == {"default.clicks", "prod.default.clicks"}
    assert {one.table for one in both.tables(joined)} == {"default.clicks", "prod.default.clicks"}


def test_lists_and_messages_name_the_catalog(both: DuckLake, own: DuckLake) -> None:
    """What is meant by a wrong name may be elsewhere; one that does not respond is left out there."""
    with pytest.raises(UsageError, match=r"no table order; did you mean .*prod\.sales\.a\.orders"):
        both.sql('SELECT * FROM "order"')
    with pytest.raises(UsageError, match=r"no table prod\.default\.clikcs; did you mean .*clicks"):
        both.sql("SELECT * FROM prod.default.clikcs")
    assert own.sql("SHOW TABLES").column_names == ["namespace", "name"]


def test_the_table_list_has_all_catalogs(catalog: Catalog, tmp_path: Path) -> None:
    """With a column that says which; of one that does not respond, the error says its section."""
    other = prod(tmp_path / "prod")
    lake = DuckLake(catalog, others={"prod": lambda: other})
    assert [tuple(row.values()) for row in lake.sql("SHOW TABLES").to_pylist()] == [
        ("lake", "default", "clicks"),
        ("lake", "web", "Orders"),
        ("prod", "default", "clicks"),
        ("prod", "sales.a", "orders"),
    ]
    lake.close()


def test_one_that_does_not_answer_is_asked_only_when_named(both: DuckLake) -> None:
    """Its queries say which section; those of the others never notice."""
    assert both.sql("SELECT 1 AS n FROM clicks LIMIT 1").num_rows == 1
    for sql in ("SELECT * FROM away.default.clicks", "SHOW TABLES"):
        with pytest.raises(RetryableError, match=r"is \[catalogs.away\] right"):
            both.sql(sql)


@pytest.mark.parametrize(
    ("sql", "expected", "named"),
    [
        ("SELECT * FROM prod.a.b", 'SELECT * FROM "x/y".a.b', ["prod"]),
        ('SELECT * FROM "PROD" . a."b"', 'SELECT * FROM "x/y" . a."b"', ["prod"]),
        ("SELECT prod.a FROM a.prod.b, prod.b", None, []),
        ("SELECT 'prod.a.b' -- prod.a.b", None, []),
        ("SELECT * FROM lab.ä.b, prod.ü.c", 'SELECT * FROM lab.ä.b, "x/y".ü.c', ["lab", "prod"]),
    ],
)
def test_catalogs_in_a_text(sql: str, expected: str | None, named: list[str]) -> None:
    """The first of three parts; texts, comments, columns and tables of that name stay."""
    assert with_catalogs(sql, {"prod": "x/y", "lab": None}) == (expected or sql, named)


class Cursor:
    """Keeps what was asked."""

    description = (("n", "bigint", None, None, 19, 0, True),)
    data_scanned_in_bytes = 0

    def __init__(self) -> None:
        self.asked = ""

    def execute(self, operation: str, parameters: dict[str, Any] | None = None) -> None:
        """As PyAthena's."""
        self.asked = operation

    def fetchall(self) -> list[tuple[Any, ...]]:
        """One row."""
        return [(1,)]

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        """The same."""
        return [(1,)][:size]


def test_athena_is_given_its_own_names() -> None:
    """Of Glue and S3 Tables; other catalogs, and those of another region, are an error of the query."""
    cursor = Cursor()
    elsewhere = {**S3_TABLES, "client.region": "us-east-1"}
    others = {"prod": S3_TABLES, "far": elsewhere, "lab": {"type": "sql"}}
    lake = AthenaLake(GLUE, lambda _: (), cursor=lambda: cursor, others=others)
    lake.query("SELECT n FROM prod.sales.orders JOIN clicks USING (n);")
    assert cursor.asked == 'SELECT n FROM "s3tablescatalog/prod".sales.orders JOIN clicks USING (n)'
    with pytest.raises(SettingsError, match=r"\[catalogs.lab\] is neither"):
        lake.query("SELECT n FROM lab.sales.orders")
    with pytest.raises(UsageError, match="prod and far have different regions or keys"):
        lake.query("SELECT n FROM prod.a.b, far.a.b")
    only_other = AthenaLake({"type": "sql"}, lambda _: (), cursor=lambda: cursor, others=others)
    assert only_other.query("SELECT n FROM prod.a.b").rows.num_rows == 1
    for sql in ("SELECT n FROM clicks", "SELECT n FROM prod.a.b JOIN clicks USING (n)"):
        with pytest.raises(SettingsError, match=r"\[catalog\] is neither"):
            only_other.query(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT n FROM far.a.b JOIN clicks USING (n)",
        "WITH far_ones AS (SELECT * FROM far.a.b) SELECT n FROM far_ones JOIN default.clicks USING (n)",
        "SELECT n FROM far.a.b FOR VERSION AS OF 7 JOIN clicks FOR VERSION AS OF 8 USING (n)",
    ],
)
def test_athena_joins_no_regions(sql: str) -> None:
    """Nor one region with the default catalog's: there it might find another table of that name."""
    cursor = Cursor()
    far = {**S3_TABLES, "client.region": "us-east-1"}
    lake = AthenaLake(GLUE, lambda _: (), cursor=lambda: cursor, others={"far": far, "prod": S3_TABLES})
    with pytest.raises(
        UsageError, match=r"clicks is a table of \[catalog\], whose region or keys differ .*far"
    ):
        lake.query(sql)
    assert cursor.asked == ""
    lake.query(sql.replace("far.", "prod."))
    lake.query("WITH a AS (SELECT n FROM far.a.b) SELECT n FROM a")
    assert cursor.asked


def test_messages_about_missing_tables() -> None:
    """The nearest names come first; without near ones all are listed, up to ten."""
    assert no_such_table("a", []) == "there is no table a; the catalog has no tables yet"
    assert no_such_table("web.clicks", ["default.clicks"]).endswith("did you mean default.clicks?")
    many = no_such_table("zzz", [f"default.t{number}" for number in range(20)])
    assert many.endswith(", …")
    assert many.count("default.") == 10
