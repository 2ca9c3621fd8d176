"""Athena through a cursor that answers from memory; tests/athena asks a server."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from pyiceberg.catalog import Catalog

from tabletopic_kernel.model.errors import ActionNeededError, RetryableError, SettingsError, UsageError
from tabletopic_kernel.model.settings.sections import AthenaSettings
from tabletopic_kernel.query.answer import TableRead
from tabletopic_kernel.query.athena import AthenaLake
from tabletopic_kernel.query.duckdb import DuckLake

GLUE = {"name": "lake", "type": "glue", "glue.region": "eu-central-1"}
READ = (TableRead("default.clicks", 42, 1_700_000_000_000),)


class Cursor:
    """Keeps what it was told; gives three rows, or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.told: list[tuple[str, dict[str, Any] | None]] = []
        self.description = [("n", "integer", None, None, 10, 0, "UNKNOWN")]
        self.data_scanned_in_bytes = 4096

    def execute(self, operation: str, parameters: dict[str, Any] | None = None) -> None:
        """Run a statement."""
        self.told.append((operation, parameters))
        if self.error is not None:
            raise self.error

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        """The first rows."""
        return self.fetchall()[:size]

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows."""
        return [(1,), (2,), (3,)]


def athena(cursor: Cursor) -> AthenaLake:
    """Athena with that cursor."""
    return AthenaLake(GLUE, lambda _: READ, cursor=lambda: cursor)


def test_values_are_given_beside_the_text() -> None:
    """Ours is the placeholder alone, other signs of % are doubled; nothing is formatted without values."""
    cursor = Cursor()
    answer = athena(cursor).query("SELECT n FROM clicks WHERE u LIKE '%x' AND c = $c;", {"c": "it's"}, 2)
    assert cursor.told == [("SELECT n FROM clicks WHERE u LIKE '%%x' AND c = %(c)s", {"c": "it's"})]
    assert answer.rows.num_rows == 2
    assert answer.truncated
    assert answer.tables == READ
    assert answer.scanned_bytes == 4096
    cursor = Cursor()
    assert athena(cursor).query("SELECT '%s'").rows.num_rows == 3
    assert cursor.told == [("SELECT '%s'", None)]


def test_wrong_sql_is_wrong_use() -> None:
    """Trouble with AWS is something else; another catalog is refused; a client that is missing is told."""
    with pytest.raises(UsageError, match="line 1:8"):
        athena(Cursor(RuntimeError("SYNTAX_ERROR: line 1:8: no such column"))).query("SELECT x")
    with pytest.raises(ActionNeededError, match="AccessDenied"):
        athena(Cursor(RuntimeError("AccessDenied"))).query("SELECT 1")
    with pytest.raises(SettingsError, match="use the engine duckdb"):
        AthenaLake({"type": "sql"}, lambda _: ())
    AthenaLake({"type": "sql"}, lambda _: (), AthenaSettings(catalog="federated"))


def test_rows_are_there_without_their_freshness() -> None:
    """The catalog may be away, or not know a name of Athena's: the rows were paid for."""

    def away(_: str) -> tuple[TableRead, ...]:
        raise RetryableError("the catalog does not respond")

    answer = AthenaLake(GLUE, away, cursor=Cursor).query("SELECT n FROM clicks")
    assert (answer.rows.num_rows, answer.tables) == (3, ())


def test_a_missing_client_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has no PyAthena reads what to install."""
    monkeypatch.setitem(sys.modules, "pyathena", None)
    with pytest.raises(ActionNeededError, match=r"pip install 'tabletopic\[athena\]'"):
        AthenaLake(GLUE, lambda _: ()).query("SELECT 1")


def test_the_tables_of_a_text_and_their_snapshots(own: DuckLake, catalog: Catalog) -> None:
    """Which tables SQL of another engine reads, as far as DuckDB's parser knows it."""
    snapshot = catalog.load_table("default.clicks").current_snapshot()
    (read,) = own.tables("SELECT * FROM default.clicks JOIN nowhere USING (id)")
    assert (read.table, read.snapshot_id) == ("default.clicks", snapshot.snapshot_id)
    assert own.tables("SELECT ((") == ()
