"""What ``%%lake`` shows: rows, and how fresh the tables are that they came from."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from tabletopic_kernel.faces.render.grid import MOST_ROWS, Grid, cut
from tabletopic_kernel.faces.render.values import is_number, rows_of, text, unique_names
from tabletopic_kernel.faces.render.words import age, clock
from tabletopic_kernel.model.errors import ActionNeededError

if TYPE_CHECKING:
    from tabletopic_kernel.query.engine import Answer

Form = Literal["df", "arrow", "polars"]


class LakeResult:
    """Rows of a query; ``df()``, ``arrow()`` and ``polars()`` give them in other forms."""

    def __init__(self, answer: Answer, shown_rows: int) -> None:
        self._answer = answer
        self._shown_rows = min(shown_rows, MOST_ROWS)

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self._answer.rows

    def df(self) -> Any:
        """The rows as a pandas DataFrame."""
        return self._answer.rows.to_pandas()

    def polars(self) -> Any:
        """The rows as a Polars DataFrame; raises ActionNeededError where Polars is not installed."""
        try:
            polars = importlib.import_module("polars")  # people bring it themselves
        except ImportError:
            raise ActionNeededError("polars is not installed: pip install polars") from None
        return polars.from_arrow(self._answer.rows)

    def to(self, form: Form) -> Any:
        """The rows in the form of that name."""
        return {"df": self.df, "arrow": self.arrow, "polars": self.polars}[form]()

    def __len__(self) -> int:
        return int(self._answer.rows.num_rows)

    def __repr__(self) -> str:
        return repr(self._grid().with_texts(cut))

    def _repr_html_(self) -> str:
        return self._grid().html()

    def freshness(self) -> list[str]:
        """For each table that was read, its snapshot and how old that is."""
        return [
            f"{read.table}: no snapshot yet"
            if (at_ms := read.snapshot_ms) is None
            else f"{read.table}: snapshot {read.snapshot_id} of {clock(at_ms)}, {age(at_ms)}"
            for read in self._answer.tables
        ]

    def _grid(self) -> Grid:
        rows = self._answer.rows
        names = unique_names(rows.column_names)
        numbers = frozenset(
            name for name, field in zip(names, rows.schema, strict=True) if is_number(field.type)
        )
        shown = [tuple(map(text, row)) for row in rows_of(rows.slice(0, self._shown_rows))]
        return Grid(names, shown, "", [self._shown_count(), *self.freshness()], numbers)

    def count(self) -> str:
        """How many rows there are, in words."""
        return f"{len(self):,} row{'' if len(self) == 1 else 's'}"

    def _shown_count(self) -> str:
        rows = len(self)
        if rows > self._shown_rows or self._answer.truncated:
            # Of a query that was not read to its end one more is known to be there.
            all_of = f"at least {rows + 1:,}" if self._answer.truncated else f"{rows:,}"
            shown = min(rows, self._shown_rows)
            return f"the first {shown:,} of {all_of} rows; name << SELECT … keeps them all"
        return self.count()
