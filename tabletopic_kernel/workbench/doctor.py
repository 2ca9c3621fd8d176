"""Check whether this machine has what the workbench needs, with a remedy for each failure.

Longer than other modules, as it is a list of checks.
"""

# Imports are deferred: a check that cannot even import reports that.
# ruff: noqa: PLC0415

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import psutil

from tabletopic_kernel.model.errors import CATALOG_SECTION, SettingsError, TableTopicError, Trouble
from tabletopic_kernel.model.redact import redact
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.model.topic_names import CONTROL_TOPIC, SETTINGS_TOPIC, internal_owner
from tabletopic_kernel.workbench.config import SECTIONS, LoadedSettings, embedded_servers, own_servers
from tabletopic_kernel.workbench.workbench import Servers, find_servers

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from tabletopic_kernel.clients.kafka.broker import Broker
    from tabletopic_kernel.clients.storage.probe import Place
    from tabletopic_kernel.local.stack import StackInfo

Status = Literal["ok", "warn", "fail"]
# The jars once, the broker's log, and the tables: below the first number something fails at once.
_LEAST_BYTES, _ENOUGH_BYTES = 1024**3, 5 * 1024**3
_LEAST_MEMORY_BYTES = 2 * 1024**3
_START = "start the local stack with `tabletopic up`, or name your servers in tabletopic.toml"
_COUNTING_S = 4.0


@dataclass(frozen=True)
class Check:
    """The result of one check; ``remedy`` is what to do, unless it succeeded or ``detail`` says that."""

    name: str
    status: Status
    detail: str
    remedy: str = ""

    def __post_init__(self) -> None:
        # Whatever other programs put into their responses.
        object.__setattr__(self, "detail", redact(self.detail))

    def to_json(self) -> dict[str, str]:
        """A plain dictionary."""
        return asdict(self)


class _Trouble(Exception):  # noqa: N818 - never leaves this module
    """A failed check."""

    def __init__(self, detail: str, remedy: str, status: Status = "fail") -> None:
        super().__init__(detail)
        self.check = (status, detail, remedy)


def run_checks(loaded: LoadedSettings) -> Iterator[Check]:
    """Run all checks in order; never raises."""
    state_dir = Path(loaded.settings.state_dir)
    yield _checked("Python", _python)
    yield _checked("JDK", _jdk)
    yield _checked("Java libraries", _jars)
    yield _checked("query extensions", _extensions)
    yield _checked("limits", _limits)
    yield _checked("disk space", lambda: _disk(state_dir))
    yield _checked("state folder", lambda: _state_folder(state_dir))
    yield _checked("ports", lambda: _ports(state_dir, embedded_servers(loaded.settings)))
    try:
        servers = find_servers(loaded.settings)
        away = servers.away()
    except TableTopicError as error:
        yield Check("servers", "warn", _first_line(error), _START)
        yield from _check_servers(_named(loaded.settings))
        return
    if servers.local and _stack(state_dir, servers.local) is not None:
        yield _checked("login", lambda: _login(loaded.settings))
    if away.names:
        yield Check("servers", "warn", str(away), _START)
    yield from _check_servers(servers)
    yield _checked("Spark", lambda: _spark(loaded, servers))
    yield _checked("hosts", lambda: _hosts(servers))


def _named(settings: Settings) -> Servers:
    """The servers that the settings name, without those of a local stack, which is not there."""
    own = own_servers(settings)
    kafka, registry, catalog = (
        dict(properties) if section in own else {}
        for section, properties in zip(
            SECTIONS, (settings.kafka, settings.registry, settings.catalog), strict=True
        )
    )
    catalogs = {name: {**properties, "name": name} for name, properties in settings.catalogs.items()}
    return Servers(kafka, registry, catalog, Path(settings.state_dir), catalogs=catalogs)


def _check_servers(servers: Servers) -> Iterator[Check]:
    if servers.kafka:
        yield _checked("broker", lambda: _broker(servers.kafka))
        yield _checked("rights", lambda: _rights(servers.kafka))
    if servers.registry:
        yield _checked("registry", lambda: _registry(servers.registry))
    for name in (*((None,) if servers.catalog else ()), *servers.catalogs):
        which = f" {name}" if name else ""
        yield _checked(f"catalog{which}", partial(_catalog, servers, name))
        yield _checked(f"storage{which}", partial(_storage, servers, name))


