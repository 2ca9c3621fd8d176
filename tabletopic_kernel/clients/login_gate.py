"""Prevents repeated logins after a refusal: many servers lock the account after a few."""

from __future__ import annotations

import time

from tabletopic_kernel.model.errors import LoginRefusedError

REFUSED_S = 60.0


class LoginGate:
    """Open at first; any thread may use it."""

    def __init__(self) -> None:
        # Text and system, not the error: it would keep the client, by its traceback.
        self._reason: tuple[str, str] | None = None
        self._open_at = 0.0

    @property
    def is_open(self) -> bool:
        """Whether a login may be tried: none was refused in the last minute."""
        return self._reason is None or time.monotonic() >= self._open_at

    def check(self) -> None:
        """Raise the LoginRefusedError that shut the gate, while it is shut."""
        if (reason := self._reason) is not None and not self.is_open:
            text, system = reason
            raise LoginRefusedError(text, system=system)

    def note(self, error: Exception) -> None:
        """Shut for a minute if ``error`` is a refused login."""
        if isinstance(error, LoginRefusedError):
            self._open_at = time.monotonic() + REFUSED_S
            self._reason = str(error), error.trouble.system
