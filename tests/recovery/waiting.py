"""Waiting for what must happen, with limits that also hold on a busy machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
LIMIT_S = 240.0
_EVERY_S = 0.2


def wait_until(what: str, happened: Callable[[], T], limit_s: float = LIMIT_S) -> T:
    """Return the first true result; fails with ``what`` and the last result if there is none in time."""
    deadline = time.monotonic() + limit_s
    while not (answer := happened()):
        assert time.monotonic() < deadline, f"not within {limit_s:.0f} s: {what} ({answer!r})"
        time.sleep(_EVERY_S)
    return answer
