"""A REST catalog that gives up on a server which takes requests and never answers.

PyIceberg's session waits without an end: one lost connection would hold its topic for ever, while the host's
heartbeat goes on and nobody takes over. And new columns are told as older servers want it.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from requests import PreparedRequest, Response, Session
from requests.adapters import BaseAdapter

CONNECT_S, READ_S = 10.0, 60.0
_NEW_SCHEMA = b'"add-schema"'
_FIELD_IDS = re.compile(r'"(?:id|element-id|key-id|value-id)": ?(\d+)')


def with_last_column_id(body: bytes) -> bytes:
    """A commit whose new schemas come with the highest column id of the table that they make.

    The REST specification had it required once, and Nessie still does; PyIceberg leaves it out.
    """
    request = json.loads(body)
    known = [
        requirement["last-assigned-field-id"]
        for requirement in request.get("requirements", ())
        if requirement.get("type") == "assert-last-assigned-field-id"
    ]
    for update in request.get("updates", ()):
        if update.get("action") == "add-schema":
            used = map(int, _FIELD_IDS.findall(json.dumps(update["schema"])))
            update.setdefault("last-column-id", max((*known, *used), default=0))
    return json.dumps(request).encode()


class _WithTimeout(BaseAdapter):
    """Another adapter, with a timeout where the request has none."""

    def __init__(self, inner: BaseAdapter) -> None:
        super().__init__()
        self._inner = inner

    def send(  # type: ignore[override]
        self, request: PreparedRequest, timeout: Any = None, **more: Any
    ) -> Response:
        """Send it; raises requests' Timeout, an OSError, when no answer comes."""
        body = request.body.encode() if isinstance(request.body, str) else request.body
        if request.method == "POST" and isinstance(body, bytes) and _NEW_SCHEMA in body:
            request.prepare_body(with_last_column_id(body), None)
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
