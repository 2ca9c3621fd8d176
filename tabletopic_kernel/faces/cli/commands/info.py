"""``info``: addresses for other programs; ``docs``: the pages of the manual."""

from __future__ import annotations

from typing import Annotated, Any

from rich.markdown import Markdown

from tabletopic_kernel.faces import pages
from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import Call
from tabletopic_kernel.faces.cli.command import Json
from tabletopic_kernel.faces.operations.operation import Option
from tabletopic_kernel.model.redact import HIDDEN, mask_property, without_login
from tabletopic_kernel.model.settings.servers import registry_place


def info(call: Call, as_json: Json = False) -> None:
    """Show the addresses for other programs: brokers, registry, catalog, live hosts.

    With --json: profile, bootstrap_servers, registry_url, kafka (properties of
    librdkafka), registry (of the registry's client), catalog (name, and the
    properties for PyIceberg's load_catalog), catalogs (a list of the others),
    state_dir, hosts. These properties include passwords, which the text output
    hides.

    Example:  tabletopic info --json
    """
    hosts = call.hosts()
    servers = addresses(call, hosts or [])
    if as_json:
        screen.show_json(servers)
        return
    catalog, others = servers["catalog"], servers["catalogs"]
    properties = [
        servers["kafka"],
        servers["registry"],
        *(section["properties"] for section in (catalog, *others)),
    ]
    kafka, registry, own, *further = (
        {key: mask_property(key, value) for key, value in section.items()} for section in properties
    )
    facts = {"profile": servers["profile"], "bootstrap servers": servers["bootstrap_servers"]}
    facts |= _indented(kafka, "bootstrap.servers", "metadata.broker.list")
    facts |= {"registry": servers["registry_url"], **_indented(registry, "url")}
    facts |= {"catalog": catalog["name"], **_indented(own)}
    for other, masked in zip(others, further, strict=True):
        facts |= {f"{other['name']}: {key}": value for key, value in masked.items()}
    facts |= {"state folder": servers["state_dir"], "hosts": _host_list(call, hosts)}
    screen.console().print(screen.facts(facts))
    if HIDDEN in str([kafka, registry, own, further]):
        screen.note(f"passwords are hidden; {call.command('info', '--json')} prints them for other programs")
    call.note_missing_servers()


def docs(
    call: Call,
    page: Annotated[
        str | None, Option("Its name; without it the index", metavar="PAGE", positional=True)
    ] = None,
    word: Annotated[str | None, Option("Word of a heading on it", metavar="WORD", positional=True)] = None,
) -> None:
    """Show a page of the manual, or its section with a word in the heading.

    Example:  tabletopic docs trouble failed
    """
    text = pages.page(page, word or "")
    out = screen.console()
    if out.is_terminal:
        out.print(Markdown(text, hyperlinks=False))
    else:
        screen.write(text)


def _indented(properties: dict[str, str], *addresses: str) -> dict[str, str]:
    """A client's properties other than its addresses."""
    return {f"  {key}": value for key, value in properties.items() if key not in addresses}


def _host_list(call: Call, hosts: list[str] | None) -> str:
    if hosts is None:
        return "unknown: the broker does not respond"
    return ", ".join(hosts) or f"none; start one: {call.command('serve')}"


def addresses(call: Call, hosts: list[str]) -> dict[str, Any]:
    """The servers with all their properties, and the live hosts."""
    servers = call.workbench.servers
    kafka = servers.kafka
    catalog, *others = (
        {
            "name": section["name"],
            "properties": {key: value for key, value in section.items() if key != "name"},
        }
        for section in servers.all_catalogs
    )
    return {
        "profile": call.loaded.profile,
        "bootstrap_servers": kafka.get("bootstrap.servers") or kafka.get("metadata.broker.list", ""),
        "registry_url": without_login(registry_place(servers.registry)),
        "kafka": kafka,
        "registry": servers.registry,
        "catalog": catalog,
        "catalogs": others,
        "state_dir": str(servers.state_dir),
        "hosts": hosts,
    }
