"""TLS and a login in front of an HTTP server: by password, by token, or by the client's certificate."""

from __future__ import annotations

import base64
import http.client
import http.server
import ssl
import threading
from pathlib import Path
from typing import Any, Self

from tests.servers.certificates import Authority, Identity

USER, PASSWORD, TOKEN = "ann", "p@ss:w/%rd", "a-token"


class LoginProxy:
    """Listens from ``with`` on; passes requests of those whom it knows on to ``server`` (host:port)."""

    def __init__(self, server: str, folder: Path, *, asks_certificate: bool = False) -> None:
        self.authority = Authority(folder / "tls", "Registry CA")
        self.client: Identity = self.authority.identity("client")
        own = self.authority.identity("proxy")
        basic = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        allowed = {f"Basic {basic}", f"Bearer {TOKEN}"}

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def _pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                if not asks_certificate and self.headers.get("authorization") not in allowed:
                    self._give(401, b'{"error_code": 40101, "message": "Unauthorized"}', "application/json")
                    return
                connection = http.client.HTTPConnection(server, timeout=30)
                kept = {k: v for k, v in self.headers.items() if k.lower() in ("accept", "content-type")}
                connection.request(self.command, self.path, body, kept)
                answer = connection.getresponse()
                self._give(answer.status, answer.read(), answer.headers.get("content-type", ""))
                connection.close()

            def _give(self, status: int, body: bytes, kind: str) -> None:
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = do_DELETE = _pass_on  # noqa: N815 - http.server's names

        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self.authority.path))
        context.load_cert_chain(own.certificate, own.key)
        context.verify_mode = ssl.CERT_REQUIRED if asks_certificate else ssl.CERT_NONE
        self._server = _Quiet(("127.0.0.1", 0), Handler)
        # The handshake belongs to the request's thread: whoever fails it must not hold up the others.
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self.url = f"https://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Quiet(http.server.ThreadingHTTPServer):
    """Says nothing of clients that fail the handshake, and waits for its threads as it closes."""

    daemon_threads = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing."""
