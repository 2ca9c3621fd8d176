"""TLS and a login in front of an HTTP server: by password, by token, or by the client's certificate."""

from __future__ import annotations

import base64
import http.client
import ssl
from pathlib import Path

from tests.servers.certificates import Authority, Identity
from tests.servers.http_server import Handler, HttpServer

USER, PASSWORD, TOKEN = "ann", "p@ss:w/%rd", "a-token"


class LoginProxy(HttpServer):
    """Listens from ``with`` on; passes requests of known clients on to ``server`` (host:port)."""

    def __init__(self, server: str, folder: Path, *, asks_certificate: bool = False) -> None:
        self.authority = Authority(folder / "tls", "Registry CA")
        self.client: Identity = self.authority.identity("client")
        own = self.authority.identity("proxy")
        basic = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        allowed = {f"Basic {basic}", f"Bearer {TOKEN}"}

        class PassOn(Handler):
            def _pass_on(self) -> None:
                body = self.body()
                if not asks_certificate and self.headers.get("authorization") not in allowed:
                    error = b'{"error_code": 40101, "message": "Unauthorized"}'
                    self.give(401, error, {"content-type": "application/json"})
                    return
                connection = http.client.HTTPConnection(server, timeout=30)
                kept = {k: v for k, v in self.headers.items() if k.lower() in ("accept", "content-type")}
                connection.request(self.command, self.path, body, kept)
                answer = connection.getresponse()
                kind = {"content-type": answer.headers.get("content-type", "")}
                self.give(answer.status, answer.read(), kind)
                connection.close()

            do_GET = do_POST = do_PUT = do_DELETE = _pass_on  # noqa: N815 - http.server's names

        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self.authority.path))
        context.load_cert_chain(own.certificate, own.key)
        context.verify_mode = ssl.CERT_REQUIRED if asks_certificate else ssl.CERT_NONE
        super().__init__(PassOn, context)
