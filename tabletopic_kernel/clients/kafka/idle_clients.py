"""Closes idle clients whose login is refused.

A client of librdkafka reconnects once a second for as long as it exists, even unused. After a password
change, a notebook left open overnight would fail 86,400 logins; many servers lock the account after a few.
Requests notice a refusal themselves; this thread checks the clients that make none.
"""

from __future__ import annotations

import threading
import time
import weakref
from typing import Protocol

_LOOK_S = 2.0


class IdleClient(Protocol):
    """A client that may be idle."""

    def close_if_refused(self) -> None:
        """Close the connection if its login was refused since the last response; never raises."""


class IdleClients:
    """One thread for all clients of a process; it runs only while there are any."""

    def __init__(self, look_s: float = _LOOK_S) -> None:
        self._look_s = look_s
        self._clients: weakref.WeakSet[IdleClient] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, client: IdleClient) -> None:
        """Check ``client`` for as long as somebody else holds it."""
        with self._lock:
            self._clients.add(client)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="idle brokers", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            time.sleep(self._look_s)
            if not self._look():
                return

    def _look(self) -> bool:
        """Check all clients, with references that end with this call; returns whether any is left."""
        with self._lock:
            clients = list(self._clients)
            if not clients:
                self._thread = None
        for client in clients:
            client.close_if_refused()
        return bool(clients)


IDLE_CLIENTS = IdleClients()
