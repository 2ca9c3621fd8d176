"""The dashboard's server: pages on a private unix socket, or on a local port."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tornado.httputil import HTTPHeaders, HTTPServerRequest, url_concat
from tornado.routing import Matcher, Rule
from tornado.web import OutputTransform, RequestHandler
from tornado.websocket import WebSocketClosedError

from tabletopic_kernel.local.watcher import when_ended
from tabletopic_kernel.model.errors import UsageError

if TYPE_CHECKING:
    from tabletopic_kernel.faces.live_dashboard.live import LoadSettings

# A browser tab whose connection breaks briefly finds its page again.
_KEEP_UNUSED_MS = 60_000


@dataclass(frozen=True)
class Place:
    """Where to listen: a unix socket, or a port on 127.0.0.1 (0: a free one), below ``prefix``."""

    unix_socket: str | None = None
    port: int = 0
    prefix: str = ""


def serve(
    place: Place,
    *,
    ready: Callable[[str], None],
    parent_pid: int | None = None,
    load: LoadSettings | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT, or any end of the process ``parent_pid``.

    ``ready`` gets the URL with its token, or the socket's path; ``load`` reads the settings. Raises
    UsageError if the port or the socket is unavailable.
    """
    os.environ.setdefault("BOKEH_RESOURCES", "server")  # nothing is loaded from the internet
    import panel as pn  # noqa: PLC0415 - two seconds
    from tornado.ioloop import IOLoop  # noqa: PLC0415 - the same

    # Load the pages too: the first one should be as fast as the others.
    from tabletopic_kernel._dashboards import overview, topic  # noqa: PLC0415, F401 - the same
    from tabletopic_kernel.faces.live_dashboard import session  # noqa: PLC0415 - the same

    pn.config.disconnect_notification = (
        "The dashboard server has stopped. Reload this page once it runs again."
    )
    server = _listening(place, session.open_page)
    loop = IOLoop.current()
    loop.asyncio_loop.set_exception_handler(_ignore_closed_pages)  # type: ignore[attr-defined]
    logging.getLogger("bokeh.server.views.ws").setLevel(logging.ERROR)  # the same news

    def stop() -> None:
        loop.add_callback_from_signal(loop.stop)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop())
    session.live(load)
    if parent_pid is not None:
        when_ended(parent_pid, stop)
    server.start()
    address = place.unix_socket or _link(server)
    loop.call_later(0, ready, address)
    try:
        loop.start()
    finally:
        server.stop()
        if place.unix_socket:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(place.unix_socket)


def _listening(place: Place, open_page: Callable[[], Any]) -> Any:
    """A server of the pages at ``place``; raises UsageError if that is in use."""
    from panel.io.server import get_server  # noqa: PLC0415 - two seconds

    # The proxy, which owns the socket, has checked login and origin. On a port, the origin must be checked.
    options: dict[str, Any] = (
        {"unix_socket": place.unix_socket, "allow_websocket_origin": ["*"]}
        if place.unix_socket
        else {"port": place.port, "address": "127.0.0.1"}
    )
    try:
        server = get_server(
            {"/": open_page}, prefix=place.prefix, unused_session_lifetime=_KEEP_UNUSED_MS, **options
        )
    except OSError as error:
        address, remedy = f"127.0.0.1:{place.port}", "choose another with --port, or 0 for a free one"
        if place.unix_socket:
            address, remedy = place.unix_socket, "choose another with --unix-socket"
        raise UsageError(f"cannot listen at {address}: {error.strerror or error}; {remedy}") from error
    if not place.unix_socket:  # otherwise the proxy says who may frame the pages
        server._tornado.add_transform(_SecurityHeaders)
    return server


def _link(server: Any) -> str:
    """The link that opens the pages of a server on a port: every user of the machine may connect to it."""
    token = secrets.token_urlsafe()
    options = {"cookie": f"tabletopic-dashboard-{server.port}", "token": token, "path": f"{server.prefix}/"}
    server._tornado.default_router.rules.insert(0, Rule(_WithoutCookie(options), _TokenExchange, options))
    return f"http://127.0.0.1:{server.port}{server.prefix}/?token={token}"


_OWN_NAMES = ("127.0.0.1", "localhost", "::1")  # a page of another name is another site's (DNS rebinding)


class _WithoutCookie(Matcher):
    """Matches requests without the cookie, or with a token, which should not stay in the address."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        """An empty dictionary if it matches, as Tornado requires."""
        cookie = request.cookies.get(self._options["cookie"])
        is_known = cookie is not None and _is_same(cookie.value, self._options["token"])
        is_admitted = is_known and request.host_name in _OWN_NAMES and "token" not in request.query_arguments
        return None if is_admitted else {}


class _TokenExchange(RequestHandler):
    """Exchanges the token for the cookie, and shows nothing else."""

    def initialize(self, **options: str) -> None:
        """Tornado's constructor."""
        self._options = options

    def prepare(self) -> None:
        """Answer requests of every method."""
        cookie, token, path = (self._options[key] for key in ("cookie", "token", "path"))
        is_known = _is_same(self.get_query_argument("token", ""), token)
        if not is_known or self.request.host_name not in _OWN_NAMES:
            self.set_status(403)
            self.finish("Open the link that the command printed: it contains a token.\n")
            return
        self.set_cookie(cookie, token, path=path, httponly=True, samesite="Lax")
        names = [name for name in self.request.query_arguments if name != "token"]
        others = [(name, text) for name in names for text in self.get_query_arguments(name)]
        self.redirect(url_concat(self.request.path, others))


def _is_same(left: str, right: str) -> bool:
    return secrets.compare_digest(left.encode(), right.encode())


class _SecurityHeaders(OutputTransform):
    """Other sites may not frame these pages, and browsers may not guess types."""

    def __init__(self, request: object) -> None:
        pass

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        """Add the headers."""
        headers["Content-Security-Policy"] = "frame-ancestors 'self'"
        headers["X-Content-Type-Options"] = "nosniff"
        return status_code, headers, chunk


def _ignore_closed_pages(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Closing a page while something is being sent to it is not an error."""
    if not isinstance(context.get("exception"), WebSocketClosedError):
        loop.default_exception_handler(context)
