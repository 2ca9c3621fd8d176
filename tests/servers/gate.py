"""A TCP port in front of a server, which may lose the response to a request, or be closed for a while."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self

_CHUNK = 65536
_LONGEST = 64  # bytes of a marker


class Gate:
    """Listens on ``port`` from ``with`` on, and passes everything to the server's port."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._marker = b""
        self._ended = False
        self.lost = 0  # answers
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept, name="gate")]

    def lose_answer_to(self, marker: bytes) -> None:
        """Close the connection of the next request that contains ``marker``, once the server responds."""
        self._marker = marker

    def close(self) -> None:
        """Refuse connections and close existing ones, as if the server had ended."""
        self._end_all()
        self._threads[0].join()
        # Bound and not listening: connections are refused, and nobody else gets the port.
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1", self.port))

    def open(self) -> None:
        """Accept connections again."""
        self._listener.listen()
        self._ended = False
        self._threads[0] = threading.Thread(target=self._accept, name="gate")
        self._threads[0].start()

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end_all()
        for thread in self._threads:
            thread.join()

    def _end_all(self) -> None:
        self._ended = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in list(self._open):
            _close(one)

    def _accept(self) -> None:
        while not self._ended:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._server_port))
            except OSError:
                client.close()
                continue
            self._open |= {client, server}
            watched = threading.Event()
            for thread in (
                threading.Thread(target=self._up, args=(client, server, watched), name="gate"),
                threading.Thread(target=self._down, args=(client, server, watched), name="gate"),
            ):
                self._threads.append(thread)
                thread.start()

    def _up(self, client: socket.socket, server: socket.socket, watched: threading.Event) -> None:
        before = b""
        with contextlib.suppress(OSError):
            while data := client.recv(_CHUNK):
                marker = self._marker
                # It may be cut in two, but ends in this data: one of before has been answered.
                if marker and marker in before[max(0, len(before) - len(marker) + 1) :] + data:
                    self._marker = b""
                    watched.set()
                before = (before + data)[-_LONGEST:]
                server.sendall(data)
        _close(server)

    def _down(self, client: socket.socket, server: socket.socket, watched: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(_CHUNK):
                if watched.is_set():
                    self.lost += 1
                    break
                client.sendall(data)
        for one in (client, server):
            _close(one)
            self._open.discard(one)


def _close(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
