"""``info``: addresses for other programs."""

# Imports are deferred: see the package's docstring.
# ruff: noqa: PLC0415

from __future__ import annotations

from typing import Any

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import Call
from tabletopic_kernel.faces.cli.command import Json


def info(call: Call, as_json: Json = False) -> None:
    """Show the addresses for other programs: brokers, registry, catalog, live hosts.

    With --json: bootstrap_servers, registry_url, kafka (properties of
    librdkafka), registry (of the registry's client), catalog (name, and the
    properties for PyIceberg's load_catalog), catalogs (a list of the others),
    state_dir, hosts. These properties include passwords, which the text output
    hides.

    Example:  tabletopic info --json
    """
    from tabletopic_kernel.model.redact import HIDDEN, mask_property

    hosts = call.hosts()
    servers = addresses(call, hosts or [])
    if as_json:
        screen.show_json(servers)
        return
    catalog: dict[str, Any] = servers["catalog"]
    screen.console().print(
        screen.facts(
            {
                "bootstrap servers": servers["bootstrap_servers"],
                **_masked(servers["kafka"], "bootstrap.servers", "metadata.broker.list"),
                "registry": servers["registry_url"],
                **_masked(servers["registry"], "url"),
                "catalog": catalog["name"],
                **_masked(catalog["properties"]),
                **_masked_catalogs(servers["catalogs"]),
                "state folder": servers["state_dir"],
                "hosts": _host_list(call, hosts),
            }
        )
    )
    if HIDDEN in str([mask_property(*item) for part in _properties(servers) for item in part.items()]):
        screen.note(f"passwords are hidden; {call.command('info', '--json')} prints them for other programs")
    call.note_missing_servers()


def _masked(properties: dict[str, str], *addresses: str) -> dict[str, str]:
    """A client's properties other than its addresses, with secrets masked."""
    from tabletopic_kernel.model.redact import mask_property

    return {
        f"  {key}": mask_property(key, value) for key, value in properties.items() if key not in addresses
    }


def _masked_catalogs(catalogs: list[dict[str, Any]]) -> dict[str, str]:
    """Properties of the other catalogs, prefixed with the catalog's name, with secrets masked."""
    from tabletopic_kernel.model.redact import mask_property

    return {
        f"{catalog['name']}: {key}": mask_property(key, value)
        for catalog in catalogs
        for key, value in catalog["properties"].items()
    }


def _properties(servers: dict[str, Any]) -> list[dict[str, str]]:
    catalogs = [servers["catalog"], *servers["catalogs"]]
    return [servers["kafka"], servers["registry"], *(catalog["properties"] for catalog in catalogs)]


def _host_list(call: Call, hosts: list[str] | None) -> str:
    if hosts is None:
        return "unknown: the broker does not respond"
    return ", ".join(hosts) or f"none; start one: {call.command('serve')}"


def addresses(call: Call, hosts: list[str]) -> dict[str, Any]:
    """The servers with all their properties, and the live hosts."""
    from tabletopic_kernel.model.redact import without_login
    from tabletopic_kernel.model.settings.servers import registry_place

    servers = call.workbench.servers
    kafka = servers.kafka
    catalog, *others = (
        {"name": each["name"], "properties": {key: value for key, value in each.items() if key != "name"}}
        for each in servers.all_catalogs
    )
    return {
        "bootstrap_servers": kafka.get("bootstrap.servers") or kafka.get("metadata.broker.list", ""),
        "registry_url": without_login(registry_place(servers.registry)),
        "kafka": kafka,
        "registry": servers.registry,
        "catalog": catalog,
        "catalogs": others,
        "state_dir": str(servers.state_dir),
        "hosts": hosts,
    }
