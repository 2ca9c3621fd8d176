"""The routes of profiles: the sets of settings beside each other, of which JupyterLab uses one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import TypedDict

from tabletopic_kernel.faces.jupyter_server.routes.own import own_route
from tabletopic_kernel.workbench.config.profiles import make_profile

if TYPE_CHECKING:
    from tabletopic_kernel.faces.jupyter_server.backend import Backend
    from tabletopic_kernel.faces.jupyter_server.rest import Handler


class MadeProfile(TypedDict):
    """A new profile."""

    file: str


@own_route("put", "profiles/{profile}", 204)
async def choose_profile(handler: Handler, profile: str) -> None:
    """Use a profile in this Jupyter server, from the next request on.

    Running hosts and notebooks keep theirs. Dashboards of the previous profile end.
    """
    await handler.use_profile(profile)


@own_route("post", "profiles/{profile}", verbatim=True)
def add_profile(backend: Backend, profile: str) -> MadeProfile:
    """Write the file of a new profile, which names no server yet.

    It lies beside the settings file, or in the server's folder.
    """
    return {"file": str(make_profile(backend.in_force.base(), profile))}
