"""The REST interface: a handler for each path of the operations, with a method for each of its verbs.

Arguments are parsed and validated by their operations' declarations before anything is done. Then the backend
works in a thread, and the response is written: a second in the event loop is a second in which nothing else
in JupyterLab responds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from http.client import responses
from typing import Any, Literal, TypeVar
from urllib.parse import urlencode

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.extension.handler import ExtensionHandlerMixin
from jupyter_server.utils import url_path_join
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from tornado.web import HTTPError, authenticated

from tabletopic_kernel.faces.jupyter_server.backend import Backend
from tabletopic_kernel.faces.operations import OPERATIONS, Operation
from tabletopic_kernel.faces.operations.next_steps import Face, values_for_face
from tabletopic_kernel.faces.operations.operation import REST, Argument, Kind
from tabletopic_kernel.model.errors import (
    ActionNeededError,
    OutcomeUnknownError,
    RetryableError,
    TableTopicError,
    UnknownTopicError,
    UsageError,
)
from tabletopic_kernel.model.redact import redact

T = TypeVar("T")
BACKEND = "tabletopic_backend"
# The first match counts: the status depends on who has to act.
_STATUS: tuple[tuple[type[TableTopicError], int], ...] = (
    (UnknownTopicError, 404),
    (UsageError, 400),
    (RetryableError, 503),
    (OutcomeUnknownError, 503),
    (ActionNeededError, 409),
    (TableTopicError, 500),
)


class Handler(ExtensionHandlerMixin, APIHandler):
    """The base of all handlers. Errors are ``{"message": what is wrong and what to do next}``."""

    auth_resource = "tabletopic"

    @property
    def _track_activity(self) -> bool:  # type: ignore[override]
        """Polling is not activity; otherwise an open page would keep an idle server from being culled."""
        return self.request.method not in ("GET", "HEAD")

    @property
    def backend(self) -> Backend:
        """The server's backend."""
        found: Backend = self.settings[BACKEND]
        return found

    async def call(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run work that may block in a thread."""
        return await self.backend.call(work, *arguments)

    def answer(self, body: Any, status: int = 200) -> None:
        """Write JSON, with next steps in the sidebar's words."""
        self.set_status(status)
        self.finish(json.dumps(values_for_face(body, Face.SIDEBAR)))

    def nothing(self) -> None:
        """Respond without a body."""
        self.set_status(204)
        self.finish()

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Do not log user errors and unavailable servers."""
        if not isinstance(value, TableTopicError) or status_of(value) == 500:
            super().log_exception(typ, value, tb)

    def send_error(self, status_code: int = 500, **kwargs: Any) -> None:
        """Send the status that fits the error."""
        error = (kwargs.get("exc_info") or (None, None))[1]
        super().send_error(status_of(error) if isinstance(error, TableTopicError) else status_code, **kwargs)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Write the message, for people."""
        error = (kwargs.get("exc_info") or (None, None))[1]
        if isinstance(error, TableTopicError):
            message = str(error)
        elif isinstance(error, HTTPError):
            message = redact(error.log_message or "") or responses.get(status_code, "")
        else:
            message = "unexpected error; the Jupyter server's log has the trace"
        self.finish(json.dumps(values_for_face({"message": message}, Face.SIDEBAR)))


def status_of(error: TableTopicError) -> int:
    """The HTTP status, according to who has to act."""
    return next(status for kind, status in _STATUS if isinstance(error, kind))


_TYPES: Mapping[Kind, type] = {
    Kind.TEXT: str,
    Kind.NUMBER: int,
    Kind.DECIMAL: float,
    Kind.FLAG: bool,
}


def path_names(path: str) -> list[str]:
    """Names of the arguments in a route's path."""
    return re.findall(r"{(\w+)}", path)


@cache
def model_of(operation: Operation) -> type[BaseModel]:
    """What a request contains besides its path: in the query if it reads, in the body if it changes."""
    assert operation.route is not None, operation.name
    in_path = path_names(operation.route.path)
    fields: dict[str, Any] = {
        one.name: _field(one) for one in operation.arguments_of(REST) if one.name not in in_path
    }
    if operation.settings:
        about = "Settings that differ from the topic's section in tabletopic.toml"
        fields["settings"] = (dict[str, Any], Field(default_factory=dict, description=about))
    config = ConfigDict(extra="forbid", frozen=True)
    return create_model(operation.name, __config__=config, **fields)


def _field(argument: Argument) -> tuple[Any, Any]:
    kind: Any = Literal[argument.choices] if argument.choices else _TYPES[argument.kind]
    if argument.default is None:
        kind = kind | None
    limits = {"ge": argument.least, "le": argument.most, "pattern": argument.pattern or None}
    given: dict[str, Any] = {name: limit for name, limit in limits.items() if limit is not None}
    return kind, Field(argument.default, description=argument.help or None, **given)


def read_arguments(
    operation: Operation, in_path: Mapping[str, str], query: Mapping[str, str], body: bytes
) -> dict[str, Any]:
    """The arguments of a request by name; no body counts as an empty object.

    Raises:
        UsageError: it is not JSON, or not what the operation accepts; the message names the key.
    """
    assert operation.route is not None, operation.name
    model = model_of(operation)
    if not model.model_fields:
        return dict(in_path)
    if operation.route.verb == "get":
        given: Any = {name: query[name] for name in model.model_fields if query.get(name)}
    else:
        try:
            given = json.loads(body or b"{}")
        except ValueError as error:
            raise UsageError(f"the request's body is not JSON: {error}") from None
    try:
        read = model.model_validate(given)
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, one['loc'])) or 'body'}: {one['msg']}" for one in error.errors()]
        raise UsageError("; ".join(wrong)) from None
    return {**in_path, **{name: getattr(read, name) for name in model.model_fields}}


