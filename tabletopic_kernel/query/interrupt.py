"""Waiting for work in another thread so that Ctrl-C ends the wait."""

from __future__ import annotations

from concurrent.futures import Future, wait
from typing import TypeVar

T = TypeVar("T")
_LOOK_EVERY_S = 0.1


def result_of(outcome: Future[T]) -> T:
    """The outcome's result, or its error.

    ``Future.result`` alone is deaf to Ctrl-C once ``polars`` is imported: it lets system calls go on after a
    signal (``SA_RESTART``), and so Python never gets to its handler.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    while not wait([outcome], timeout=_LOOK_EVERY_S).done:
        pass
    return outcome.result()
