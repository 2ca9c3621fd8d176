"""The routes that enable topics by a pattern; those of standing patterns are of operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from tabletopic_kernel.faces.jupyter_server.routes.own import own_route
from tabletopic_kernel.faces.jupyter_server.routes.topics import Settings
from tabletopic_kernel.faces.operations.patterns import Enablings, enable_each

if TYPE_CHECKING:
    from tabletopic_kernel.faces.jupyter_server.backend import Backend

Exclude = Annotated[str, Field(description="Patterns of topics to leave out, with commas")]
Standing = Annotated[bool, Field(description="Also enable topics that come later, as they come")]


@own_route("post", "patterns/{pattern}/plan")
def plan_pattern(
    backend: Backend, pattern: str, settings: Settings, exclude: Exclude = "", standing: Standing = False
) -> Enablings:
    """Show which topics of a pattern would be enabled; nothing is changed.

    With their tables, and why others cannot be. Those that are enabled are not in it.
    """
    return enable_each(backend.workbench, pattern, settings, exclude, yes=False, standing=standing)


@own_route("put", "patterns/{pattern}")
def enable_pattern(
    backend: Backend, pattern: str, settings: Settings, exclude: Exclude = "", standing: Standing = False
) -> Enablings:
    """Enable the topics of a pattern that can be, and ensure that a host runs.

    With `standing` the pattern stays, or replaces the one with the same text, until it is deleted.
    """
    outcome = enable_each(backend.workbench, pattern, settings, exclude, yes=True, standing=standing)
    backend.ensure_host()
    backend.await_overview()
    return outcome
