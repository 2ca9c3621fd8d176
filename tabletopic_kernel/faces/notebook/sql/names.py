"""The names that complete SQL: tables, columns, functions and keywords, kept for a while.

Servers are asked in a thread. Completion waits for it briefly, and does without what is late: the next
request has it.
"""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from tabletopic_kernel.faces.notebook.session import Session
from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.query.statements.sql import MOST_PARTS, Name

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

T = TypeVar("T")
_KEEP_S = 10.0  # broker and catalog must not be queried with each key
_KEEP_COLUMNS_S = 60.0
_PATIENCE_S, _FIRST_PATIENCE_S = 0.08, 5.0  # with an older answer, and without
_LIVE = "$live"
# Those that DuckDB also takes for names, and that people write; it has 330 more.
_MORE_KEYWORDS = (
    *("asc", "between", "by", "cast", "coalesce", "exclude", "exists", "extract", "filter", "first", "if"),
    *("interval", "last", "nulls", "over", "partition", "preceding", "range", "recursive", "replace", "row"),
    *("rows", "set", "try_cast", "unbounded", "values"),
)


@dataclass(frozen=True)
class Column:
    """A column or a field of one; ``fields``: those of a structure."""

    name: str
    type: str = ""
    doc: str = ""
    fields: tuple[Column, ...] = ()


class Kept:
    """Answers by key, asked again when old; empty ones if the server does not respond."""

    def __init__(self, first_patience_s: float = _FIRST_PATIENCE_S) -> None:
        self._first_patience_s = first_patience_s
        self._answers: dict[object, tuple[Any, float]] = {}
        self._asking: dict[object, tuple[threading.Thread, float]] = {}  # since when

    def get(self, key: object, ask: Callable[[], T], empty: T, keep_s: float = _KEEP_S) -> T:
        """The answer, an older one if a newer one is late, or ``empty`` if there is none."""
        answer, until = self._answers.get(key, (empty, 0.0))
        if time.monotonic() < until:
            return answer  # type: ignore[no-any-return]

        def run() -> None:
            value = empty
            with suppress(Exception):  # a traceback would be written into a cell
                value = ask()
            self._answers[key] = value, time.monotonic() + keep_s

        thread, since = self._asking.get(key, (None, 0.0))
        if thread is None or not thread.is_alive():
            thread, since = threading.Thread(target=run, name="completion", daemon=True), time.monotonic()
            self._asking[key] = thread, since
            thread.start()
        # The first patience is for all requests together: each one keeps the kernel from running cells.
        left = 0.0 if key in self._answers else since + self._first_patience_s - time.monotonic()
        thread.join(max(_PATIENCE_S, left))
        return self._answers.get(key, (empty, 0.0))[0]  # type: ignore[no-any-return]


class Names:
    """The names of a session's catalogs and engines."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._kept = Kept()

    def tables(self) -> list[str]:
        """The dotted names of all tables, those of the default namespace also without it."""
        return self._kept.get("tables", self._ask_tables, [])

    def columns(self, name: Name) -> tuple[Column, ...]:
        """The columns of a table; none if there is no such table."""
        return self._kept.get(("columns", name), lambda: self._ask_columns(name), (), _KEEP_COLUMNS_S)

    def functions(self, engine: str) -> dict[str, str]:
        """What each function of an engine takes and returns, by name."""
        ask = _FUNCTIONS.get(engine, _duckdb_functions)
        return self._kept.get(("functions", engine), ask, {}, float("inf"))

    def keywords(self) -> dict[str, bool]:
        """SQL's keywords, and whether a name must not be one; DuckDB's, which are nearly those of others."""
        return self._kept.get("keywords", _keywords, {}, float("inf"))

    def _ask_tables(self) -> list[str]:
        workbench = self._session.workbench
        names = _names_in(workbench.open_catalog())
        short = [name.removeprefix("default.") for name in names if name.startswith("default.")]
        others: list[str] = []
        for catalog in workbench.servers.catalogs:
            with suppress(TableTopicError):  # an unresponsive catalog must not hide the others' names
                others += [f"{catalog}.{name}" for name in _names_in(workbench.open_catalog(catalog))]
        return sorted([*names, *short, *others], key=lambda name: (name.count("."), name))

    def _ask_columns(self, name: Name) -> tuple[Column, ...]:
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError  # noqa: PLC0415

        from tabletopic_kernel.clients.catalog.catalog import reachable  # noqa: PLC0415

        servers = self._session.workbench.servers
        other, below = None, (*name[:-1], name[-1].removesuffix(_LIVE))
        if len(name) >= MOST_PARTS and name[0] in (servers.catalog["name"], *servers.catalogs):
            other, below = (name[0] if name[0] in servers.catalogs else None), below[1:]
        identifier = below if len(below) > 1 else ("default", *below)
        with reachable("the catalog"), suppress(NoSuchTableError, NoSuchNamespaceError):
            fields = self._session.workbench.open_catalog(other).load_table(identifier).schema().fields
            return tuple(map(_column, fields))
        return ()


def _column(field: Any) -> Column:
    """A field of PyIceberg's."""
    below = getattr(field.field_type, "fields", ())
    kind = "struct" if below else str(field.field_type)
    return Column(field.name, kind, field.doc or "", tuple(map(_column, below)))


def _names_in(catalog: Catalog) -> list[str]:
    from tabletopic_kernel.clients.catalog.catalog import reachable  # noqa: PLC0415 - PyIceberg costs half a second

    with reachable("the catalog"):
        return [
            ".".join(table) for space in catalog.list_namespaces() for table in catalog.list_tables(space)
        ]


def _keywords() -> dict[str, bool]:
    rows = _ask_duckdb("SELECT keyword_name, keyword_category FROM duckdb_keywords()")
    common = {word: kind == "reserved" for word, kind in rows if kind in ("reserved", "type_function")}
    return common | dict.fromkeys(_MORE_KEYWORDS, False)


def _duckdb_functions() -> dict[str, str]:
    rows = _ask_duckdb(
        "SELECT function_name, '(' || array_to_string(parameters, ', ') || ')' || "
        "coalesce(' → ' || return_type, '') || coalesce(': ' || description, '') FROM duckdb_functions() "
        "WHERE function_type IN ('scalar', 'aggregate', 'macro') "
        r"AND regexp_full_match(function_name, '[a-z]\w+') ORDER BY function_name, len(parameters) DESC"
    )
    return {name: about for name, about in rows if not name.startswith("__")}


def _spark_functions() -> dict[str, str]:
    from pyspark.sql import functions  # noqa: PLC0415 - part of a second

    made = {name: getattr(functions, name) for name in functions.__all__ if name.islower()}
    return {
        name: f"({', '.join(inspect.signature(function).parameters)})"
        for name, function in made.items()
        if inspect.isfunction(function)
    }


_FUNCTIONS = {"duckdb": _duckdb_functions, "spark": _spark_functions}


def _ask_duckdb(sql: str) -> Sequence[Any]:
    import duckdb  # noqa: PLC0415 - loaded with the first query

    with duckdb.connect() as connection:
        return connection.execute(sql).fetchall()
