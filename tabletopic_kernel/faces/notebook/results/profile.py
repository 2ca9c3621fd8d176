"""What is in a column: nulls, distinct values, least, greatest, and how the values are distributed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tabletopic_kernel.faces.notebook.results.desk import Desk
from tabletopic_kernel.faces.notebook.results.kept import Kept
from tabletopic_kernel.faces.notebook.results.pages import cell, cells
from tabletopic_kernel.faces.notebook.results.selection import (
    Selection,
    columns,
    is_moment,
    is_nested,
    is_numeric,
)
from tabletopic_kernel.render.values import rows_of

if TYPE_CHECKING:
    import duckdb

_BINS = 16
_TOP = 5
_EXACT_ROWS = 100_000  # up to here distinct values are counted, above they are estimated


def profile(kept: Kept, index: int, selection: Selection, desk: Desk) -> dict[str, Any]:
    """The profile of the selected rows: ``bins`` are counts, ``top`` are pairs of value and count."""
    with desk.table(kept) as (connection, kinds):
        name, kind = f"c{index}", kinds[index]
        where = selection.where(columns(kinds), kinds)
        exact = kept.rows.num_rows <= _EXACT_ROWS
        distinct = f"count(DISTINCT {name})" if exact else f"approx_count_distinct({name})"
        ends = "NULL, NULL" if is_nested(kind) else f"min({name}), max({name})"
        sql = f"SELECT count(*), count({name}), {distinct}, {ends} FROM t{where}"
        rows, values, different, least, greatest = next(rows_of(connection.execute(sql).to_arrow_table()))
        shown: dict[str, Any] = {
            "nulls": rows - values,
            "distinct": min(different, values),
            "exact": exact,
            "min": cell(least),
            "max": cell(greatest),
        }
        if is_numeric(kind) or is_moment(kind):
            number = name if is_numeric(kind) else f"epoch({name})"
            return shown | {"bins": _bins(connection, f"CAST({number} AS DOUBLE)", where)}
        top = f"SELECT {name}, count(*) AS n FROM t{where} GROUP BY 1 ORDER BY n DESC, 1 LIMIT {_TOP}"
        return shown | {"top": [] if is_nested(kind) else cells(connection.execute(top).to_arrow_table())}


def _bins(connection: duckdb.DuckDBPyConnection, number: str, where: str) -> list[int]:
    """Counts in bins of equal width; what is not finite is in none."""
    sql = f"""
        WITH v AS (SELECT x FROM (SELECT {number} AS x FROM t{where}) WHERE isfinite(x)),
        e AS (SELECT min(x) AS a, max(x) AS b FROM v)
        SELECT least({_BINS - 1}, coalesce(floor((x / 2 - a / 2) / nullif(b / 2 - a / 2, 0) * {_BINS}), 0))
            ::INTEGER, count(*)
        FROM v, e GROUP BY 1
    """
    counts = dict(connection.execute(sql).fetchall())
    return [counts.get(index, 0) for index in range(_BINS)] if counts else []
