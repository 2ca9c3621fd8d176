"""Py4J's callback server, without a JVM."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from py4j.java_gateway import (
    CallbackServer,
    CallbackServerParameters,
    PythonProxyPool,
    server_started,
    server_stopped,
)

from tabletopic_kernel.clients.spark import callbacks
from tabletopic_kernel.clients.spark.callbacks import keep_accepting


class Server(CallbackServer):  # type: ignore[misc]  # Py4J has no types
    """Fails some times, then notes each connection."""

    def __init__(self, failures: int) -> None:
        parameters = CallbackServerParameters(port=0, daemonize=True, daemonize_connections=True)
        super().__init__(PythonProxyPool(), None, callback_server_parameters=parameters)
        self.failures = failures
        self.accepted = threading.Event()

    def _create_connection(self, socket_instance: Any, stream: Any) -> Any:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        self.accepted.set()
        return super()._create_connection(socket_instance, stream)


@pytest.fixture
def listening(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server that goes on at once."""
    monkeypatch.setattr(callbacks, "_PAUSE_S", 0.0)
    for _ in range(2):
        keep_accepting()
    made = Server(failures=3)
    listens = threading.Event()
    server_started.connect(heard := lambda **_: listens.set(), made)
    made.start()
    assert listens.wait(240)
    yield made
    server_started.disconnect(heard, made)
    if made.thread is not None:
        made.shutdown()
    server_stopped.disconnect(callbacks._went_down, unique_id="tabletopic")


def test_calls_are_accepted_again_after_a_failure(listening: Server) -> None:
    """However often, or Spark's JVM would wait for good; a server that is shut down stays down."""
    calls = [socket.create_connection(("127.0.0.1", listening.get_listening_port())) for _ in range(4)]
    assert listening.accepted.wait(240)
    assert listening.failures == 0
    for call in calls:
        call.close()
    listening.shutdown()
    callbacks._accept_again(listening)
    assert listening.is_shutdown
