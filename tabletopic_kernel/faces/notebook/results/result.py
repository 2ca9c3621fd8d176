"""A query's result in a notebook: a grid in JupyterLab, elsewhere its first rows as HTML or text."""

from __future__ import annotations

import dataclasses
import importlib
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from tabletopic_kernel.faces.notebook.results.kept import Query, Results
from tabletopic_kernel.model.errors import ActionNeededError
from tabletopic_kernel.render.grid import MOST_ROWS, Grid, cut
from tabletopic_kernel.render.values import is_number, rows_of, text, unique_names
from tabletopic_kernel.render.words import freshness, size

if TYPE_CHECKING:
    from tabletopic_kernel.query.answer import Answer

MIME = "application/vnd.tabletopic.result+json"
Form = Literal["df", "arrow", "polars"]
_MORE = "There are more rows: raise --limit or %config LakeMagics.result_mb; name << SELECT … keeps them all."
_MOST_CHARACTERS = 250_000  # of the page that a notebook's file keeps
_MOST_BYTES = 8 * 2**20  # of the first rows, which a shell keeps with each output


class LakeResult:
    """Rows of a query; ``df()``, ``arrow()`` and ``polars()`` return them in other forms."""

    def __init__(self, answer: Answer, shown_rows: int) -> None:
        self._answer = answer
        self._shown_rows = min(shown_rows, MOST_ROWS)

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self._answer.rows

    def df(self) -> Any:
        """The rows as a pandas DataFrame."""
        return self.arrow().to_pandas()

    def polars(self) -> Any:
        """The rows as a Polars DataFrame; raises ActionNeededError if Polars is not installed."""
        try:
            polars = importlib.import_module("polars")  # users install it themselves
        except ImportError:
            raise ActionNeededError("polars is not installed: pip install polars") from None
        return polars.from_arrow(self.arrow())

    def to(self, form: Form) -> Any:
        """The rows in the form with that name."""
        return {"df": self.df, "arrow": self.arrow, "polars": self.polars}[form]()

    def __len__(self) -> int:
        return int(self._answer.rows.num_rows)

    def __repr__(self) -> str:
        return repr(self._grid().with_texts(cut))

    def _repr_html_(self) -> str:
        return self._grid().html()

    def freshness(self) -> list[str]:
        """Snapshot and age of each table that was read; scanned bytes, if they are billed."""
        scanned = self._answer.scanned_bytes
        read = [*map(freshness, self._answer.tables)]
        return read if scanned is None else [*read, f"scanned {size(scanned)}"]

    def _grid(self) -> Grid:
        rows = self._answer.rows
        names = unique_names(rows.column_names)
        numbers = frozenset(
            name for name, field in zip(names, rows.schema, strict=True) if is_number(field.type)
        )
        shown = [tuple(map(text, row)) for row in rows_of(rows.slice(0, self._shown_rows))]
        return Grid(names, shown, "", [self._shown_count(), *self.freshness()], numbers)

    def count(self) -> str:
        """The number of rows, in words."""
        return f"{len(self):,} row{'' if len(self) == 1 else 's'}"

    def _shown_count(self) -> str:
        rows = len(self)
        if rows > self._shown_rows or self._answer.truncated:
            # A truncated result has at least one more row.
            all_of = f"at least {rows + 1:,}" if self._answer.truncated else f"{rows:,}"
            shown = min(rows, self._shown_rows)
            return f"the first {shown:,} of {all_of} rows; name << SELECT … keeps them all"
        return self.count()


class PagedResult(LakeResult):
    """A result whose rows ``results`` keep for its grid. It has the first page: shells keep all outputs."""

    def __init__(self, answer: Answer, shown_rows: int, results: Results, query: Query) -> None:
        from tabletopic_kernel.faces.notebook.results.desk import kinds_of  # noqa: PLC0415 - DuckDB
        from tabletopic_kernel.faces.notebook.results.pages import PAGE_ROWS, cells  # noqa: PLC0415 - as above

        kept = results.keep(answer.rows, query)
        first = answer.rows.slice(0, max(PAGE_ROWS, min(shown_rows, MOST_ROWS)))
        self._page = _bounded(cells(first.slice(0, PAGE_ROWS)))
        while first.nbytes > _MOST_BYTES and first.num_rows > 1:
            first = first.slice(0, first.num_rows // 2)
        super().__init__(dataclasses.replace(answer, rows=_copy(first)), min(shown_rows, first.num_rows))
        self._results, self._kept = results, kept.key
        self._rows = int(answer.rows.num_rows)
        self._kinds = kinds_of(answer.rows.schema)

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table; ActionNeededError if the kernel let go of them."""
        whole = self._answer.rows.num_rows == self._rows
        return self._answer.rows if whole else self._results.get(self._kept).rows

    def __len__(self) -> int:
        return self._rows

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        schema = self._answer.rows.schema
        columns = [
            {"name": field.name, "type": kind, "number": is_number(field.type)}
            for field, kind in zip(schema, self._kinds, strict=True)
        ]
        more = [_MORE] if self._answer.truncated else []
        return {
            MIME: {
                "result": self._kept,
                "columns": columns,
                "rows": self._page,
                "total": self._rows,
                "truncated": self._answer.truncated,
                "notes": [*more, *self.freshness()],
            }
        }


def _copy(rows: pa.Table) -> pa.Table:
    """The rows in memory of their own: a slice holds on to all of them."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


def _bounded(page: list[list[Any]]) -> list[list[Any]]:
    """The rows that fit into a notebook's file; one in any case."""
    left = _MOST_CHARACTERS
    for index, row in enumerate(page):
        left -= sum(len(cell[0] if isinstance(cell, tuple) else cell or "") for cell in row)
        if left < 0:
            return page[: max(1, index)]
    return page
