"""An OAuth 2 token server: client credentials for signed tokens that live as long as a test wants."""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET, AUDIENCE = "tabletopic", "oidc-secret", "kafka"


class TokenServer:
    """Listens on a free port from ``with`` on; counts the tokens it gave.

    ``/token`` gives tokens, ``/jwks`` the key that brokers check them with.
    """

    def __init__(self, lifetime_s: int = 300) -> None:
        self.lifetime_s = lifetime_s
        self.given = 0
        self._key = RSAKey.generate_key(2048, {"kid": "1", "use": "sig", "alg": "RS256"})
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(200, {"keys": [server._key.as_dict(private=False)]})

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                if server._knows(self.headers.get("Authorization", ""), form):
                    self._answer(200, server._token())
                else:
                    self._answer(401, {"error": "invalid_client", "error_description": "who are you?"})

            def _answer(self, status: int, body: dict[str, Any]) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, name="token server")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """Where the server is; ``/token`` and ``/jwks`` are below."""
        return f"http://127.0.0.1:{self._http.server_port}"

    def _knows(self, authorization: str, form: dict[str, list[str]]) -> bool:
        in_form = (form.get("client_id", [""])[0], form.get("client_secret", [""])[0])
        # A client that asks for its next token may show the one that is over.
        login = authorization.removeprefix("Basic ") if authorization.startswith("Basic ") else ""
        in_header = base64.b64decode(login).decode().partition(":")[::2]
        return (CLIENT, SECRET) in (in_form, in_header)

    def _token(self) -> dict[str, Any]:
        self.given += 1
        now = int(time.time())
        claims = {
            "sub": CLIENT,
            "iss": "tests",
            "aud": AUDIENCE,
            "iat": now,
            "exp": now + self.lifetime_s,
            "scope": "kafka",
            "jti": str(self.given),
        }
        token = jwt.encode({"alg": "RS256", "kid": "1"}, claims, self._key)
        return {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime_s}
