"""The routes of people's queries: the history, and those saved by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from tabletopic_kernel.faces.jupyter_server.routes.own import own_route
from tabletopic_kernel.faces.queries import PastQuery, Queries, SavedQuery

if TYPE_CHECKING:
    from tabletopic_kernel.faces.jupyter_server.backend import Backend


@dataclass(frozen=True)
class QueriesAnswer:
    """Queries as the texts of their cells: saved ones by name, and the last ones, newest first."""

    saved: list[SavedQuery]
    history: list[PastQuery]


@own_route("get", "queries")
def queries(
    backend: Backend,
    word: Annotated[str, Field(description="Only queries of the history that contain it")] = "",
    limit: Annotated[int, Field(description="How many of the history", ge=1, le=500)] = 100,
) -> QueriesAnswer:
    """Saved queries, and the last ones that ran in cells."""
    kept = _of(backend)
    return QueriesAnswer(kept.saved(), kept.history(word, limit))


@own_route("delete", "queries", 204)
def forget_queries(backend: Backend) -> None:
    """Empty the history of queries; saved ones stay."""
    _of(backend).forget()


@own_route("put", "queries/{name}", 204)
def save_query(
    backend: Backend, name: str, cell: Annotated[str, Field(description="Text of the cell")]
) -> None:
    """Save a query, instead of one with the same name."""
    _of(backend).save(name, cell)


@own_route("delete", "queries/{name}", 204)
def delete_query(backend: Backend, name: str) -> None:
    """Delete a saved query."""
    _of(backend).delete(name)


def _of(backend: Backend) -> Queries:
    return Queries(backend.in_force.settings().state_dir)
