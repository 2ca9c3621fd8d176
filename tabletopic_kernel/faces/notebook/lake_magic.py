"""``%lake`` and ``%%lake``: SQL over the tables, from a cell."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, magics_class, needs_local_scope, no_var_expand
from traitlets import Int
from traitlets.config.configurable import Configurable

from tabletopic_kernel.faces.notebook.arguments import Parser, add_arguments, parse, values_of
from tabletopic_kernel.faces.notebook.display import Place, report_errors
from tabletopic_kernel.faces.notebook.results.channel import comms_of
from tabletopic_kernel.faces.notebook.results.kept import Query, Results
from tabletopic_kernel.faces.notebook.results.result import LakeResult, PagedResult
from tabletopic_kernel.faces.notebook.session import Session
from tabletopic_kernel.faces.notebook.sql.places import with_place
from tabletopic_kernel.faces.notebook.sql.results import tables_in
from tabletopic_kernel.faces.notebook.sql.text import parts_of
from tabletopic_kernel.faces.operations.operation import Option, check_pause
from tabletopic_kernel.faces.queries import Queries, queries_grid
from tabletopic_kernel.model.errors import RetryableError, TableTopicError, UsageError
from tabletopic_kernel.render.grid import MOST_ROWS, Grid

_PAGED_ROWS = 10_000  # of engines that hold all rows they fetch as objects

_MANUAL = """\
Query the tables in SQL. Name a table as table, namespace.table or catalog.namespace.table.
%%lake reads; write with Spark, %%lake --engine spark.

A table that is in no catalog may be a variable: a DataFrame of pandas or Polars, an Arrow table, or the
rows of an earlier cell. Tables of the catalog win over variables of the same name.

$name in the SQL refers to the variable of that name; its value is bound, never pasted into the text.
result << SELECT ... keeps all rows in a variable: a DataFrame, or the form of --as. The line below
the rows says how fresh the tables are. `%topic docs query` is on other engines, `%topic docs live` on --live.

  %lake SELECT count(*) FROM clicks

  %%lake --at 2026-01-31T12:00:00Z
  busy << SELECT page, count(*) AS views FROM clicks WHERE country = $country GROUP BY page

  %%lake --live --every 2s
  SELECT country, count(*) FROM clicks GROUP BY country

  %lake --history clicks
