"""A host's small HTTP server: ``/metrics``, ``/healthz``, ``/readyz``."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterable
from http import HTTPStatus
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, NamedTuple
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE

from tabletopic_kernel.model.errors import UsageError

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

_LOG = logging.getLogger(__name__)
_PLAIN = "text/plain; charset=utf-8"
# Half a request is dropped after this.
_REQUEST_S = 10.0


class Address(NamedTuple):
    """Where the server listens; port 0 takes a free one."""

    host: str
    port: int


class Pages(NamedTuple):
    """The content of the pages: metrics, and the reasons against liveness and readiness (None: none)."""

    metrics: Callable[[], bytes]
    health: Callable[[], str | None]
    readiness: Callable[[], str | None]


class _Handler(WSGIRequestHandler):
    timeout = _REQUEST_S

    def log_message(self, format: str, *args: Any) -> None:
        _LOG.debug(format, *args)


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that left, or took too long."""
        _LOG.debug("%s", client_address, exc_info=True)


class MetricsServer:
    """Answers from ``start`` to ``stop``, in its own thread plus one for each request."""

    def __init__(self, address: Address, pages: Pages) -> None:
        """Raises UsageError if it cannot listen there."""
        self._server = _listening(address, _application(pages))
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        name = f"[{host!s}]" if ":" in str(host) else str(host)
        return f"http://{name}:{port}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


def _listening(address: Address, application: Callable[..., Iterable[bytes]]) -> WSGIServer:
    try:
        family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
        kind = type("_Server", (_Server,), {"address_family": family})
        return make_server(*address, application, server_class=kind, handler_class=_Handler)
    except (OSError, UnicodeError) as error:  # UnicodeError: an impossible host name
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"no metrics at {address.host}:{address.port}: {reason}; choose another --metrics-port or "
            "--metrics-host"
        ) from error


def _application(pages: Pages) -> Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]:
    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        status, kind, body = _answer(pages, environ)
        headers = [("Content-Type", kind), ("Content-Length", str(len(body))), ("Cache-Control", "no-store")]
        start(f"{status.value} {status.phrase}", headers)
        return [body]

    return answer


def _answer(pages: Pages, environ: WSGIEnvironment) -> tuple[HTTPStatus, str, bytes]:
    path = environ.get("PATH_INFO", "")
    checks = {"/healthz": pages.health, "/readyz": pages.readiness}
    if path != "/metrics" and path not in checks:
        return HTTPStatus.NOT_FOUND, _PLAIN, b"there are /metrics, /healthz and /readyz\n"
    if environ["REQUEST_METHOD"] != "GET":
        return HTTPStatus.METHOD_NOT_ALLOWED, _PLAIN, b"only GET\n"
    if path == "/metrics":
        return HTTPStatus.OK, CONTENT_TYPE, pages.metrics()
    trouble = checks[path]()
    if trouble is None:
        return HTTPStatus.OK, _PLAIN, b"ok\n"
    return HTTPStatus.SERVICE_UNAVAILABLE, _PLAIN, f"{trouble}\n".encode()
