"""The REST interface: a handler for each path of the operations, with a method for each of its verbs.

A method reads the arguments, has the backend do the work in a thread, and writes the answer: a second in the
event loop is a second in which nothing else of JupyterLab answers.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

from jupyter_server.auth.decorator import authorized
from jupyter_server.utils import url_path_join
from tornado.web import authenticated

from tabletopic_kernel.faces.jupyter_server.arguments import path_names, read_arguments
from tabletopic_kernel.faces.jupyter_server.handler import Handler
from tabletopic_kernel.faces.operations import OPERATIONS, Operation

_API = "tabletopic/api/"
# The way of an operation that does not end with a thread's result.
Answer = Callable[[Handler, dict[str, Any]], Awaitable[None]]


async def _overview(handler: Handler, _: dict[str, Any]) -> None:
    """From the cache; the first one waits for it."""
    handler.answer(handler.backend.known() or await handler.call(handler.backend.first_overview))


async def _quickstart(handler: Handler, _: dict[str, Any]) -> None:
    handler.answer({"path": await handler.backend.quickstart(handler.contents_manager)})


async def _dashboard(handler: Handler, values: dict[str, Any]) -> None:
    query = urlencode({name: value for name, value in values.items() if value})
    page = url_path_join(handler.base_url, "tabletopic/dashboard/")
    handler.redirect(page + (f"?{query}" if query else ""))


_OWN: dict[str, Answer] = {"overview": _overview, "quickstart": _quickstart, "dashboard": _dashboard}


def _answer_of(operation: Operation) -> Answer:
    """Do the operation, then answer with its result, with what has begun, or with nothing."""
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
