"""A REST catalog that gives up on a server which takes requests and never answers.

PyIceberg's session waits without an end: one lost connection would hold its topic for ever, while the host's
heartbeat goes on and nobody takes over.
"""

from __future__ import annotations

from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from requests import PreparedRequest, Response, Session
from requests.adapters import BaseAdapter

CONNECT_S, READ_S = 10.0, 60.0


class _WithTimeout(BaseAdapter):
    """Another adapter, with a timeout where the request has none."""

    def __init__(self, inner: BaseAdapter) -> None:
        super().__init__()
        self._inner = inner

    def send(  # type: ignore[override]
        self, request: PreparedRequest, timeout: Any = None, **more: Any
    ) -> Response:
        """Send it; raises requests' Timeout, an OSError, when no answer comes."""
        return self._inner.send(request, timeout=timeout or (CONNECT_S, READ_S), **more)

    def close(self) -> None:
        """Close its connections."""
        self._inner.close()


class PatientRestCatalog(RestCatalog):
    """PyIceberg's, with timeouts: 10 s for a connection, 60 s between two bytes of an answer."""

    def _create_session(self) -> Session:
        session = super()._create_session()  # with the adapter that signs requests, where that is wanted
        for prefix, adapter in list(session.adapters.items()):
            session.mount(prefix, _WithTimeout(adapter))
        return session
