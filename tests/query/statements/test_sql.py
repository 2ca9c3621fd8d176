"""Names of tables in a text of SQL."""

from __future__ import annotations

import time

import duckdb
import pytest

from tabletopic_kernel.query.statements.sql import quote, quote_default, tables_in, wants_table_list


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    """A DuckDB without tables."""
    return duckdb.connect()


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT a.b FROM x AS a JOIN web.y ON true", {("x",), ("web", "y")}),
        ("WITH t AS (FROM q) FROM t", {("q",)}),
        ('FROM lake."default".y z', {("lake", "default", "y")}),
        ('FROM "we""ird"."a AS b" AS "x AS y"', {('we"ird', "a AS b")}),
        ("FROM a; FROM b", {("a",), ("b",)}),
        ("SELECT count(*) AS visits FROM a WHERE b = $visits OR c = '$d'", {("a",)}),
        ("SELECT 'x.y' -- FROM z", set()),
        ("SELECT * FROM a JOIN b USING (id)", {("a",), ("b",)}),
        ("SELECT id FROM range(3) AS r, web.y, unnest(y.items)", {("web", "y")}),
        ("FROM x WHERE i IN (SELECT j FROM y JOIN z USING (k))", {("x",), ("y",), ("z",)}),
        ("WITH t AS (FROM t), u AS (FROM T) SELECT * FROM u JOIN t USING (a)", {("t",)}),
        ("WITH RECURSIVE t AS (SELECT 1 AS a UNION ALL FROM T JOIN b USING (a)) FROM t", {("b",)}),
        ("SELECT * FROM (WITH t AS (FROM q) FROM t), t", {("q",), ("t",)}),
        ("WITH t AS (FROM q) FROM web.t", {("q",), ("web", "t")}),
        (
            "SELECT (SELECT max(a) FROM b) FROM x UNION ALL FROM y ASOF JOIN z USING (i)",
            {("b",), ("x",), ("y",), ("z",)},
        ),
        ("UNPIVOT x ON a, b", {("x",)}),
        ("DESCRIBE x", {("x",)}),
        ("SUMMARIZE web.x", {("web", "x")}),
        ("EXPLAIN FROM a", {("a",)}),
        ("COPY a TO 'x.csv'", {("a",)}),
        ("", set()),
    ],
)
def test_the_parser_finds_names(
    connection: duckdb.DuckDBPyConnection, sql: str, names: set[tuple[str, ...]]
) -> None:
    """Aliases, common table expressions, texts and comments are no tables."""
    assert set(tables_in(connection, sql)) == names


def test_where_the_parser_cannot_tell_every_name_counts(connection: duckdb.DuckDBPyConnection) -> None:
    """PIVOT and INSERT are not taken apart; quoted names stay one; SHOW TABLES is recognised."""
    assert ("web", "clicks") in tables_in(connection, "PIVOT web.clicks ON a USING sum(b)")
    assert ("clicks",) in tables_in(connection, "INSERT INTO clicks SELECT 1")
    assert quote('a"b') == '"a""b"'
    assert [
        wants_table_list(sql)
        for sql in ("SHOW TABLES", " show  all tables; ", "SHOW TABLES FROM x", "FROM t")
    ] == [True, True, False, False]  # fmt: skip


@pytest.mark.parametrize(
    ("sql", "quoted"),
    [
        ("FROM default.clicks", 'FROM "default".clicks'),
        ("FROM lake.Default . x", 'FROM lake."Default" . x'),
        (
            "SELECT 'ü', 'default.x', default.a.b FROM default.a",
            "SELECT 'ü', 'default.x', \"default\".a.b FROM \"default\".a",
        ),
        ("CREATE TABLE t (a INT DEFAULT 1)", "CREATE TABLE t (a INT DEFAULT 1)"),
        ("/* default.x */ SELECT 1", "/* default.x */ SELECT 1"),
    ],
)
def test_the_main_namespace_needs_no_quotes(sql: str, quoted: str) -> None:
    """``default`` before a dot is a name; elsewhere, and in texts and comments, it stays as it is."""
    assert quote_default(sql) == quoted


def test_a_long_text_takes_little_time() -> None:
    """Time grows with the length of a text, not with its square: lists of keys are pasted into queries."""
    sql = f"SELECT * FROM default.a WHERE id IN ({', '.join(str(10**9 + i) for i in range(60_000))})"
    began = time.process_time()
    duckdb.tokenize(sql)
    tokens = time.process_time() - began
    began = time.process_time()
    assert quote_default(sql).startswith('SELECT * FROM "default".a WHERE')
    assert time.process_time() - began < 0.5 + 10 * tokens
