"""What a grid asks, answered from rows that a kernel keeps."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

from tabletopic_kernel.faces.notebook.results.kept import Query, Results
from tabletopic_kernel.faces.notebook.results.operations import Operations

Ask = Callable[..., Any]
_SQL = """
    SELECT i AS n, CASE WHEN i % 10 = 0 THEN NULL ELSE (i * 1.5)::DECIMAL(12, 2) END AS price,
        'page-' || (i % 3) AS page, TIMESTAMPTZ '2026-01-01 00:00:00+00' + to_minutes(i) AS at
    FROM range(250) AS t (i)
"""


def rows_of(sql: str) -> pa.Table:
    """The rows of a query, timestamps in UTC."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.execute(sql).to_arrow_table()


def asking(rows: pa.Table, query: Query | None = None) -> Ask:
    """Asks about these rows; returns the reply without its number."""
    results = Results(lambda: 2**30)
    operations, key = Operations(results), results.keep(rows, query).key

    def ask(operation: str, **more: Any) -> Any:
        reply = operations.reply({"number": 7, "result": key, "operation": operation, **more})
        assert reply.pop("number") == 7
        return reply

    return ask


@pytest.fixture
def ask() -> Ask:
    """Asks about 250 rows."""
    return asking(rows_of(_SQL), Query(_SQL, "duckdb", "2026-01-31", ("country",), frames=("busy",)))


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("NULL::VARCHAR", None),
        ("'null'", "null"),
        ("''", ""),
        ("'NaN'::DOUBLE", "nan"),
        ("0.1::FLOAT", "0.1"),
        ("'-inf'::FLOAT", "-inf"),
        ("9223372036854775807", "9223372036854775807"),
        ("538.3059::DECIMAL(38, 10)", "538.3059000000"),
        ("'6f1c7f0e-3a51-4a0e-9c5c-0a3a2b1c9d8e'::UUID", "6f1c7f0e-3a51-4a0e-9c5c-0a3a2b1c9d8e"),
        ("TIMESTAMPTZ '2026-01-31 12:00:00.123456+02'", "2026-01-31 10:00:00.123456Z"),
        ("TIMESTAMP '2026-01-31 12:00:00'", "2026-01-31 12:00:00"),
        ("DATE '0001-01-01'", "0001-01-01"),
        ("TIME '12:30:00.5'", "12:30:00.500000"),
        ("true", "true"),
        ("'\\xDE\\xAD'::BLOB", "\\xDE\\xAD"),
        ("{'city': 'Utrecht', 'tags': ['a', NULL]}", "{city: Utrecht, tags: [a, null]}"),
        ("MAP {'a': 1}", "{a: 1}"),
        ("repeat('ü', 1000)", ("ü" * 200, 1000)),
        ("'<b>&'", "<b>&"),
    ],
)
def test_values_are_exact(sql: str, text: Any) -> None:
    """Each type has its text; null is neither a text nor a number that is none; long texts are cut."""
    assert asking(rows_of(f"SELECT {sql} AS v"))("page", at=0) == {"at": 0, "total": 1, "rows": [[text]]}


def test_pages_of_any_order(ask: Ask) -> None:
    """A page has 100 rows; the last one fewer, and none is behind it. Nulls are last both ways."""
    page = ask("page", at=200)
    assert (page["at"], page["total"], len(page["rows"]), page["rows"][0][0]) == (200, 250, 50, "200")
    assert ask("page", at=10**9)["at"] == 249
    down = ask("page", at=0, sort=[[0, True]])["rows"]
    assert [row[0] for row in down[:3]] == ["249", "248", "247"]
    for descending in (False, True):
        last = ask("page", at=225, sort=[[1, descending]])["rows"]
        assert {row[1] for row in last} == {None}
        assert [row[0] for row in last[:2]] == ["0", "10"]
    several = ask("page", at=0, sort=[[2, True], [0, True]])["rows"]
    assert several[0][0] == "248"


