"""A bar of records below the cell."""

from __future__ import annotations

import importlib.util
import time
from types import TracebackType
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from tabletopic_kernel.faces.notebook.display.slot import Place
from tabletopic_kernel.faces.render.grid import Grid


class Bar:
    """Progress towards ``total`` records, by tqdm: a widget, a line of a terminal, or text in one place.

    Without ipywidgets tqdm would write each step to the cell's error stream; then its text is shown in a
    place that is updated.
    """

    def __init__(self, name: str, total: int, shell: InteractiveShell | None) -> None:
        self._name = name
        self._total = total
        self._began = time.monotonic()
        self._bar: Any = None
        self._place: Place | None = None
        in_kernel = hasattr(shell, "kernel")
        if in_kernel and importlib.util.find_spec("ipywidgets") is None:
            self._place = Place(self._text(0))
        else:
            from tqdm.auto import tqdm  # noqa: PLC0415 - it looks for widgets: a part of a second

            self._bar = tqdm(total=total, desc=name, unit=" records", leave=False)

    def to(self, done: int) -> None:
        """Show that so many records are done."""
        if self._place is not None:
            self._place.update(self._text(done))
        else:
            self._bar.update(done - self._bar.n)

    def _text(self, done: int) -> Grid:
        from tqdm import tqdm  # noqa: PLC0415 - as above

        elapsed = time.monotonic() - self._began
        meter = tqdm.format_meter(done, self._total, elapsed, ncols=80, prefix=self._name, unit=" records")
        return Grid((), [], "", [meter])

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()
