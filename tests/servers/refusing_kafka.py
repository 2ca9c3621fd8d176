"""A Kafka broker that rejects everybody: it supports only the part of the protocol for a password login."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from typing import Self

_HANDSHAKE, _VERSIONS, _LOGIN = 17, 18, 36
_SPOKEN = ((_HANDSHAKE, 0, 1), (_VERSIONS, 0, 0), (_LOGIN, 0, 0), (3, 0, 5))
_UNSUPPORTED_VERSION, _LOGIN_FAILED = 35, 58
_DELAY_S = 0.1  # as Kafka's connection.failed.authentication.delay.ms
_WHY = b"Authentication failed: Invalid username or password"


class RefusingKafka:
    """Listens from ``with`` on. ``logins`` are the times (``time.monotonic``) of login attempts."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.logins: list[float] = []
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept, name="refusing kafka")]
        self.properties = {
            "bootstrap.servers": f"127.0.0.1:{self._listener.getsockname()[1]}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "ann",
            "sasl.password": "of-yesterday",
        }

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        for one in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._open.add(client)
            self._threads.append(threading.Thread(target=self._serve, args=(client,), name="refusing kafka"))
            self._threads[-1].start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError, struct.error), client.makefile("rb") as requests:
            while True:
                (size,) = struct.unpack(">i", requests.read(4))
                request = requests.read(size)
                kind, version, number = struct.unpack_from(">hhi", request)
                answer = struct.pack(">i", number) + self._answer(kind, version)
                client.sendall(struct.pack(">i", len(answer)) + answer)
                if kind == _LOGIN:
                    break
        self._open.discard(client)

    def _answer(self, kind: int, version: int) -> bytes:
        if kind == _VERSIONS:
            spoken = b"".join(struct.pack(">hhh", *one) for one in _SPOKEN)
            error = _UNSUPPORTED_VERSION if version else 0
            return struct.pack(">hi", error, len(_SPOKEN)) + spoken
        if kind == _HANDSHAKE:
            return struct.pack(">hih", 0, 1, 5) + b"PLAIN"
        self.logins.append(time.monotonic())
        time.sleep(_DELAY_S)
        return struct.pack(">hh", _LOGIN_FAILED, len(_WHY)) + _WHY + struct.pack(">i", 0)