"""


@dataclass(frozen=True)
class _Cell:
    """A query in a cell, the variables that it may name, and ``target``, the variable for the rows."""

    magics: LakeMagics
    sql: str
    target: str | None
    variables: Mapping[str, Any]


def _query(
    cell: _Cell,
    engine: Annotated[
        Literal["duckdb", "spark", "athena"],
        Option(
            "DuckDB is fast and changes no table; Spark does; Athena reads tables of Glue and S3 Tables",
            ("-e", "--engine"),
        ),
    ] = "duckdb",
    at: Annotated[
        str | None,
        Option("Read the tables as of a snapshot or time (DuckDB)", metavar="SNAPSHOT|TIME|$NAME"),
    ] = None,
    form: Annotated[
        Literal["df", "arrow", "polars"] | None, Option("Return the rows in this form", ("--as",))
    ] = None,
    limit: Annotated[int | None, Option("Fetch no more rows than this", metavar="N", least=1)] = None,
    live: Annotated[bool, Option("Also read the records that are not committed yet (DuckDB)")] = False,
    every: Annotated[
        float | None,
        Option(
            "Query again this often until the cell is interrupted, e.g. 2s",
            metavar="DURATION",
            is_duration=True,
        ),
    ] = None,
    history: Annotated[bool, Option("Show the last queries, or those with the word behind it")] = False,
) -> Any:
    if history:
        return queries_grid(cell.magics.queries().history(cell.sql, MOST_ROWS), cell.sql)
    magics, target = cell.magics, cell.target
    if every is not None and (target is not None or form is not None):
        raise UsageError("--every shows rows below the cell: omit --as and the variable in front of <<")
    check_pause(every)
    is_shown = target is None and form is None
    is_paged = is_shown and every is None and comms_of(magics.shell) is not None
    at, params = _as_of(at, cell.variables), _bound(cell.sql, cell.variables)
    frames = tables_in(cell.variables) if engine == "duckdb" else None
    bounds: dict[str, int | None] = {"limit": limit}
    if is_paged and engine == "duckdb":
        bounds["most_bytes"] = magics.result_mb * 2**20
    elif is_shown and limit is None:
        bounds["limit"] = _PAGED_ROWS if is_paged else min(magics.display_rows, MOST_ROWS)

    def ask() -> LakeResult:
        answer = magics.session.workbench.query(
            cell.sql, engine, at=at, params=params, live=live, frames=frames, **bounds
        )
        if not is_paged:
            return LakeResult(answer, magics.display_rows)
        read = tuple(name for name in frames or () if re.search(rf"\b{name}\b", cell.sql))
        query = Query(cell.sql, engine, at, tuple(params or ()), live, read)
        return PagedResult(answer, magics.display_rows, magics.results, query)

    result = ask()
    if every is not None:
        return _refresh(result, ask, every)
    if target is None and form is None:
        return result
    rows = result.to(form or "df")
    if target is None:
        Place(Grid((), [], "", result.freshness()))
        return rows
    magics.namespace[target] = rows
    return Grid((), [], "", [f"{target}: {result.count()}", *result.freshness()])


def _refresh(shown: LakeResult, ask: Callable[[], LakeResult], every_s: float) -> None:
    """Show a result in one place, and newer ones instead of it, until the cell is interrupted."""
    place = Place(shown)
    with suppress(KeyboardInterrupt):
        while True:
            time.sleep(every_s)
            try:
                place.update(ask())
            except RetryableError as error:
                place.update(Grid((), [], "", [f"{error}; retrying …"]))


def make_parser() -> Parser:
    """The parser for the options of ``%lake``."""
    parser = Parser(
        "%%lake",
        # argparse fills in the usage, and the description only if it names the program.
        "%%%%lake [options] [result <<] SQL",
        _MANUAL,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser, _query)
    return parser


_PARSER = make_parser()


@magics_class
class LakeMagics(Magics, Configurable):
    """``%config LakeMagics.display_rows = 100`` shows more rows, where there is no grid."""

    display_rows = Int(20, min=1, help="Rows of a result to display, at most 1,000.").tag(config=True)
    result_mb = Int(512, min=1, help="MiB of rows that the kernel keeps for its grids.").tag(config=True)

    def __init__(self, shell: InteractiveShell, session: Session) -> None:
        Configurable.__init__(self, config=shell.config)
        Magics.__init__(self, shell=shell)
        configurables: list[Any] = shell.configurables  # for %config
        configurables.append(self)
        self.namespace = shell.user_ns
        self.session = session
        self.results = Results(lambda: int(self.result_mb) * 2**20)

    @no_var_expand
    @needs_local_scope
    @line_cell_magic
    @report_errors
    def lake(self, line: str, cell: str | None = None, local_ns: dict[str, Any] | None = None) -> Any:
        """Query the tables in SQL."""
        text = line if cell is None else f"{line}\n{cell}"
        parts = parts_of(text)
        parsed = parse(_PARSER, parts.options)
        if parsed is None:
            return None
        if not parts.sql and not parsed.history:
            raise UsageError("no SQL: write %lake SELECT …, or the query below %%lake")
        variables = {**self.namespace, **(local_ns or {})}
        failed = True
        try:
            result = _query(_Cell(self, parts.sql, parts.target, variables), **values_of(_query, parsed))
        except UsageError as error:
            before = text[: parts.begin] if "\n" in text[: parts.begin] else None
            raise UsageError(with_place(str(error), parts.sql, before)) from error
        else:
            failed = False
            return result
        finally:
            if not parsed.history:
                source = (
                    f"%lake {line}" if cell is None else f"%%lake {text}".replace(" \n", "\n", 1).rstrip()
                )
                with suppress(TableTopicError):  # without settings no query ran
                    self.queries().ran(source, failed=failed)

    def queries(self) -> Queries:
        """The queries of the state folder in the settings."""
        return Queries(self.session.workbench.settings.state_dir)


def _bound(sql: str, variables: Mapping[str, Any]) -> dict[str, Any] | None:
    from tabletopic_kernel.query.parameters import bound  # noqa: PLC0415 - query loads Arrow

    return bound(sql, variables) or None


def _as_of(at: str | None, variables: Mapping[str, Any]) -> Any:
    """A snapshot id or a time as written, or the value of ``$name``."""
    if at is None or not at.startswith("$"):
        return at
    value = (_bound(at, variables) or {}).get(at[1:], at)
    if value is None:  # it would mean the newest snapshot
        raise UsageError(f"--at {at}: its value is None; assign a snapshot id or a time, or omit --at")
    return value


LakeMagics.lake.__doc__ = _PARSER.format_help()
