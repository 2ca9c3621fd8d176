"""“Format SQL”: what it keeps, and what it says about SQL that it cannot read."""

from __future__ import annotations

import duckdb
import pytest

from tabletopic_kernel.faces.notebook.sql.formatting import format_cell
from tabletopic_kernel.model.errors import UsageError

CELLS = {
    "duckdb": "%%lake --limit 5\nbusy << select url, 1 n -- how many\nfrom clicks$live where c = $least",
    "spark": "%%lake --engine spark\nselect url from `lake`.default.clicks version as of 7 where c = $least",
    "athena": "%%lake -e athena\n\nselect url from clicks for version as of $least",
}


@pytest.mark.parametrize("engine", CELLS)
def test_a_format_keeps_what_is_not_sql(engine: str) -> None:
    """First line, variables and comments stay; a second format changes nothing."""
    cell = CELLS[engine]
    text = format_cell(cell)
    assert text.splitlines()[0] == cell.splitlines()[0]
    assert "$least" in text
    assert ("/* how many */" in text) == ("how many" in cell)
    assert "SELECT\n  url" in text
    assert format_cell(text) == text


@pytest.mark.parametrize("sql", ["SELECT 'abc' ~ 'b' AS a", """SELECT '{"a.b": 1}'::JSON ->> 'a.b' AS a"""])
def test_a_format_returns_the_same_rows(sql: str) -> None:
    """An operator of this version of DuckDB, a key with a dot."""
    with duckdb.connect() as connection:
        formatted = format_cell(f"%%lake\n{sql}").partition("\n")[2]
        assert connection.sql(formatted).fetchall() == connection.sql(sql).fetchall()


LOST = "%%lake\nSELECT CASE -- which\n WHEN a THEN 1 END -- lost\nFROM t"


@pytest.mark.parametrize(
    "cell", [LOST, "%%lake\nSELECT (", "%%lake", "x = 1", "%%lake -e oracle_9\nSELECT 1"]
)
def test_what_cannot_be_formatted_says_why(cell: str) -> None:
    """In one line, without colours for a terminal."""
    with pytest.raises(UsageError) as failed:
        format_cell(cell)
    assert "\n" not in str(failed.value)
    assert "\x1b" not in str(failed.value)
