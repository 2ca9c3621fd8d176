"""Where an error is, as DuckDB, Spark and Athena say it, and how a cell shows it."""

from __future__ import annotations

import duckdb
import pytest

from tabletopic_kernel.faces.notebook.sql.places import place_of, with_place

SPARK = "[PARSE_SYNTAX_ERROR] Syntax error at or near 'x'. SQLSTATE: 42601 (line 2, pos 3)\n\n== SQL =="
ATHENA = "COLUMN_NOT_FOUND: line 1:8: Column 'urll' cannot be resolved"


@pytest.mark.parametrize(
    ("sql", "place"),
    [
        ("SELECT urll FROM t", (0, 7)),
        ("SELECT\n  url,\n  urll FROM t", (2, 2)),
        ("SELECT 'ü' || urll FROM t", (0, 14)),
        ("SELECT '日本🦆' || urll FROM t", (0, 16)),
        ("SELECT\n\t1,\turll FROM t", (1, 4)),
        (f"SELECT {'url, ' * 40}urll FROM t", (0, 207)),
        ("SELEC url FROM t", (0, 0)),
        ("SELECT url FROM t WHERE url = CAST('x' AS INT) + nosuch(1)", (0, 49)),
        ("SELECT 1 +", None),
    ],
)
def test_the_place_of_an_error_of_duckdb(sql: str, place: tuple[int, int] | None) -> None:
    """Line and column in the whole SQL, although DuckDB shows a part of a long line."""
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (url VARCHAR)")
        with pytest.raises(duckdb.Error) as failed:
            connection.execute(sql)
    assert place_of(str(failed.value), sql) == place


@pytest.mark.parametrize(
    ("message", "sql", "place"),
    [
        (SPARK, "SELECT\n1, x y z", (1, 3)),
        (ATHENA, "SELECT urll FROM t", (0, 7)),
        (ATHENA.replace("1:8", "9:8"), "SELECT urll FROM t", None),
        ("there is no table t", "SELECT * FROM t", None),
    ],
)
def test_the_place_of_an_error_of_another_engine(
    message: str, sql: str, place: tuple[int, int] | None
) -> None:
    """Spark counts columns from 0, Trino from 1; a line that is not there is none."""
    assert place_of(message, sql) == place


def test_a_cell_shows_the_line_and_marks_the_word() -> None:
    """Lines and columns are the cell's, so that an editor can mark the word, too."""
    sql, message = "SELECT urll\nFROM t", "Binder Error: no urll\n\nLINE 1: SELECT urll\n               ^"
    shown = with_place(message, sql, before=" --limit 5\nbusy << ")
    assert shown == ("Binder Error: no urll\n\nline 2, column 16 of the cell:\nSELECT urll\n       ^^^^")
    assert "line 1, column 8 of the SQL:" in with_place(message, sql, before=None)
    behind_a_tab = message.replace("SELECT ", "SELECT\t").replace(" ^", "^")
    tabbed = with_place(behind_a_tab, sql.replace("SELECT ", "SELECT\t"), before=None)
    assert tabbed.endswith("\nSELECT\turll\n      \t^^^^")
    assert with_place("no place", sql, before=None) == "no place"
