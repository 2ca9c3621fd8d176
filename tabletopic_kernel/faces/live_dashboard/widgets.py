"""The interactive parts: the table of all topics, and the button that replays dead letters.

The table sends only the cells that changed.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from html import escape
from pathlib import Path
from typing import Any, ClassVar

import panel as pn
import param
from panel.custom import JSComponent

from tabletopic_kernel.faces.live_dashboard.html import Part
from tabletopic_kernel.faces.live_dashboard.theme import Palette

Replay = Callable[[str], str]  # topic → the outcome as text; may take minutes
_POOL = ThreadPoolExecutor(max_workers=4, thread_name_prefix="replay")


class ReplayBox:
    """Visible while dead letters are stored; the page stays responsive during a replay."""

    def __init__(self, topic: str, colours: Palette, replay: Replay | None, css: str) -> None:
        self._topic = topic
        self._replay = replay
        self._running: Future[str] | None = None
        self.button = pn.widgets.Button(label="Replay", visible=False, margin=(8, 0), stylesheets=[css])
        self.button.on_click(self._clicked)
        self._message = Part(colours)
        self.panel = pn.Column(self.button, self._message.pane, margin=0, sizing_mode="stretch_width")

    def show(self, waiting: int) -> None:
        """Show that ``waiting`` dead letters are in the table."""
        running = self._running is not None and not self._running.done()
        self.button.visible = self._replay is not None and (waiting > 0 or running)
        self.button.disabled = running
        if self._running is not None:
            message = "The topic's host replays them …" if running else self._running.result()
            self._message.show(f'<p role="status">{escape(message)}</p>')

    def _clicked(self, _: Any) -> None:
        if self._replay is not None and (self._running is None or self._running.done()):
            self._running = _POOL.submit(self._replay, self._topic)
            self.button.disabled = True


Row = dict[str, Any]


class TopicTable(JSComponent):
    """Rows by topic; ``bring`` updates the browser.

    ``columns`` are dictionaries of ``name``, ``title`` and ``kind`` (see ``topic_table.js``). ``marks`` gives
    the class of a state, ``address`` that of a topic's page, with TOPIC in it.
    """

    columns = param.List(default=[])
    marks = param.Dict(default={})
    address = param.String(default="?topic=TOPIC")
    all = param.Dict(
        default={"rows": [], "turn": 0}, doc="all rows; another turn is sent even if they are the same"
    )
    changes = param.Dict(default={}, doc="topic → new values by column")

    _esm: ClassVar[Path] = Path(__file__).with_name("topic_table.js")

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
        """Send all rows; the browser requests it for a new table, and after a change of an unknown topic."""
        self.all = {"rows": list(self._shown.values()), "turn": self.all["turn"] + 1}


def cells_that_changed(old: dict[str, Row], new: dict[str, Row]) -> dict[str, Row]:
    """New values by topic and column, where they differ.

    >>> cells_that_changed({"a": {"lag": 1, "rows": 5}}, {"a": {"lag": 2, "rows": 5}})
    {'a': {'lag': 2}}
    """
    changes = {
        topic: {name: value for name, value in row.items() if old[topic][name] != value}
        for topic, row in new.items()
    }
    return {topic: values for topic, values in changes.items() if values}