def test_texts_with_the_same_beginning_are_sorted() -> None:
    """By what follows, to the end; the beginning alone is the first, and null the last."""
    texts = ["ü/9", "ü/", "ü/10", "ü/é", "ü/z"]
    ask = asking(rows_of(f"SELECT unnest([NULL, {str(texts)[1:-1]}]) AS v"))
    for descending in (False, True):
        rows = ask("page", at=0, sort=[[0, descending]])["rows"]
        assert [row[0] for row in rows] == [*sorted(texts, reverse=descending), None]


@pytest.mark.parametrize(
    ("rule", "count"),
    [
        ((2, "contains", "GE-1"), 83),
        ((2, "=", "page-1"), 83),
        ((2, "!=", "page-1"), 167),
        ((0, ">", "99.5"), 150),
        ((0, "<", "1,000.5"), 250),
        ((1, "=", "1.505"), 0),
        ((1, "<=", "1.50"), 1),
        ((1, "!=", "1.5"), 249),
        ((1, "null", ""), 25),
        ((1, "not null", ""), 225),
        ((3, ">=", "2026-01-01T04:00:00Z"), 10),
        ((2, "=", "' OR true --"), 0),
    ],
)
def test_filters(ask: Ask, rule: tuple[int, str, str], count: int) -> None:
    """Numbers are compared as they were typed, never rounded to the column; what was typed is no SQL."""
    assert ask("page", at=0, filters=[rule])["total"] == count


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ({"operation": "page", "at": 0, "filters": [[0, "=", "many"]]}, "'many' is not a number"),
        ({"operation": "page", "at": 0, "filters": [[0, "<", "1,5"]]}, "'1,5' is not a number"),
        ({"operation": "page", "at": 0, "filters": [[3, "<", "soon"]]}, "invalid timestamp field format"),
        ({"operation": "page", "at": 0, "filters": [[0, "like", "x"]]}, "is no comparison for BIGINT"),
        ({"operation": "cell", "at": 250, "column": 0}, "there is no row 251"),
        ({"operation": "cell", "at": 0, "column": 9}, "IndexError"),
        ({"operation": "export", "form": "xlsx"}, "csv, parquet or arrow"),
        ({"operation": "page", "at": 0, "result": "gone"}, "Run the cell again"),
    ],
)
def test_errors_are_replies(ask: Ask, message: dict[str, Any], error: str) -> None:
    """The grid shows them in one line, without SQL that the user did not write."""
    reply = ask(**message)
    assert error in reply["error"]
    assert "LINE" not in reply["error"]


def test_a_cell_is_shown_whole() -> None:
    """Nested values as names and values, bytes as a hex dump, texts uncut."""
    ask = asking(
        rows_of(
            "SELECT {'a': [1, NULL], 'm': MAP {'k': 0.5::DOUBLE}} AS nested, "
            "'\\x00A'::BLOB AS raw, repeat('x', 500) AS text, NULL AS nothing"
        )
    )
    nested, raw, text, nothing = (ask("cell", at=0, column=index) for index in range(4))
    assert nested["tree"] == [("a", [("0", "1"), ("1", None)]), ("m", [("k", "0.5")])]
    assert raw == {"hex": f"00000000  {'00 41':<47}  .A", "length": 2}
    assert text == {"text": "x" * 500, "length": 500}
    assert nothing["text"] is None


def test_copies(ask: Ask) -> None:
    """With tabs and a heading, one cell alone; Markdown; and an INSERT of the same rows in DuckDB."""
    assert ask("copy", form="text", at=1, columns=[1])["text"] == "1.50"
    both = ask("copy", form="text", at=9, count=2, columns=[0, 1])["text"]
    assert both == "n\tprice\n9\t13.50\n10\t"
    assert ask("copy", form="markdown", at=0, columns=[2])["text"] == "| page |\n| --- |\n| page-0 |"
    sql = (
        "SELECT 1.10::DECIMAL(5, 2) AS d, 'it''s' AS s, '\\xDE'::BLOB AS b, NULL::INT AS z, "
        "'NaN'::DOUBLE AS f, {'a': [1], 'm': MAP {'k': true}, 'e': MAP()} AS n, "
        "TIMESTAMPTZ '2026-01-31 12:00:00+02' AS t, DATE '2026-01-31' AS day"
    )
    rows = rows_of(sql)
    statement = asking(rows)("copy", form="insert", at=0, columns=list(range(8)))["text"]
    with duckdb.connect() as connection:
        connection.execute(f"SET TimeZone = 'UTC'; CREATE TABLE result AS {sql} LIMIT 0")
        connection.execute(statement)
        (copied,) = connection.table("result").to_arrow_table().to_pylist()
    (row,) = rows.to_pylist()
    assert math.isnan(copied.pop("f"))
    assert math.isnan(row.pop("f"))
    assert copied == row