def check_server(section: str, properties: Mapping[str, str]) -> Iterator[Check]:
    """Check one of the user's servers; never raises.

    ``section``: ``kafka``, ``registry``, ``catalog`` or ``catalogs.<name>``.
    """
    section, _, further = section.partition(".")
    of, name = {section: dict(properties)}, further or None
    servers = Servers(of.get("kafka", {}), of.get("registry", {}), of.get("catalog", {}), Path())
    if name is not None:
        servers.catalogs[name] = {**properties, "name": name}
    of_catalog = (
        ("catalog", lambda: _catalog(servers, name)),
        ("storage", lambda: _storage(servers, name)),
    )
    looks: dict[str, tuple[tuple[str, Callable[[], str]], ...]] = {
        "kafka": (("broker", lambda: _broker(servers.kafka)), ("rights", lambda: _rights(servers.kafka))),
        "registry": (("registry", lambda: _registry(servers.registry)),),
        "catalog": of_catalog,
        "catalogs": of_catalog,
    }
    for what, look in looks[section]:
        check = _checked(what, look)
        yield check
        if check.status == "fail":  # the following ones would fail in the same way
            return


def _checked(name: str, look: Callable[[], str]) -> Check:
    try:
        return Check(name, "ok", look())
    except _Trouble as trouble:
        return Check(name, *trouble.check)
    except SettingsError as error:
        return Check(
            name, "fail", _first_line(error), "correct it; `tabletopic config` shows where it is set"
        )
    except TableTopicError as error:
        return Check(name, "fail", _first_line(error))
    except Exception as error:
        return Check(name, "fail", f"{type(error).__name__}: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


# --- this machine -----------------------------------------------------------------------------------------


def _python() -> str:
    missing = [name for name in ("pyspark", "pyiceberg", "pyarrow", "duckdb", "datafusion")
               if importlib.util.find_spec(name) is None]  # fmt: skip
    if missing:
        raise _Trouble(f"{', '.join(missing)} not installed", "reinstall the package: pip install tabletopic")
    return f"{platform.python_version()} on {platform.system()} {platform.machine()}"


def _jdk() -> str:
    from tabletopic_kernel.local.java import jvm

    java = jvm.java()
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    if answer.returncode != 0:
        raise _Trouble(
            f"{java} does not run: {answer.stderr.strip()[:200]}", f"set {jvm.JAVA_HOME_VARIABLE} to a JDK"
        )
    version = next((line for line in answer.stderr.splitlines() if "version" in line), "")
    return f"{version.strip()} at {java}"


def _jars() -> str:
    from tabletopic_kernel.local.java import jvm
    from tabletopic_kernel.local.progress import Step

    def refuse(step: Step) -> None:  # about to download them: that is left to `up`
        raise _Trouble(
            f"not downloaded yet ({step.detail})", "`tabletopic up` downloads them, about 270 MB", "warn"
        )

    found = jvm.install(refuse)
    return f"{len(found.of('spark'))} for Spark and those of the servers in {found.folder}"


def _extensions() -> str:
    import duckdb

    from tabletopic_kernel.query.duckdb_connection import EXTENSIONS, connect

    connect().close()
    return f"DuckDB {duckdb.__version__} with {', '.join(EXTENSIONS)}"


def _limits() -> str:
    from tabletopic_kernel.local.machine import need_limits

    limits, free = need_limits(), psutil.virtual_memory().available
    memory = f"{free / 1024**3:.1f} GiB of memory available"
    if free < _LEAST_MEMORY_BYTES:
        raise _Trouble(memory, "close other programs: servers and Spark use about 2 GiB", "warn")
    return f"{limits}, {memory}"


def _disk(state_dir: Path) -> str:
    from tabletopic_kernel.local.java import jars

    free_space = []
    for what, folder in (("state folder", state_dir), ("cache", jars.cache_dir())):
        free = shutil.disk_usage(_existing(folder)).free
        free_space.append(f"{what} {free / 1024**3:.1f} GiB free")
        if free < _ENOUGH_BYTES:
            raise _Trouble(
                free_space[-1],
                f"free disk space at {folder}, or choose another folder",
                "fail" if free < _LEAST_BYTES else "warn",
            )
    return ", ".join(free_space)


def _state_folder(state_dir: Path) -> str:
    folder = _existing(state_dir)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _Trouble(f"cannot write to {folder}", "choose another folder with --state-dir")
    return str(state_dir) if folder == state_dir else f"{state_dir} (created when needed)"


def _existing(folder: Path) -> Path:
    return next(place for place in (folder, *folder.parents) if place.exists())


def _ports(state_dir: Path, servers: tuple[str, ...]) -> str:
    from tabletopic_kernel.local import machine, state
    from tabletopic_kernel.local.stack import LocalStack

    with socket.socket() as probe:
        probe.bind((machine.LOOPBACK, 0))
    if servers and _stack(state_dir, servers) is not None:
        return "the local stack has its own"
    known = LocalStack(state_dir, servers=servers).known()
    at_work = set(known.pids) - set(known.ended) if known else set()  # a server may have ended by itself
    records = state.load(state_dir).items()
    kept = [port for name, record in records if name not in at_work for port in record.ports.values()]
    taken = [str(port) for port in kept if not machine.is_free_port(port)]
    if taken:
        raise _Trouble(
            f"{', '.join(taken)} of the last start: in use by another program",
            "nothing to do: `tabletopic up` chooses others",
            "warn",
        )
    which = "those of the last start are free" if kept else "free ones are chosen at the start"
    return f"loopback works; {which}"


def _stack(state_dir: Path, servers: tuple[str, ...]) -> StackInfo | None:
    from tabletopic_kernel.local.stack import LocalStack

    return LocalStack(state_dir, servers=servers).info()


def _login(settings: Settings) -> str:
    """Whether the local stack is open to every user of this machine, and whether it should be."""
    from tabletopic_kernel.workbench.config import behind_hub, wants_login

    servers = embedded_servers(settings)
    info = _stack(Path(settings.state_dir), servers)
    asks = info is not None and all({"kafka": info.kafka_login, "registry": info.registry_login}[name]
                                    for name in servers)  # fmt: skip
    who = " and ".join("broker" if name == "kafka" else name for name in servers)
    why = f"local.login is {settings.local.login}"
    if settings.local.login == "auto":
        others = (
            "others have accounts on this machine" if wants_login(settings) else "nobody else has an account"
        )
        why += f", {'behind a JupyterHub' if behind_hub() else others}"
    if len(servers) == 1:
        logins = "requires one" if asks else "is open to every user of this machine"
    else:
        logins = "require one" if asks else "are open to every user of this machine"
    if asks != wants_login(settings):
        wanted = "with" if wants_login(settings) else "without"
        raise _Trouble(
            f"{who} {logins}, but {why}",
            f"restart the stack {wanted} a login: `tabletopic down`, `tabletopic up`; then restart the hosts",
            "warn",
        )
    return f"{who} {logins} ({why})"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


# --- servers ----------------------------------------------------------------------------------------------


def _open_broker(properties: Mapping[str, str]) -> Broker:
    """A client; raises RetryableError at once if nothing listens."""
    from tabletopic_kernel.clients.kafka.broker import Broker
    from tabletopic_kernel.clients.kafka.connection_errors import check_listening

    check_listening(properties)
    return Broker(properties)


def _broker(properties: Mapping[str, str]) -> str:
    broker = _open_broker(properties)
    topics = [topic for topic in broker.topics() if internal_owner(topic) is None]
    return f"{broker.address} responds, cluster {broker.cluster_id()}, {_count(len(topics), 'topic')}"


def _rights(properties: Mapping[str, str]) -> str:
    """Whether the user has the permissions on the broker that hosts and faces need."""
    from tabletopic_kernel.clients.kafka.checks import DESCRIBE, READ, WRITE, missing_rights
    from tabletopic_kernel.host.host import GROUP
    from tabletopic_kernel.host.topics.settings_topic import read_desired

    broker = _open_broker(properties)
    there = set(broker.topics())
    enabled = sorted(read_desired(broker)) if SETTINGS_TOPIC in there else []
    ours = dict.fromkeys((SETTINGS_TOPIC, CONTROL_TOPIC), (READ, WRITE, DESCRIBE))
    topics = ours | dict.fromkeys(enabled, (READ, DESCRIBE))
    if missing := missing_rights(broker, topics, {GROUP: (READ, DESCRIBE)}):
        lines = "; ".join(f"kafka-acls --bootstrap-server {broker.address} --add {line}" for line in missing)
        raise _Trouble(f"{_count(len(missing), 'permission')} of the user missing on {broker.address}", lines)
    return "the user has the permissions that hosts need"


def _registry(properties: Mapping[str, str]) -> str:
    from tabletopic_kernel.clients.registry.registry import Registry

    registry = Registry(properties)
    return f"{registry.url} responds, {_count(len(registry.check()), 'subject')}"


def _catalog(servers: Servers, name: str | None = None) -> str:
    """Open the catalog, count visible tables, and try a change to a database."""
    from tabletopic_kernel.clients.catalog.catalog import catalog_name, in_section
    from tabletopic_kernel.clients.storage.probe import open_impatient, try_changes, within_limit

    properties = servers.catalog_of(name)

    def look() -> str:
        catalog = open_impatient(properties)
        found = _tables(catalog)
        try_changes(catalog)
        return f"{catalog_name(properties)} opens, {found}"

    with in_section(name):
        return within_limit(look, at=properties.get("uri", ""))


def _tables(catalog: Catalog) -> str:
    """The number of tables visible to the user, as far as it can be counted within seconds."""
    from tabletopic_kernel.clients.catalog.catalog import reachable
    from tabletopic_kernel.clients.outside_errors.sorting import is_refused

    with reachable("the catalog"):
        namespaces = catalog.list_namespaces()
        tables, closed, until = 0, 0, time.monotonic() + _COUNTING_S
        for number, namespace in enumerate(namespaces):
            if time.monotonic() > until:
                return (
                    f"{tables} or more tables in {_count(len(namespaces), 'namespace')}, {number} inspected"
                )
            try:
                tables += len(catalog.list_tables(namespace))
            except Exception as error:
                if not is_refused(error):
                    raise
                closed += 1  # another user's, and irrelevant to table topics
    found = f"{_count(tables, 'table')} in {_count(len(namespaces), 'namespace')}"
    return f"{found}, {closed} of which the user may not list" if closed else found


def _storage(servers: Servers, name: str | None = None) -> str:
    """Write, read and delete a small file in the warehouse."""
    from tabletopic_kernel.clients.catalog.catalog import in_section

    with in_section(name):
        return _try_storage(servers, name)


def _try_storage(servers: Servers, name: str | None) -> str:
    from tabletopic_kernel.clients.catalog.engine_properties import catalog_type
    from tabletopic_kernel.clients.storage.probe import try_folder, within_limit

    properties = servers.catalog_of(name)
    kind = catalog_type(properties)
    place = within_limit(lambda: _place(servers, name), at=properties.get("uri", ""))
    if place is None and kind == "sql":
        raise SettingsError(
            Trouble("warehouse is not set: s3://bucket/folder, or a local folder, for tables")
        )
    if place is None and kind == "glue":
        section = f"catalogs.{name}" if name else CATALOG_SECTION
        raise _Trouble(
            f"[{section}] warehouse is not set",
            "set it to s3://bucket/folder, unless the databases of all table topics have a location",
            "warn",
        )
    if place is None:
        raise _Trouble(
            "the catalog chooses table locations, or vends the credentials",
            "nothing to do; `tabletopic enable` checks that it can write there",
            "warn",
        )
    within_limit(lambda: try_folder(place), what="the storage", at=place.location)
    return f"{place.location}: write, read, delete"


def _place(servers: Servers, name: str | None) -> Place | None:
    """The location of tables: the default, or an existing table's; None if only the catalog knows."""
    from pyiceberg.exceptions import NoSuchTableError

    from tabletopic_kernel.clients.catalog.catalog import reachable
    from tabletopic_kernel.clients.storage.probe import Place, default_place, open_impatient

    catalog = open_impatient(servers.catalog_of(name))
    if (place := default_place(catalog)) is not None:
        return place
    for identifier in _enabled_tables(servers, name):
        with suppress(NoSuchTableError), reachable("the catalog"):
            table = catalog.load_table(identifier)
            return Place(table.location(), table.io)
    return None


def _enabled_tables(servers: Servers, catalog: str | None) -> list[tuple[str, ...]]:
    """A catalog's tables that may already exist."""
    from tabletopic_kernel.host.topics.settings_topic import read_desired
    from tabletopic_kernel.model.settings.table_names import table_identifier

    if not servers.kafka:
        return []
    with suppress(TableTopicError):  # the broker has a check of its own
        broker = _open_broker(servers.kafka)
        if SETTINGS_TOPIC in broker.topics():
            desired = read_desired(broker)
            return [
                table_identifier(topic, one.settings)
                for topic, one in desired.items()
                if one.settings.catalog == catalog
            ]
    return []


def _spark(loaded: LoadedSettings, servers: Servers) -> str:
    """Whether executors reach what they need: by the settings, and on a cluster by running tasks."""
    from tabletopic_kernel.model.settings.cluster import out_of_reach
    from tabletopic_kernel.workbench.clients import Clients

    spark = loaded.settings.spark
    found = (reason for one in servers.all_catalogs for reason in out_of_reach(spark, servers.kafka, one))
    if reasons := list(dict.fromkeys(found)):
        raise _Trouble("; ".join(reasons), "table topics cannot run with these settings")
    if spark.is_local:
        return f"{spark.effective_master}: executors on this machine"
    from tabletopic_kernel.clients.spark.cluster_probe import check_executors

    # This process ends soon, and with it the rest of a failed session.
    clients = Clients(loaded.settings, servers)
    session = clients.host_spark()
    for name in servers.catalogs:
        clients.host_spark(catalog=name)
    machines = check_executors(session)
    session.stop()
    ran = f"{_count(len(machines), 'task')} ran on {', '.join(sorted(set(machines)))}"
    return f"{spark.effective_master}: {ran}, with this host's versions, and reached the warehouse"


def _hosts(servers: Servers) -> str:
    from tabletopic_kernel.workbench.hosts import live_hosts

    if not (found := live_hosts(_open_broker(servers.kafka))):
        raise _Trouble("no host runs", "start one with `tabletopic serve`", "warn")
    return ", ".join(found)
