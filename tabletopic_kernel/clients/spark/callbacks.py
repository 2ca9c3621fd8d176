"""Py4J's callback server, through which Spark's JVM hands each batch to Python: guarded, and kept going.

pyspark starts it without a token, so that every user of the machine could call its objects.

Py4J accepts connections in one thread, which any error ends: a moment without a free file descriptor is
enough. Its port stays open, so that the JVM connects and waits for good: no query fails, and no batch is ever
read again. Here the server accepts again after a while, and the JVM's waiting connection is the first.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from typing import Any, Final

from py4j.java_gateway import JavaObject, server_stopped
from pyspark.java_gateway import ensure_callback_server_started

_LOG = logging.getLogger(__name__)
_PAUSE_S: Final = 2.0


def accept_calls(gateway: Any) -> None:
    """Start the callback server of a JVM's ``gateway``, unless it has one: only that JVM may call."""
    server_stopped.connect(_went_down, unique_id="tabletopic")
    if gateway.__dict__.get("_callback_server") is not None:  # other names are the JVM's
        return
    gateway.callback_server_parameters.auth_token = token = secrets.token_urlsafe()
    start: Any = ensure_callback_server_started  # pyspark has no types here
    start(gateway)
    # The JVM's client takes a token only when it is created, and pyspark creates it without one.
    field = gateway.jvm.java.lang.Class.forName("py4j.CallbackClient").getDeclaredField("authToken")
    field.setAccessible(True)
    field.set(JavaObject("GATEWAY_SERVER", gateway._gateway_client).getCallbackClient(), token)


def _went_down(*, server: Any, **_: object) -> None:
    """Called in the server's thread as that ends."""
    if not server.is_shutdown:
        _LOG.warning("Spark's calls to Python were not accepted; trying again in %g s", _PAUSE_S)
        thread = threading.Thread(target=_accept_again, args=(server,), name="spark callbacks", daemon=True)
        server.thread = thread  # so that shutdown joins it
        thread.start()


def _accept_again(server: Any) -> None:
    time.sleep(_PAUSE_S)
    if server.server_socket is not None:  # else shut down meanwhile
        server.run()