def test_profiles(ask: Ask) -> None:
    """Of the selected rows: nulls, distinct values, ends, and counts that add up."""
    price = ask("profile", column=1)
    assert (price["nulls"], price["distinct"], price["exact"]) == (25, 225, True)
    assert (price["min"], price["max"]) == ("1.50", "373.50")
    assert sum(price["bins"]) == 225
    page = ask("profile", column=2, filters=[[0, "<", "5"]])
    assert page["top"] == [["page-0", "2"], ["page-1", "2"], ["page-2", "1"]]
    same = asking(rows_of("SELECT 'inf'::DOUBLE AS v UNION ALL SELECT 1 UNION ALL SELECT 1"))
    assert same("profile", column=0)["bins"][0] == 2
    for values in ("[DATE '2026-01-31']", "[1.5]"):
        assert asking(rows_of(f"SELECT {values} AS v"))("profile", column=0)["top"] == []
    empty = asking(rows_of("SELECT 1 AS v WHERE false"))("profile", column=0)
    assert (empty["nulls"], empty["min"], empty["bins"]) == (0, None, [])


def test_exports(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of the selected rows in the notebook's folder, which replace none."""
    monkeypatch.chdir(tmp_path)
    chosen = {"filters": [[0, "<", "3"]], "sort": [[0, True]]}
    paths = [ask("export", form=form, **chosen) for form in ("csv", "csv", "parquet", "arrow")]
    assert [Path(reply["path"]).name for reply in paths] == [
        "result.csv", "result-2.csv", "result.parquet", "result.arrow",
    ]  # fmt: skip
    assert (tmp_path / "result.csv").read_text().splitlines()[:2] == [
        "n,price,page,at",
        "2,3.00,page-2,2026-01-01 00:02:00+00",
    ]
    tables = parquet.read_table(tmp_path / "result.parquet"), ipc.open_file(paths[3]["path"]).read_all()
    assert [table.column("n").to_pylist() for table in tables] == [[2, 1, 0]] * 2


def test_charts(ask: Ask) -> None:
    """Time goes along, and a number up; the code queries the same points."""
    chart = ask("chart")
    assert (chart["x"], chart["y"], chart["spec"]["mark"]) == (3, 0, "line")
    points = chart["spec"]["data"]["values"]
    assert len(points) <= 250
    assert points[0]["x"] == "2026-01-01T00:00:00.000Z"
    bars = ask("chart", x=2, y=None)["spec"]
    assert bars["data"]["values"][0] == {"x": "page-0", "y": 84.0}
    asked: dict[str, Any] = {}

    class Workbench:
        def query(self, sql: str, **more: Any) -> Any:
            asked.update(more)
            return type("Answer", (), {"rows": rows_of(sql)})

    shown: list[Any] = []
    names = {
        "workbench": Workbench(),
        "display": lambda data, raw: shown.append(data),
        "country": "NL",
        "busy": [1],
    }
    exec(chart["code"], names | {"country": "NL", "busy": [1]})
    assert shown == [{"application/vnd.vegalite.v5+json": chart["spec"]}]
    assert asked == {"at": "2026-01-31", "params": {"country": "NL"}, "frames": {"busy": [1]}}
    assert "no column" in asking(rows_of("SELECT [1] AS a"))("chart")["error"]
