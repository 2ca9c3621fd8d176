"""People's queries: the last ones, and those saved by name, in a file of the state folder for all faces."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tabletopic_kernel.model.errors import RetryableError, UsageError
from tabletopic_kernel.render.grid import Cell, Grid
from tabletopic_kernel.render.words import clock

_LOG = logging.getLogger(__name__)
_FILE: Final = "queries.db"
_KEPT: Final = 500  # queries of the history
_LONGEST: Final = 100_000  # characters of a query that is kept
_LONGEST_NAME: Final = 100
_WAIT_S: Final = 2.0  # while another program writes
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS history (id INTEGER PRIMARY KEY, cell TEXT UNIQUE, at_ms INTEGER, failed INTEGER);
CREATE TABLE IF NOT EXISTS saved (name TEXT PRIMARY KEY, cell TEXT, at_ms INTEGER);
"""


@dataclass(frozen=True)
class PastQuery:
    """A query that ran, as the text of its ``cell``, and when it ran last."""

    cell: str
    at_ms: int
    failed: bool


@dataclass(frozen=True)
class SavedQuery:
    """A query with a name, as the text of its ``cell``."""

    name: str
    cell: str
    at_ms: int


class Queries:
    """The queries of one state folder. Any number of programs may write at once.

    All but ``ran`` raise RetryableError if the file cannot be read or written.
    """

    def __init__(self, state_dir: str | Path) -> None:
        self._path = Path(state_dir) / _FILE

    def ran(self, cell: str, *, failed: bool) -> None:
        """Note a query; an earlier one with the same text gives way. A query never fails because of this."""
        if len(cell) > _LONGEST:
            return
        try:
            with self._open() as file:
                file.execute("DELETE FROM history WHERE cell = ?", [cell])
                row = [cell, _now_ms(), failed]
                file.execute("INSERT INTO history (cell, at_ms, failed) VALUES (?, ?, ?)", row)
                file.execute("DELETE FROM history WHERE id <= (SELECT max(id) FROM history) - ?", [_KEPT])
        except RetryableError as error:
            _LOG.info("a query is not in the history: %s", error)

    def history(self, word: str = "", limit: int = _KEPT) -> list[PastQuery]:
        """The last queries that contain a word, newest first."""
        select = "SELECT cell, at_ms, failed FROM history WHERE instr(lower(cell), lower(?)) OR ? = ''"
        rows = self._rows(f"{select} ORDER BY id DESC LIMIT ?", word, word, limit)
        return [PastQuery(cell, at_ms, bool(failed)) for cell, at_ms, failed in rows]

    def forget(self) -> None:
        """Empty the history; saved queries stay."""
        with self._open() as file:
            file.execute("DELETE FROM history")

    def saved(self) -> list[SavedQuery]:
        """The saved queries, by name."""
        rows = self._rows("SELECT name, cell, at_ms FROM saved ORDER BY lower(name), name")
        return [SavedQuery(*row) for row in rows]

    def save(self, name: str, cell: str) -> None:
        """Save a query, instead of one with the same name. Raises UsageError: no name, or too long."""
        name = name.strip()
        if not name or len(name) > _LONGEST_NAME or not name.isprintable():
            raise UsageError(f"name the query, with up to {_LONGEST_NAME} characters on one line")
        if not cell.strip() or len(cell) > _LONGEST:
            raise UsageError(f"a query to save has 1 to {_LONGEST:,} characters")
        with self._open() as file:
            file.execute("INSERT OR REPLACE INTO saved VALUES (?, ?, ?)", [name, cell, _now_ms()])

    def delete(self, name: str) -> None:
        """Delete a saved query. Raises UsageError if there is none."""
        with self._open() as file:
            if not file.execute("DELETE FROM saved WHERE name = ?", [name]).rowcount:
                raise UsageError(f"no query is saved as {name!r}")

    def _rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        if not self._path.exists():
            return []
        with self._open() as file:
            return file.execute(sql, values).fetchall()

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """The file, for its owner alone: queries may contain what nobody else should read."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
            with closing(sqlite3.connect(self._path, timeout=_WAIT_S)) as file:
                file.executescript(_TABLES)
                with file:
                    yield file
        except (sqlite3.Error, OSError, UnicodeError) as error:
            raise RetryableError(f"{self._path}: {error}; if that stays so, remove the file") from error


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def queries_grid(queries: Sequence[PastQuery], word: str = "") -> Grid:
    """The history as a table, newest first."""
    rows = [
        [clock(query.at_ms), query.cell, Cell("failed", "bad") if query.failed else ""] for query in queries
    ]
    containing = f" contains {word!r}" if word else ""
    notes = [] if rows else [f"no query of the history{containing}" if word else "no query ran yet"]
    return Grid(("time", "cell", ""), rows, "", notes)
