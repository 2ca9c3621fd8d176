"""Routes of the REST interface that do more than run an operation and return its result.

A function gets the backend, in a thread; a coroutine gets the handler, in the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from tabletopic_kernel.faces.operations.operation import Route


@dataclass(frozen=True)
class OwnRoute:
    """A route with its function."""

    route: Route
    run: Callable[..., Any]


OWN_ROUTES: dict[str, OwnRoute] = {}


def own_route(
    verb: Literal["get", "put", "post", "delete"],
    path: str,
    status: int = 200,
    key: str = "",
    *,
    verbatim: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Serve a function at a path; a function of an operation's name serves the operation."""

    def register(run: Callable[..., Any]) -> Callable[..., Any]:
        route = Route(verb, path, status, key, verbatim=verbatim)
        OWN_ROUTES[run.__name__.replace("_", "-")] = OwnRoute(route, run)
        return run

    return register
