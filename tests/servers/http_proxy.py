"""An HTTP server in front of another: counts requests, rejects some, changes responses.

It adds what the tests' servers lack: AWS signatures, tokens and keys that expire, Glue's lock.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from email.message import Message
from typing import Any
from urllib.parse import urlsplit

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.servers.aws import KEY, REGION, SECRET, Aws
from tests.servers.http_server import Handler, HttpServer

_OF_A_CONNECTION = ("connection", "transfer-encoding", "content-length", "keep-alive")


@dataclass(frozen=True)
class Request:
    """A client's request; ``path`` includes its query."""

    method: str
    path: str
    headers: Message
    body: bytes

    @property
    def key(self) -> str:
        """The access key that signed it; empty without."""
        return self.headers.get("Authorization", "").partition("Credential=")[2].partition("/")[0]


@dataclass
class Answer:
    """The response; ``cut``: the connection ends in the middle of its body."""

    status: int
    body: bytes
    headers: list[tuple[str, str]] = field(default_factory=list)
    cut: bool = False

    @classmethod
    def json(cls, status: int, body: dict[str, Any]) -> Answer:
        """As JSON."""
        return cls(status, json.dumps(body).encode(), [("Content-Type", "application/json")])


class HttpProxy(HttpServer):
    """Listens on a free port from ``with`` on; ``requests`` has method and path of each request.

    Args:
        target: URL of the server.
        judge: returns the response to a request that is not passed on.
        change: replaces the server's response.
    """

    def __init__(
        self,
        target: str,
        judge: Callable[[Request], Answer | None] = lambda _: None,
        change: Callable[[Request, Answer], Answer] = lambda _, answer: answer,
    ) -> None:
        self.requests: list[tuple[str, str]] = []
        self._target = urlsplit(target).netloc
        self._judge, self._change = judge, change
        proxy = self

        class PassOn(Handler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def _do(self) -> None:
                body = self._body()
                request = Request(self.command, self.path, self.headers, body)
                proxy.requests.append((request.method, request.path))
                answer = proxy._judge(request) or proxy._change(request, proxy.pass_on(request))
                self.send_response(answer.status)
                for name, text in answer.headers:
                    if name.lower() not in ("server", "date"):
                        self.send_header(name, text)
                if self.command != "HEAD":
                    self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer.body[: len(answer.body) // 2] if answer.cut else answer.body)
                self.close_connection = self.close_connection or answer.cut

            def _body(self) -> bytes:
                if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length") or 0))
                parts = []
                while size := int(self.rfile.readline().partition(b";")[0], 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                while self.rfile.readline().strip():
                    pass  # trailers
                return b"".join(parts)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _do  # noqa: N815 - http.server's names

        super().__init__(PassOn, keeps_connections=True)

    def pass_on(self, request: Request) -> Answer:
        """The server's response."""
        connection = http.client.HTTPConnection(self._target, timeout=60)
        try:
            headers = {
                name: text
                for name, text in request.headers.items()
                if name.lower() not in (*_OF_A_CONNECTION, "expect", "accept-encoding")
            }
            connection.request(request.method, request.path, request.body or None, headers)
            answer = connection.getresponse()
            body = answer.read()
            kept = [
                (name, text)
                for name, text in answer.getheaders()
                if name.lower() not in _OF_A_CONNECTION or request.method == "HEAD"
            ]
            return Answer(answer.status, body, kept)
        finally:
            connection.close()


def signed_for(service: str) -> Callable[[Request], Answer | None]:
    """A judge that rejects requests not signed for an AWS service with the tests' key."""

    def judge(request: Request) -> Answer | None:
        authorization = request.headers.get("Authorization", "")
        _, _, names = authorization.partition("SignedHeaders=")
        host = request.headers["Host"]
        again = AWSRequest(
            request.method,
            f"http://{host}{request.path}",
            headers={name: request.headers[name] for name in names.partition(",")[0].split(";") if name},
            data=request.body,
        )
        again.context["timestamp"] = request.headers.get("X-Amz-Date", "")
        signer = SigV4Auth(Credentials(KEY, SECRET), service, REGION)
        signature = signer.signature(signer.string_to_sign(again, signer.canonical_request(again)), again)
        if authorization.endswith(f"Signature={signature}") and f"/{REGION}/{service}/" in authorization:
            return None
        message = "The request signature we calculated does not match the signature you provided."
        return Answer.json(403, {"error": {"message": message, "type": "ForbiddenException", "code": 403}})

    return judge


class GlueLock:
    """A judge with Glue's lock, which moto lacks: an update names the version it is based on."""

    def __init__(self, aws: Aws) -> None:
        self._aws = aws
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Answer | None:
        """Reject an update of an older version."""
        if request.headers.get("X-Amz-Target") != "AWSGlue.UpdateTable":
            return None
        asked = json.loads(request.body)
        # Between this look and the update another may come; tests do one thing after the other.
        with self._lock:
            table = self._aws.client("glue").get_table(
                DatabaseName=asked["DatabaseName"], Name=asked["TableInput"]["Name"]
            )["Table"]
        if asked.get("VersionId") in (None, table["VersionId"]):
            return None
        fault = {"__type": "ConcurrentModificationException", "Message": "Version mismatch"}
        answer = Answer.json(400, fault)
        answer.headers.append(("x-amzn-errortype", "ConcurrentModificationException"))
        return answer


class Tokens:
    """A judge that requires a bearer token; tokens already used may be rejected from then on."""

    def __init__(self) -> None:
        self._shown: set[str] = set()
        self._over: set[str] = set()

    def expire(self) -> None:
        """Reject every token used so far."""
        self._over |= self._shown

    def __call__(self, request: Request) -> Answer | None:
        """Reject requests without a token, or with an expired one."""
        token = request.headers.get("Authorization", "").partition("Bearer ")[2]
        if token and token not in self._over:
            self._shown.add(token)
            return None
        told = {"message": "Not authorized: who are you?", "type": "NotAuthorizedException", "code": 401}
        return Answer.json(401, {"error": told})


class LentKeys:
    """S3 keys that a REST catalog vends with each table; the older ones may be rejected.

    ``lend`` changes a catalog's responses, ``judge`` is for the storage.
    """

    def __init__(self, endpoint: Callable[[], str]) -> None:
        self.number = 1
        self._endpoint = endpoint

    def expire(self) -> None:
        """Reject keys vended so far; the next load of a table returns other keys."""
        self.number += 1

    def lend(self, _: Request, answer: Answer) -> Answer:
        """Add keys to a table's description."""
        try:
            told = json.loads(answer.body)
        except ValueError:
            return answer
        if not isinstance(told, dict) or "metadata" not in told:
            return answer
        told["config"] = (told.get("config") or {}) | {
            "s3.access-key-id": f"lent-{self.number}",
            "s3.secret-access-key": "lent-secret",
            "s3.session-token": "lent-token",
            "s3.endpoint": self._endpoint(),
        }
        return Answer(answer.status, json.dumps(told).encode(), answer.headers)

    def judge(self, request: Request) -> Answer | None:
        """Reject keys other than those vended last."""
        if request.key == f"lent-{self.number}":
            return None
        code = "ExpiredToken" if request.key.startswith("lent-") else "AccessDenied"
        text = f"<Error><Code>{code}</Code><Message>The provided token has expired.</Message></Error>"
        return Answer(400 if code == "ExpiredToken" else 403, text.encode(), [("Content-Type", "text/xml")])
