"""The routes of the servers that the settings name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from tabletopic_kernel.faces.jupyter_server.routes.own import own_route
from tabletopic_kernel.workbench.config.server_sections import (
    NamedServers,
    SavedServer,
    ServerSection,
    ServerSections,
)

if TYPE_CHECKING:
    from tabletopic_kernel.faces.jupyter_server.backend import Backend
    from tabletopic_kernel.workbench.doctor.check import Check

Properties = Annotated[
    dict[str, str | None],
    Field(description="All properties of the section; null leaves one as the file has it"),
]


@dataclass(frozen=True)
class ServersOfProfile(NamedServers):
    """Also which profile JupyterLab uses, and which ones there are."""

    used_profile: str
    profiles: list[str]


Profile = Annotated[str | None, Field(description="The profile to look at; default: the one in use")]


def _sections(backend: Backend, profile: str | None) -> ServerSections:
    in_force = backend.in_force
    return ServerSections((in_force.of(profile) if profile else in_force).load)


@own_route("get", "servers", verbatim=True)
def servers(backend: Backend, profile: Profile = None) -> ServersOfProfile:
    """The servers that the settings name.

    With the ways to reach each, as `tabletopic init` has them. Secrets are not in it.
    """
    named = _sections(backend, profile).all()
    in_force = backend.in_force
    return ServersOfProfile(**vars(named), used_profile=in_force.profile, profiles=in_force.profiles())


@own_route("get", "servers/{section}", verbatim=True)
def server(backend: Backend, section: str, profile: Profile = None) -> ServerSection:
    """A section that names a server.

    Also one that is not in the settings: the ways to reach such a server.
    """
    return _sections(backend, profile).of(section)


@own_route("post", "servers/{section}/test", key="checks")
def try_server(
    backend: Backend, section: str, properties: Properties, profile: Profile = None
) -> list[Check]:
    """Check a server as `doctor` does, with properties that are not saved.

    The section is `kafka`, `registry`, `catalog` or `catalogs.NAME`. Checks of a catalog include its storage.
    """
    backend.await_loading()
    from tabletopic_kernel.workbench.doctor.run import check_server  # noqa: PLC0415 - the clients

    return list(check_server(section, _sections(backend, profile).to_try(section, properties)))


@own_route("put", "servers/{section}", verbatim=True)
def save_server(
    backend: Backend,
    section: str,
    properties: Properties,
    version: Annotated[str, Field(description="Of the file when it was read")],
    secrets_too: Annotated[
        bool, Field(description="Write new secrets; otherwise comments name their variables")
    ] = False,
    profile: Profile = None,
) -> SavedServer:
    """Write a server's section into the settings file, and keep everything else in it.

    Running hosts read it at their next start.
    """
    return _sections(backend, profile).save(section, properties, version, secrets_too=secrets_too)
