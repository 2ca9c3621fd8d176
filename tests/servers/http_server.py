"""The common part of the tests' HTTP servers: a free port of the loopback, from ``with`` to its end."""

from __future__ import annotations

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class Handler(BaseHTTPRequestHandler):
    """Handles one request after the other, and logs none."""

    def give(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        """Send the whole response; to HEAD without the body."""
        body = b"" if self.command == "HEAD" else body
        self.send_response(status)
        for name, text in {**(headers or {}), "content-length": str(len(body))}.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)

    def body(self) -> bytes:
        """The request's body; a handler reads it once."""
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class HttpServer:
    """Listens from ``with`` on; at the end its threads have finished.

    ``keeps_connections``: clients keep theirs open, so nobody can wait for the threads.
    """

    def __init__(
        self,
        handler: type[Handler],
        tls: ssl.SSLContext | None = None,
        *,
        keeps_connections: bool = False,
    ) -> None:
        self._http = _Quiet(("127.0.0.1", 0), handler)
        self._http.daemon_threads = keeps_connections
        if tls is not None:
            # The handshake belongs to the request's thread: whoever fails it must not hold up the others.
            self._http.socket = tls.wrap_socket(
                self._http.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), name="http server")
        self.port: int = self._http.server_port
        self.address = f"127.0.0.1:{self.port}"
        self.url = f"{'https' if tls else 'http'}://{self.address}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class _Quiet(ThreadingHTTPServer):
    """Logs nothing about clients that disconnect, or fail the handshake."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing."""
