"""A place below the cell that is shown at once and updated there."""

from __future__ import annotations

from typing import Any

from IPython.display import DisplayHandle, display


class Place:
    """Shows an object; ``update`` puts another one in its place."""

    def __init__(self, shown: object) -> None:
        handle: Any = display(shown, display_id=True)  # type: ignore[no-untyped-call]
        self._handle: DisplayHandle | None = handle

    def update(self, shown: object) -> None:
        """Show this instead; from any thread."""
        if self._handle is not None:  # there is none outside a shell
            self._handle.update(shown)  # type: ignore[no-untyped-call]
