"""The operations of a grid, each with the fields of its message."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tabletopic_kernel.faces.notebook.results.chart import chart
from tabletopic_kernel.faces.notebook.results.copies import FORMS
from tabletopic_kernel.faces.notebook.results.desk import Desk
from tabletopic_kernel.faces.notebook.results.export import export
from tabletopic_kernel.faces.notebook.results.kept import Kept, Results
from tabletopic_kernel.faces.notebook.results.pages import PAGE_ROWS, cells, whole
from tabletopic_kernel.faces.notebook.results.profile import profile
from tabletopic_kernel.faces.notebook.results.selection import Selection
from tabletopic_kernel.model.errors import TableTopicError, UsageError
from tabletopic_kernel.model.redact import redact
from tabletopic_kernel.render.values import rows_of


class Operations:
    """Each takes a result, the selected rows, and the message."""

    def __init__(self, results: Results) -> None:
        self._results = results
        self._desk = Desk()

    def reply(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to one message, with its number; a grid shows ``error``."""
        try:
            kept = self._results.get(data["result"])
            reply = _BY_NAME[data["operation"]](self, kept, Selection.of(data), data)
        except TableTopicError as error:  # without the SQL that DuckDB points to: it is ours
            reply = {"error": redact(str(error).partition("\n\nLINE ")[0])}
        except Exception as error:  # a grid would wait for ever
            reply = {"error": redact(f"{type(error).__name__}: {error}")}
        return {"number": data["number"], **reply}

    def _page(self, kept: Kept, selection: Selection, data: Mapping[str, Any]) -> dict[str, Any]:
        numbers = selection.numbers(kept, self._desk)
        at = max(0, min(int(data["at"]), len(numbers) - 1))
        shown = numbers[at : at + PAGE_ROWS]
        return {"at": at, "total": len(numbers), "rows": cells(kept.at(shown))}

    def _cell(self, kept: Kept, selection: Selection, data: Mapping[str, Any]) -> dict[str, Any]:
        ((value,),) = self._values(kept, selection, data, [data["column"]])
        return whole(value)

    def _copy(self, kept: Kept, selection: Selection, data: Mapping[str, Any]) -> dict[str, Any]:
        names = [kept.rows.column_names[index] for index in data["columns"]]
        return {"text": FORMS[data["form"]](names, self._values(kept, selection, data, data["columns"]))}

    def _values(
        self, kept: Kept, selection: Selection, data: Mapping[str, Any], columns: list[int]
    ) -> list[Any]:
        at, count = int(data["at"]), min(int(data.get("count", 1)), PAGE_ROWS)
        numbers = selection.numbers(kept, self._desk)[at : at + count]
        if not len(numbers):
            raise UsageError(f"there is no row {at + 1:,}")
        return list(rows_of(kept.at(numbers).select(columns)))

    def _profile(self, kept: Kept, selection: Selection, data: Mapping[str, Any]) -> dict[str, Any]:
        return profile(kept, int(data["column"]), selection, self._desk)

    def _export(self, kept: Kept, selection: Selection, data: Mapping[str, Any]) -> dict[str, Any]:
        path = export(kept, selection, data["form"], self._desk, Path.cwd())
        return {"path": str(path), "count": len(selection.numbers(kept, self._desk))}

    def _chart(self, kept: Kept, selection: Selection, data: Mapping[str, Any]) -> dict[str, Any]:
        return chart(kept, selection, data, self._desk)


_BY_NAME = {
    "page": Operations._page,
    "cell": Operations._cell,
    "copy": Operations._copy,
    "profile": Operations._profile,
    "export": Operations._export,
    "chart": Operations._chart,
}