_API = "tabletopic/api/"
# Implementations of operations that do not end with a thread's result.
Answer = Callable[[Handler, dict[str, Any]], Awaitable[None]]


async def _overview(handler: Handler, _: dict[str, Any]) -> None:
    """Respond from the cache; the first request waits for it."""
    handler.answer(handler.backend.known() or await handler.call(handler.backend.first_overview))


async def _quickstart(handler: Handler, _: dict[str, Any]) -> None:
    handler.answer({"path": await handler.backend.quickstart(handler.contents_manager)})


async def _dashboard(handler: Handler, values: dict[str, Any]) -> None:
    query = urlencode({name: value for name, value in values.items() if value})
    page = url_path_join(handler.base_url, "tabletopic/dashboard/")
    handler.redirect(page + (f"?{query}" if query else ""))


_OWN: dict[str, Answer] = {"overview": _overview, "quickstart": _quickstart, "dashboard": _dashboard}


def _answer_of(operation: Operation) -> Answer:
    """Run the operation, then respond with its result, with what has begun, or without a body."""
    route = operation.route
    assert route is not None, operation.name

    async def answer(handler: Handler, values: dict[str, Any]) -> None:
        result = await handler.call(handler.backend.perform, operation, values)
        if route.answer is not None:
            handler.answer({route.key: result} if route.key else result, route.status)
        elif route.message:
            handler.answer({"message": route.message.format_map(values)}, route.status)
        elif route.status == 204:
            handler.nothing()
        else:
            handler.answer({}, route.status)

    return answer


def _method(operation: Operation) -> Callable[..., Awaitable[None] | None]:
    assert operation.route is not None, operation.name
    names = path_names(operation.route.path)
    answer = _OWN.get(operation.name) or _answer_of(operation)

    async def method(self: Handler, *in_path: str) -> None:
        query = {name: self.get_query_argument(name) for name in self.request.query_arguments}
        placed = dict(zip(names, in_path, strict=True))
        await answer(self, read_arguments(operation, placed, query, self.request.body))

    method.__doc__ = f"{operation.summary}."
    return authenticated(authorized(method))


def _make_routes() -> list[tuple[str, type[Handler]]]:
    methods: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        if (route := operation.route) is not None:
            methods.setdefault(route.path, {})[route.verb] = _method(operation)
    return [
        (_API + re.sub(r"{\w+}", "([^/]+)", path), type("RouteHandler", (Handler,), verbs))
        for path, verbs in methods.items()
    ]


ROUTES = _make_routes()
