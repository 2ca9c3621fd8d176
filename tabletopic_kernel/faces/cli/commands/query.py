"""``query`` and ``mcp``: the tables for people in SQL, and for assistants."""

from __future__ import annotations

import csv
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import Call
from tabletopic_kernel.faces.cli.command import Json
from tabletopic_kernel.faces.operations.operation import Option, check_pause
from tabletopic_kernel.model.errors import RetryableError, SettingsError, UsageError
from tabletopic_kernel.render.words import freshness, size

if TYPE_CHECKING:
    from tabletopic_kernel.query.answer import Answer

Engine = Literal["duckdb", "spark", "athena"]
_SHOWN_ROWS = 50
_FOLDABLE_COLUMNS = 3  # so few are readable even when folded


def query(
    call: Call,
    sql: Annotated[str, Option("The query; - reads it from standard input", metavar="SQL", positional=True)],
    engine: Annotated[
        Engine,
        Option("DuckDB is fast and changes no table; Spark does; Athena reads tables of Glue and S3 Tables"),
    ] = "duckdb",
    at: Annotated[
        str | None, Option("Read the tables as of a snapshot or time (DuckDB)", metavar="SNAPSHOT|TIME")
    ] = None,
    limit: Annotated[
        int | None,
        Option(
            "Rows to return, 0 for all", metavar="N", least=0, default_text="50; all with --json or --csv"
        ),
    ] = None,
    live: Annotated[bool, Option("Also read the records that are not committed yet (DuckDB)")] = False,
    every: Annotated[
        float | None,
        Option("Query again this often until Ctrl-C, e.g. 2s", metavar="DURATION", is_duration=True),
    ] = None,
    as_json: Json = False,
    as_csv: Annotated[
        bool,
        Option(
            "CSV on standard output; no value is changed, even if a spreadsheet takes it for a formula",
            ("--csv",),
        ),
    ] = False,
) -> None:
    """Query the tables in SQL.

    Name a table as table, namespace.table or catalog.namespace.table. Each
    query reads the newest snapshots; with --live, or of a table named
    'table$live', also the records behind them. DuckDB changes no table, but
    COPY TO writes files and read_csv reads them; change tables with --engine
    spark. With --live, --json is an object: the rows, and the tables with the
    offsets that were read.

    Example:  tabletopic query "SELECT url, count(*) FROM clicks GROUP BY url"
    """
    if as_json and as_csv:
        raise UsageError("--json and --csv cannot be combined")
    check_pause(every)
    try:
        text = sys.stdin.read() if sql == "-" else sql
        text.encode()  # bytes that are not UTF-8 come as surrogates
    except UnicodeError:
        raise UsageError("the query is not UTF-8 text; save it as UTF-8") from None
    if limit is None and not (as_json or as_csv):
        limit = _SHOWN_ROWS
    if engine == "spark" and not live:
        screen.note("starting Spark, some 10 s …")
    while True:
        began = time.monotonic()
        try:
            answer = call.workbench.query(text, engine, at=at, limit=limit or None, live=live)
            _show(answer, live, as_json, as_csv)
        except RetryableError as error:
            if every is None:
                raise
            screen.note(f"{error}; retrying …")
        if every is None:
            return
        sys.stdout.flush()
        time.sleep(max(0.0, every - (time.monotonic() - began)))


def _show(answer: Answer, live: bool, as_json: bool, as_csv: bool) -> None:
    if as_json and live:
        _show_live_json(answer)
    elif as_json:
        _show_json(answer)
    elif as_csv:
        _show_csv(answer)
    else:
        _show_table(answer)
    _show_freshness(answer)


def _show_table(answer: Answer) -> None:
    from tabletopic_kernel.render import values  # noqa: PLC0415

    rows = answer.rows
    if rows.num_columns == 0 or (
        rows.num_columns == 1 and rows.num_rows == 0 and rows.column_names[0] in ("Count", "Success")
    ):
        screen.note("done")
        return
    table = screen.grid()
    for field in rows.schema:
        table.add_column(
            Text(field.name), justify="right" if values.is_number(field.type) else "left", overflow="fold"
        )
    cells = [[_cell(value) for value in row] for row in values.rows_of(rows)]
    for row in cells:
        table.add_row(*row)
    out = screen.console()
    if cells and screen.natural_width(out, table) > out.width and rows.num_columns > _FOLDABLE_COLUMNS:
        _show_records(out, rows.column_names, cells)
    else:
        out.print(table)
    count = f"{rows.num_rows:,} row{'' if rows.num_rows == 1 else 's'}"
    if answer.truncated:
        screen.note(f"the first {count}; there are more (--limit 0 shows all)")
    else:
        screen.note(count)


def _cell(value: object) -> Text:
    from tabletopic_kernel.render import values  # noqa: PLC0415

    return Text(values.text(value), style="dim" if value is None else "")


def _show_records(out: Console, names: Sequence[str], rows: Sequence[Sequence[Text]]) -> None:
    """Print rows too wide for a table, one value per line."""
    for number, row in enumerate(rows, 1):
        out.print(Rule(f"row {number}", align="left", style="dim", characters="─"))
        record = screen.facts({})
        for name, value in zip(names, row, strict=True):
            record.add_row(Text(name), value)
        out.print(record)


def _show_json(answer: Answer) -> None:
    from tabletopic_kernel.render import values  # noqa: PLC0415

    names = values.unique_names(answer.rows.column_names)
    for piece in values.json_lines(names, values.rows_of(answer.rows)):
        screen.write(piece)


def _show_live_json(answer: Answer) -> None:
    tables = json.dumps([asdict(read) for read in answer.tables])
    screen.write(f'{{"tables": {tables}, "rows": ')
    _show_json(answer)
    screen.write("}\n")


def _show_csv(answer: Answer) -> None:
    from tabletopic_kernel.render import values  # noqa: PLC0415

    writer = csv.writer(_Screen(), lineterminator="\n")
    writer.writerow(answer.rows.column_names)
    writer.writerows([values.csv_text(value) for value in row] for row in values.rows_of(answer.rows))


class _Screen:
    """Standard output, for the CSV writer."""

    def write(self, text: str) -> None:
        """Write a line."""
        screen.write(text)


def _show_freshness(answer: Answer) -> None:
    for read in answer.tables:
        screen.note(freshness(read))
    if answer.scanned_bytes is not None:
        screen.note(f"scanned {size(answer.scanned_bytes)}")


def mcp(call: Call) -> None:
    """Let an assistant read topics and tables, by the Model Context Protocol.

    An assistant starts it itself, and talks to it on standard input and output.
    Its tools list topics, show status, plan, schema and records, and query
    tables. They change nothing and read no file. Each call ends within 60 s.
    Needs the extra mcp: pip install 'tabletopic[mcp]'.

    Example:  tabletopic mcp --config /srv/tabletopic.toml
    """
    try:
        from tabletopic_kernel.faces.mcp.server import serve  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "anyio"):
            raise
        raise SettingsError(
            "tools for assistants need the package mcp: pip install 'tabletopic[mcp]'"
        ) from None
    serve(call.loaded.settings)
