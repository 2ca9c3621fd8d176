"""``info``: addresses for other programs."""

# Imports wait until they are needed: see the package's docstring.
# ruff: noqa: PLC0415

from __future__ import annotations

from typing import Any

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import Call


def info(call: Call, as_json: bool) -> None:
    """Print addresses; with JSON the whole properties, passwords among them."""
    from tabletopic_kernel.model.redact import HIDDEN, mask_property

    hosts = call.hosts()
    found = _info(call, hosts or [])
    if as_json:
        screen.show_json(found)
        return
    catalog = found["catalog"]
    screen.console().print(
        screen.facts(
            {
                "bootstrap servers": found["bootstrap_servers"],
                **_more(found["kafka"], "bootstrap.servers", "metadata.broker.list"),
                "registry URL": found["registry_url"],
                **_more(found["registry"], "url"),
                "catalog": catalog["name"],
                **{f"  {key}": mask_property(key, value) for key, value in catalog["properties"].items()},
                "state folder": found["state_dir"],
                "hosts": _host_list(call, hosts),
            }
        )
    )
    if HIDDEN in str([mask_property(*one) for part in _properties(found) for one in part.items()]):
        screen.note(f"passwords are hidden; {call.command('info', '--json')} gives them, for other programs")
    call.note_missing_servers()


def _more(properties: dict[str, str], *addresses: str) -> dict[str, str]:
    """What a client needs beside the address, as it may be shown."""
    from tabletopic_kernel.model.redact import mask_property

    return {
        f"  {key}": mask_property(key, value) for key, value in properties.items() if key not in addresses
    }


def _properties(found: dict[str, Any]) -> list[dict[str, str]]:
    return [found["kafka"], found["registry"], found["catalog"]["properties"]]


def _host_list(call: Call, hosts: list[str] | None) -> str:
    if hosts is None:
        return "not known, as the broker does not answer"
    return ", ".join(hosts) or f"none; start one: {call.command('serve')}"


def _info(call: Call, hosts: list[str]) -> dict[str, Any]:
    from tabletopic_kernel.model.redact import without_login

    servers = call.workbench.servers
    kafka = servers.kafka
    properties = {key: value for key, value in servers.catalog.items() if key != "name"}
    return {
        "bootstrap_servers": kafka.get("bootstrap.servers") or kafka.get("metadata.broker.list", ""),
        "registry_url": without_login(servers.registry.get("url", "")),
        "kafka": kafka,
        "registry": servers.registry,
        "catalog": {"name": servers.catalog["name"], "properties": properties},
        "state_dir": str(servers.state_dir),
        "hosts": hosts,
    }
