"""The button that tries a topic's dead letters again, and what became of it in words."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from html import escape
from typing import Any

import panel as pn

from tabletopic_kernel.faces.live_dashboard.parts.parts import Part
from tabletopic_kernel.faces.live_dashboard.parts.theme import Palette

Replay = Callable[[str], str]  # topic → what became of its letters; may take minutes
_POOL = ThreadPoolExecutor(max_workers=4, thread_name_prefix="replay")


class ReplayBox:
    """Shown while letters wait; the page stays alive while the topic's host works."""

    def __init__(self, topic: str, colours: Palette, replay: Replay | None, css: str) -> None:
        self._topic = topic
        self._replay = replay
        self._under_way: Future[str] | None = None
        self.button = pn.widgets.Button(
            label="Try them again", visible=False, margin=(8, 0), stylesheets=[css]
        )
        self.button.on_click(self._clicked)
        self._said = Part(colours)
        self.panel = pn.Column(self.button, self._said.pane, margin=0, sizing_mode="stretch_width")

    def show(self, waiting: int) -> None:
        """``waiting`` letters are in the dead-letter table."""
        running = self._under_way is not None and not self._under_way.done()
        self.button.visible = self._replay is not None and (waiting > 0 or running)
        self.button.disabled = running
        if self._under_way is not None:
            message = "The topic's host tries them again …" if running else self._under_way.result()
            self._said.show(f'<p role="status">{escape(message)}</p>')

    def _clicked(self, _: Any) -> None:
        if self._replay is not None and (self._under_way is None or self._under_way.done()):
            self._under_way = _POOL.submit(self._replay, self._topic)
            self.button.disabled = True
