"""A REST catalog that gives up on a server that accepts requests and never answers.

PyIceberg's session waits forever: one lost connection would block its topic for good, while the host's
heartbeats continue and nobody takes over. It also sends new columns in the form that older servers require.
Responses that are not a catalog's are recognized by ``outside_errors/rules``.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.rest import RestCatalog, TableResponse
from pyiceberg.catalog.rest.auth import AUTH_MANAGER
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.table import StagedTable, Table
from pyiceberg.typedef import EMPTY_DICT, Properties
from requests import PreparedRequest, Response, Session
from requests.adapters import BaseAdapter

from tabletopic_kernel.clients.catalog.guard import STORAGE_PREFIXES, own_choices, with_lent
from tabletopic_kernel.clients.catalog.pyiceberg_seams.catalogs import own_class
from tabletopic_kernel.clients.catalog.pyiceberg_seams.rest_answers import CommitAnswer, LoadAnswer
from tabletopic_kernel.model.settings.cluster import is_loopback

CONNECT_S, READ_S = 10.0, 60.0
_NEW_SCHEMA = b'"add-schema"'
_FIELD_IDS = re.compile(r'"(?:id|element-id|key-id|value-id)": ?(\d+)')


def with_last_column_id(body: bytes) -> bytes:
    """Add the highest column id to a commit's new schemas: Nessie requires it, PyIceberg leaves it out."""
    request = json.loads(body)
    last_ids = [
        requirement["last-assigned-field-id"]
        for requirement in request.get("requirements", ())
        if requirement.get("type") == "assert-last-assigned-field-id"
    ]
    for update in request.get("updates", ()):
        if update.get("action") == "add-schema":
            ids = map(int, _FIELD_IDS.findall(json.dumps(update["schema"])))
            update.setdefault("last-column-id", max((*last_ids, *ids), default=0))
    return json.dumps(request).encode()


class _WithTimeout(BaseAdapter):
    """Wraps an adapter: adds a timeout to requests without one, and asks this machine without a proxy."""

    def __init__(self, inner: BaseAdapter) -> None:
        super().__init__()
        self._inner = inner

    def send(  # type: ignore[override]
        self, request: PreparedRequest, timeout: Any = None, **options: Any
    ) -> Response:
        """Send a request; raises requests' Timeout, an OSError, if no response arrives."""
        body = request.body.encode() if isinstance(request.body, str) else request.body
        if request.method == "POST" and isinstance(body, bytes) and _NEW_SCHEMA in body:
            request.prepare_body(with_last_column_id(body), None)
        if is_loopback(request.url or ""):
            options["proxies"] = {}
        return self._inner.send(request, timeout=timeout or (CONNECT_S, READ_S), **options)

    def close(self) -> None:
        self._inner.close()


if TYPE_CHECKING:
    _OwnRestCatalog = RestCatalog
else:
    _OwnRestCatalog = own_class(RestCatalog, TableResponse=LoadAnswer, CommitTableResponse=CommitAnswer)


class PatientRestCatalog(_OwnRestCatalog):
    """PyIceberg's, with timeouts: 10 s for a connection, 60 s between two bytes of a response.

    PyIceberg would have to have settings for the timeouts, and tell a server's choices from the user's.
    """

    def _create_session(self) -> Session:
        session = super()._create_session()  # with the adapter that signs requests, if configured
        for prefix, adapter in list(session.adapters.items()):
            session.mount(prefix, _WithTimeout(adapter))
        return session

    def _fetch_config(self) -> None:
        own = dict(self.properties)
        super()._fetch_config()
        served = own_choices(own, self.properties)
        # As if lent with each table: else this person's keys would go where the catalog's store is.
        self._stores = {
            name: value
            for name, value in served.items()
            if name.startswith(STORAGE_PREFIXES) and own.get(name) != value
        }
        self._warehouse = {"warehouse": own.get("warehouse", "")}  # where keys of Azure may go
        others = {name: value for name, value in served.items() if name not in self._stores}
        self.properties = others | {name: own[name] for name in self._stores if name in own}

    def _load_file_io(self, properties: Properties = EMPTY_DICT, location: str | None = None) -> FileIO:
        files = with_lent(self.properties, self._stores | properties) | self._warehouse
        return load_file_io(
            files | ({AUTH_MANAGER: self._auth_manager} if self._auth_manager else {}), location
        )

    def _response_to_table(self, identifier_tuple: tuple[str, ...], table_response: TableResponse) -> Table:
        table = super()._response_to_table(identifier_tuple, _bare(table_response))
        table.metadata = table_response.metadata
        return table

    def _response_to_staged_table(
        self, identifier_tuple: tuple[str, ...], table_response: TableResponse
    ) -> StagedTable:
        table = super()._response_to_staged_table(identifier_tuple, _bare(table_response))
        table.metadata = table_response.metadata
        return table


def _bare(answer: TableResponse) -> TableResponse:
    """Without the table's properties: to open its files, PyIceberg mixes them with what the catalog lends."""
    bare = answer.metadata.model_copy(update={"properties": {}})
    return answer.model_copy(update={"metadata": bare})
