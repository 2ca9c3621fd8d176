"""Whether this process has to end, as something in it cannot be ended. Costs no import of DuckDB to ask."""

from __future__ import annotations

import threading

_STUCK = threading.Event()


def note_stuck() -> None:
    """Say that a thread of this process goes on and cannot be ended."""
    _STUCK.set()


def has_to_end() -> bool:
    """Whether it was said."""
    return _STUCK.is_set()
