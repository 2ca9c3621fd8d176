"""An OAuth 2 token server: client credentials for signed tokens with a lifetime set by the test."""

from __future__ import annotations

import base64
import json
import time
from typing import Any
from urllib.parse import parse_qs

from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.servers.http_server import Handler, HttpServer

CLIENT, SECRET, AUDIENCE = "tabletopic", "oidc-secret", "kafka"


class TokenServer(HttpServer):
    """Listens on a free port from ``with`` on; counts the tokens it issued.

    ``/token`` issues tokens, ``/jwks`` has the key with which brokers verify them.
    """

    def __init__(self, lifetime_s: int = 300) -> None:
        self.lifetime_s = lifetime_s
        self.given = 0
        self._key = RSAKey.generate_key(2048, {"kid": "1", "use": "sig", "alg": "RS256"})
        server = self

        class Give(Handler):
            def _get(self) -> None:
                self._answer(200, {"keys": [server._key.as_dict(private=False)]})

            def _post(self) -> None:
                form = parse_qs(self.body().decode())
                if server._knows(self.headers.get("Authorization", ""), form):
                    self._answer(200, server._token())
                else:
                    self._answer(401, {"error": "invalid_client", "error_description": "who are you?"})

            def _answer(self, status: int, body: dict[str, Any]) -> None:
                self.give(status, json.dumps(body).encode(), {"content-type": "application/json"})

            do_GET, do_POST = _get, _post  # noqa: N815 - http.server's names

        super().__init__(Give, keeps_connections=True)

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
