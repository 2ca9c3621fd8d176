"""Keeps Py4J's callback server going, through which Spark's JVM hands each batch to Python.

Py4J accepts connections in one thread, which any error ends: a moment without a free file descriptor is
enough. Its port stays open, so that the JVM connects and waits for good: no query fails, and no batch is ever
read again. Here the server accepts again after a while, and the JVM's waiting connection is the first.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Final

from py4j.java_gateway import server_stopped

_LOG = logging.getLogger(__name__)
_PAUSE_S: Final = 2.0


def keep_accepting() -> None:
    """Make every callback server of this process go on after an error. Idempotent."""
    server_stopped.connect(_went_down, unique_id="tabletopic")


def _went_down(*, server: Any, **_: object) -> None:
    """Called in the server's thread as that ends."""
    if not server.is_shutdown:
        _LOG.warning("Spark's calls to Python were not accepted; trying again in %g s", _PAUSE_S)
        again = threading.Thread(target=_accept_again, args=(server,), name="spark callbacks", daemon=True)
        server.thread = again  # that whoever shuts it down waits for
        again.start()


def _accept_again(server: Any) -> None:
    time.sleep(_PAUSE_S)
    if server.server_socket is not None:  # else shut down meanwhile
        server.run()
