"""Periodic checks, in the background, whether servers answer."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from tabletopic_kernel.model.errors import TableTopicError, error_of

_LOG = logging.getLogger(__name__)
# A question that takes longer counts as unanswered; clients give up after 10 to 60 s.
_LIMIT_S = 15.0
_LEAVE_S = 1.0


class Question:
    """Asks one server the same thing every ``every_s`` seconds, in its own thread.

    ``server`` is its name for people; ``ask`` raises an error if the server does not answer.
    """

    def __init__(
        self,
        server: str,
        ask: Callable[[], object],
        every_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.server = server
        self._ask, self._every_s, self._clock = ask, every_s, clock
        self._error: str | None = None
        self._answered_s: float | None = None
        self._asked_s: float | None = None  # when the question under way was asked
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"question to the {server}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask no more; does not wait for a question under way."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_LEAVE_S)

    @property
    def age_s(self) -> float | None:
        """Seconds since the last answer; None before the first."""
        return None if self._answered_s is None else self._clock() - self._answered_s

    @property
    def trouble(self) -> str | None:
        """Why the server does not respond; None if it does."""
        asked_s = self._asked_s
        if asked_s is not None and self._clock() - asked_s > _LIMIT_S:
            return f"the {self.server} has not responded for {self._clock() - asked_s:.0f} s"
        if self._error is None and self._answered_s is None:
            return f"the {self.server} has not responded yet"
        return self._error

    def once(self) -> None:
        """Ask now, and keep the outcome."""
        self._asked_s = self._clock()
        try:
            self._ask()
        except Exception as error:  # a bug of ours must not look like a server that answers
            if not isinstance(error, TableTopicError):
                _LOG.exception("question to the %s", self.server)
            self._error = str(error_of(error))
        else:
            self._error, self._answered_s = None, self._clock()
        self._asked_s = None

    def _run(self) -> None:
        while not self._stop.is_set():
            self.once()
            self._stop.wait(self._every_s)
