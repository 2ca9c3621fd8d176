"""A chart of two columns of a result in Vega-Lite, which JupyterLab draws, and the code that makes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tabletopic_kernel.faces.notebook.results.desk import Desk
from tabletopic_kernel.faces.notebook.results.kept import Kept, Query
from tabletopic_kernel.faces.notebook.results.selection import (
    Selection,
    columns,
    is_moment,
    is_nested,
    is_numeric,
)
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.query.statements.sql import quote
from tabletopic_kernel.render.values import unique_names

if TYPE_CHECKING:
    import duckdb

MIME = "application/vnd.vegalite.v5+json"
_MOST_GROUPS, _BARS, _BINS = 200, 30, 30
_WIDTHS_S = (1, 5, 15, 60, 300, 900, 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400)


def chart(kept: Kept, selection: Selection, data: Mapping[str, Any], desk: Desk) -> dict[str, Any]:
    """The chart with its points, the columns ``x`` and ``y`` (None: a count), and its code."""
    with desk.table(kept) as (connection, kinds):
        x, y = _axes(kinds, data.get("x"), data.get("y"))
        inner = columns(kinds)
        group = _group(connection, kinds[x], inner[x], selection.where(inner, kinds))
        names = unique_names(kept.rows.column_names)
        spec = _spec(kinds[x], names[x], None if y is None else names[y])

        def sql(source: str, named: Sequence[str]) -> str:
            aggregate = spec["encoding"]["y"]["title"].partition("(")[0]
            value = "count(*)" if y is None else f"{aggregate}({named[y]})"
            keyword = "AND" if selection.filters else "WHERE"
            where = f"{selection.where(named, kinds)} {keyword} {named[x]} IS NOT NULL".strip()
            is_ranked = spec["mark"] == "bar" and not is_numeric(kinds[x])
            order = f"y DESC NULLS LAST LIMIT {_BARS}" if is_ranked else "x"
            return (
                f"SELECT {group.format(named[x])} AS x, CAST({value} AS DOUBLE) AS y\n"
                f"FROM {source}\n{where}\nGROUP BY 1 ORDER BY {order}"
            )

        points = connection.execute(sql("t", inner)).to_arrow_table().to_pylist()
    code = None
    if kept.query is not None and kept.query.engine == "duckdb":
        code = _code(kept.query, sql(f"({kept.query.sql.strip().rstrip(';')}\n)", [*map(quote, names)]), spec)
    return {"spec": spec | {"data": {"values": points}}, "x": x, "y": y, "code": code}


def _axes(kinds: Sequence[str], x: int | None, y: int | None) -> tuple[int, int | None]:
    """The columns asked for; else the first time, or text, or number, and the first number beside it."""
    usable = [index for index, kind in enumerate(kinds) if not is_nested(kind) and kind != "BLOB"]
    if not usable:
        raise UsageError("no column of this result can be drawn: all are nested or bytes")
    if x is None:
        x = min(usable, key=lambda index: (is_numeric(kinds[index]), not is_moment(kinds[index]), index))
        y = next((index for index in usable if index != x and is_numeric(kinds[index])), None)
    elif x not in usable or (y is not None and not is_numeric(kinds[y])):
        raise UsageError("x takes times, numbers or texts, and y numbers")
    return x, y


def _group(connection: duckdb.DuckDBPyConnection, kind: str, x: str, where: str) -> str:
    """The expression for ``x``, with {} for the column: texts as they are, others grouped if many."""
    if not is_moment(kind) and not is_numeric(kind):
        return "CAST({} AS VARCHAR)"
    number = f"epoch(CAST({x} AS TIMESTAMP))" if is_moment(kind) else f"CAST({x} AS DOUBLE)"
    values = f"(SELECT {number} AS v FROM t{where})"
    sql = f"SELECT approx_count_distinct(v), min(v), max(v) FROM {values} WHERE isfinite(v)"
    distinct, least, greatest = connection.execute(sql).fetchall()[0]
    if is_moment(kind):
        group = "CAST({} AS TIMESTAMP)"
        if distinct > _MOST_GROUPS:
            width = (greatest - least) / _MOST_GROUPS
            seconds = next((width_s for width_s in _WIDTHS_S if width_s >= width), _WIDTHS_S[-1])
            group = f"time_bucket(to_seconds({seconds}), {group})"
        return f"strftime({group}, '%Y-%m-%dT%H:%M:%S.%gZ')"
    if distinct <= _BINS:
        return "CAST({} AS DOUBLE)"
    width = (greatest - least) / _BINS
    return (
        f"{least!r} + {width!r} * least({_BINS - 1}, floor((CAST({{}} AS DOUBLE) - {least!r}) / {width!r}))"
    )


def _spec(kind: str, x: str, y: str | None) -> dict[str, Any]:
    moment, number = is_moment(kind), is_numeric(kind)
    title = "count" if y is None else f"{'avg' if moment or number else 'sum'}({y})"
    along: dict[str, Any] = {"field": "x", "title": x, "type": "nominal", "sort": None}
    if moment or number:
        along = {"field": "x", "title": x, "type": "temporal" if moment else "quantitative"}
    if moment:
        along["scale"] = {"type": "utc"}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "mark": "line" if moment or (number and y is not None) else "bar",
        "width": 600,
        "height": 240,
        "encoding": {"x": along, "y": {"field": "y", "title": title, "type": "quantitative"}},
    }


def _code(query: Query, sql: str, spec: Mapping[str, Any]) -> str | None:
    """A cell that queries the points again and draws them."""
    if query.at is not None and not isinstance(query.at, str | int):
        return None
    quoted = sql.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    variables = {"params": query.names, "frames": query.frames}
    arguments = [f", at={query.at!r}"] if query.at is not None else []
    for argument, names in variables.items():
        pairs = ", ".join(f'"{name}": {name}' for name in names)
        arguments += [f", {argument}={{{pairs}}}"] if names else []
    arguments += [", live=True"] if query.live else []
    return (
        f'points = workbench.query("""\n{quoted}\n"""{"".join(arguments)}).rows.to_pylist()\n'
        f"chart = {spec!r}\n"
        f'display({{"{MIME}": {{**chart, "data": {{"values": points}}}}}}, raw=True)'
    )
