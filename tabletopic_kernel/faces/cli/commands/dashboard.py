"""``dashboard``: the live dashboard in a browser, for people without Jupyter."""

# Imports wait until they are needed: see the package's docstring.
# ruff: noqa: PLC0415

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import Call

if TYPE_CHECKING:
    from tabletopic_kernel.model.settings.sections import Settings


def dashboard(call: Call, port: int) -> None:
    """Serve the dashboard until Ctrl-C."""
    from tabletopic_kernel.faces.live_dashboard.server import Place, serve

    def settings() -> Settings:
        """Read anew each time: other servers may be named while the dashboard runs."""
        return dataclasses.replace(call).loaded.settings

    def ready(url: str) -> None:
        screen.show(f"dashboard at [cyan]{screen.plain(url)}[/]")
        screen.note("Ctrl-C ends it; hosts and tables go on")

    settings()  # a mistake in them is told here, not on the page
    serve(Place(port=port), ready=ready, load=settings)
