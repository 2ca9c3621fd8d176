"""The REST interface: a handler for each path, with a method for each of its verbs.

The signatures of functions validate the arguments. The backend works in threads: a second in the event loop
is a second in which nothing else in JupyterLab responds.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from http.client import responses
from typing import Annotated, Any, TypeVar, get_args

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.extension.handler import ExtensionHandlerMixin
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from tornado.web import HTTPError, authenticated

from tabletopic_kernel.faces.jupyter_server.backend import Backend
from tabletopic_kernel.faces.jupyter_server.dashboard import DASHBOARD
from tabletopic_kernel.faces.jupyter_server.routes import OWN_ROUTES, Settings
from tabletopic_kernel.faces.operations import BY_NAME, OPERATIONS, Operation
from tabletopic_kernel.faces.operations.next_steps import Face, values_for_face
from tabletopic_kernel.faces.operations.operation import (
    REQUIRED,
    Route,
    details_of,
    parameters_of,
    plain,
    summary_of,
)
from tabletopic_kernel.model.errors import (
    ActionNeededError,
    OutcomeUnknownError,
    RetryableError,
    TableTopicError,
    UnknownTopicError,
    UsageError,
)

T = TypeVar("T")
BACKEND, PROFILES = "tabletopic_backend", "tabletopic_profiles"
PROFILE_HEADER = "X-Table-Topic-Profile"  # of the topics that the page shows
_MOST = 1_000  # of what a response lists
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
        backend: Backend = self.settings[BACKEND]
        return backend

    def check_profile(self) -> None:
        """Raise ActionNeededError if the page shows another profile's topics, as after a choice elsewhere."""
        shown, now = self.request.headers.get(PROFILE_HEADER), self.backend.in_force.profile
        if shown and shown != now:
            raise ActionNeededError(
                f"JupyterLab uses the profile {now} now, and this page shows {shown}: reload it"
            )

    async def use_profile(self, profile: str) -> None:
        """Make a profile the one in use; raises as ``Backends.choose``."""
        backend = await self.call(self.settings[PROFILES].choose, profile)
        self.settings.update({BACKEND: backend, DASHBOARD: backend})

    async def call(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run work that may block in a thread."""
        return await self.backend.call(work, *arguments)

    def answer(self, body: Any, status: int = 200, *, verbatim: bool = False) -> None:
        """Write JSON, with next steps in the sidebar's words unless its texts stay as they are."""
        self.set_status(status)
        self.finish(json.dumps(body if verbatim else values_for_face(body, Face.SIDEBAR)))

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
            message = error.advice
        elif isinstance(error, HTTPError):
            message = error.log_message or responses.get(status_code, "")
        else:
            message = "unexpected error; the Jupyter server's log has the trace"
        self.finish(json.dumps(values_for_face({"message": message}, Face.SIDEBAR)))


def status_of(error: TableTopicError) -> int:
    """The HTTP status, according to who has to act."""
    return next(status for kind, status in _STATUS if isinstance(error, kind))


@dataclass(frozen=True)
class Endpoint:
    """A verb of a path. ``run`` works with the backend, or as a coroutine with the handler; ``returns`` has
    the type of the body.
    """

    name: str
    route: Route
    summary: str
    notes: str
    parameters: Mapping[str, tuple[Any, Any]]
    run: Callable[..., Any]
    returns: Callable[..., Any]

    @property
    def names_in_path(self) -> list[str]:
        """Names of the arguments in the path."""
        return re.findall(r"{(\w+)}", self.route.path)

    @property
    def answers_nothing(self) -> bool:
        """Whether the status is the whole response; an operation with status 202 only makes a request."""
        return self.route.status in (204, 302) or (self.route.status == 202 and self.name not in OWN_ROUTES)

    @cached_property
    def model(self) -> type[BaseModel]:
        """Arguments besides the path: in the query of a GET, otherwise in the body."""
        fields: dict[str, Any] = {
            name: kind if default is REQUIRED else (kind, default)
            for name, (kind, default) in self.parameters.items()
            if name not in self.names_in_path
        }
        return create_model(self.name, __config__=ConfigDict(extra="forbid", frozen=True), **fields)

    def read(self, in_path: Mapping[str, str], query: Mapping[str, str], body: bytes) -> dict[str, Any]:
        """A request's arguments by name; no body is an empty object. UsageError names a wrong key."""
        fields = self.model.model_fields
        if not fields:
            return dict(in_path)
        if self.route.verb == "get":
            arguments: Any = {name: query[name] for name in fields if query.get(name)}
        else:
            try:
                arguments = json.loads(body or b"{}")
            except ValueError as error:
                raise UsageError(f"the request's body is not JSON: {error}") from None
        try:
            read = self.model.model_validate(arguments)
        except ValidationError as error:
            problems = ((".".join(map(str, fault["loc"])), fault["msg"]) for fault in error.errors())
            raise UsageError("; ".join(f"{key or 'body'}: {message}" for key, message in problems)) from None
        return {**in_path, **{name: getattr(read, name) for name in fields}}

    async def respond(self, handler: Handler, values: Mapping[str, Any]) -> None:
        """Run the endpoint, and write the result or only a status."""
        if inspect.iscoroutinefunction(self.run):
            result = await self.run(handler, **values)
        else:
            result = await handler.call(partial(self.run, handler.backend, **values))
        status = self.route.status
        if status == 204:
            handler.set_status(status)
            handler.finish()
        elif status != 302:
            body = {} if result is None else without_long_numbers(plain(result))
            keyed = {self.route.key: body} if self.route.key else body
            handler.answer(keyed, status, verbatim=self.route.verbatim)


def without_long_numbers(value: Any) -> Any:
    """Snapshot ids as text: JavaScript's numbers cannot hold 64 bits."""
    if isinstance(value, list):
        return [without_long_numbers(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: str(inner) if key == "snapshot_id" and inner is not None else without_long_numbers(inner)
        for key, inner in value.items()
    }


def _operation(operation: Operation[..., Any], route: Route) -> Endpoint:
    """The endpoint of an operation."""
    kinds = {"topic": str, "settings": Settings}
    parameters = {
        name: (kinds[name], REQUIRED) if name in kinds else (_described(name, hint), default)
        for name, (hint, default) in parameters_of(operation.run).items()
        if name in kinds or name in route.takes
    }
    return Endpoint(
        operation.name,
        route,
        summary_of(operation.run),
        route.notes,
        parameters,
        lambda backend, **values: backend.perform(operation, route, values),
        route.body or operation.run,
    )


def _described(name: str, hint: Any) -> Any:
    """The type of an operation's argument in a request, with its limits."""
    kind, option = get_args(hint)
    most = option.most or (_MOST if name == "limit" else None)
    return Annotated[kind, Field(description=option.help, ge=option.least, le=most)]


def _make_endpoints() -> list[Endpoint]:
    endpoints = [
        _operation(operation, operation.route) for operation in OPERATIONS if operation.route is not None
    ]
    for name, own in OWN_ROUTES.items():
        documented = BY_NAME[name].run if name in BY_NAME else own.run
        summary, notes = summary_of(documented), " ".join(details_of(own.run).split())
        endpoints.append(Endpoint(name, own.route, summary, notes, parameters_of(own.run), own.run, own.run))
    return endpoints


ENDPOINTS = _make_endpoints()


def _method(endpoint: Endpoint) -> Callable[..., Awaitable[None] | None]:
    async def method(self: Handler, *in_path: str) -> None:
        self.check_profile()
        query = {name: self.get_query_argument(name) for name in self.request.query_arguments}
        path_arguments = dict(zip(endpoint.names_in_path, in_path, strict=True))
        await endpoint.respond(self, endpoint.read(path_arguments, query, self.request.body))

    method.__doc__ = f"{endpoint.summary}."
    return authenticated(authorized(method))


def _make_routes() -> list[tuple[str, type[Handler]]]:
    methods: dict[str, dict[str, Any]] = {}
    for endpoint in ENDPOINTS:
        methods.setdefault(endpoint.route.path, {})[endpoint.route.verb] = _method(endpoint)
    return [
        ("tabletopic/api/" + re.sub(r"{\w+}", "([^/]+)", path), type("RouteHandler", (Handler,), verbs))
        for path, verbs in methods.items()
    ]


ROUTES = _make_routes()
