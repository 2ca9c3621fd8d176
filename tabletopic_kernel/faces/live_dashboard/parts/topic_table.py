"""The sortable table of all topics: sends the cells that changed, never the table again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import param
from panel.custom import JSComponent

Row = dict[str, Any]


class TopicTable(JSComponent):
    """Rows by topic; ``bring`` brings the browser in step.

    ``columns`` are dictionaries of ``name``, ``title`` and ``kind``: ``link``, ``state``, ``count``,
    ``seconds``, ``moment`` (ms since 1970, shown as an age), ``text``, or ``trouble`` (a sentence, shown
    below the row over its whole width). ``marks`` gives the class of a state, ``address`` that of a topic's
    page, with TOPIC in it.
    """

    columns = param.List(default=[])
    marks = param.Dict(default={})
    address = param.String(default="?topic=TOPIC")
    all = param.Dict(
        default={"rows": [], "turn": 0}, doc="all rows; another turn is sent even if they are the same"
    )
    changes = param.Dict(default={}, doc="topic → new values by column")

    _esm: ClassVar[Path] = Path(__file__).with_suffix(".js")

    def __init__(self, **params: Any) -> None:
        super().__init__(**params)  # type: ignore[no-untyped-call]
        self._shown: dict[str, Row] = {}
        self.on_msg(self._send_all)

    def bring(self, rows: dict[str, Row]) -> None:
        """Show these rows, by topic."""
        before, self._shown = self._shown, rows
        if list(rows) != list(before):
            self._send_all()
        elif changed := cells_that_changed(before, rows):
            self.changes = changed

    def _send_all(self, _: object = None) -> None:
        """Also when the browser asks: it shows the table now, or hears of a topic that it does not know."""
        self.all = {"rows": list(self._shown.values()), "turn": self.all["turn"] + 1}


def cells_that_changed(old: dict[str, Row], new: dict[str, Row]) -> dict[str, Row]:
    """New values by topic and column, where they differ.

    >>> cells_that_changed({"a": {"lag": 1, "rows": 5}}, {"a": {"lag": 2, "rows": 5}})
    {'a': {'lag': 2}}
    """
    found = {
        topic: {name: value for name, value in row.items() if old[topic][name] != value}
        for topic, row in new.items()
    }
    return {topic: values for topic, values in found.items() if values}
