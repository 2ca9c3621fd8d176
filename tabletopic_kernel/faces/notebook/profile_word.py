"""``%topic profile``: which settings this notebook uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from tabletopic_kernel.faces.operations.operation import Option
from tabletopic_kernel.render.topics import facts

if TYPE_CHECKING:
    from tabletopic_kernel.faces.notebook.session import Session
    from tabletopic_kernel.render.grid import Grid


def profile(
    session: Session,
    name: Annotated[
        str | None,
        Option("Its name; without it, the one in use", metavar="NAME", positional=True),
    ] = None,
) -> Grid:
    """Show which profile this notebook uses, or choose another one."""
    from tabletopic_kernel.workbench.config import load_settings  # noqa: PLC0415 - the first magic pays

    loaded = load_settings(profile=name)
    if name is not None:
        session.choose_profile(name)
    settings_file = "none" if loaded.file is None else str(loaded.file)
    about = {"file": settings_file, "state folder": loaded.settings.state_dir}
    return facts("profile", {"profile": loaded.profile, **about})
