"""Checks of servers and hosts."""

# Imports are deferred: a check that cannot even import reports that.
# ruff: noqa: PLC0415

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING

from tabletopic_kernel.model.errors import CATALOG_SECTION, SettingsError, TableTopicError, Trouble
from tabletopic_kernel.model.topic_names import (
    CONTROL_TOPIC,
    HOSTS_GROUP,
    SETTINGS_TOPIC,
    internal_owner,
    kafka_topic,
)
from tabletopic_kernel.workbench.config import LoadedSettings
from tabletopic_kernel.workbench.doctor.check import Failed, count
from tabletopic_kernel.workbench.workbench import Servers

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from tabletopic_kernel.clients.kafka.broker import Broker
    from tabletopic_kernel.clients.storage.probe import Place

_COUNTING_S = 4.0


def _open_broker(properties: Mapping[str, str]) -> Broker:
    """A client; raises RetryableError at once if nothing listens."""
    from tabletopic_kernel.clients.kafka.broker import Broker
    from tabletopic_kernel.clients.kafka.connection_errors import check_listening

    check_listening(properties)
    return Broker(properties)


def broker(properties: Mapping[str, str]) -> str:
    broker = _open_broker(properties)
    topics = [topic for topic in broker.topics() if internal_owner(topic) is None]
    return f"{broker.address} responds, cluster {broker.cluster_id()}, {count(len(topics), 'topic')}"


def rights(properties: Mapping[str, str]) -> str:
    """Check that the user has the permissions on the broker that hosts and faces need."""
    from tabletopic_kernel.clients.kafka.checks import DESCRIBE, READ, WRITE, missing_rights
    from tabletopic_kernel.host.topics.settings_topic import read_desired

    broker = _open_broker(properties)
    enabled = sorted(set(map(kafka_topic, read_desired(broker)))) if SETTINGS_TOPIC in broker.topics() else []
    ours = dict.fromkeys((SETTINGS_TOPIC, CONTROL_TOPIC), (READ, WRITE, DESCRIBE))
    topics = ours | dict.fromkeys(enabled, (READ, DESCRIBE))
    if missing := missing_rights(broker, topics, {HOSTS_GROUP: (READ, DESCRIBE)}):
        lines = "; ".join(f"kafka-acls --bootstrap-server {broker.address} --add {line}" for line in missing)
        raise Failed(f"{count(len(missing), 'permission')} of the user missing on {broker.address}", lines)
    return "the user has the permissions that hosts need"


def registry(properties: Mapping[str, str]) -> str:
    from tabletopic_kernel.clients.registry.registry import Registry

    registry = Registry(properties)
    return f"{registry.url} responds, {count(len(registry.check()), 'subject')}"


def catalog(servers: Servers, name: str | None = None) -> str:
    """Open the catalog, count visible tables, and try a change to a database."""
    from tabletopic_kernel.clients.catalog.catalog import catalog_name, in_section
    from tabletopic_kernel.clients.storage.probe import open_impatient, try_changes, within_limit

    properties = servers.catalog_of(name)

    def check() -> str:
        catalog = open_impatient(properties)
        tables = _tables(catalog)
        try_changes(catalog)
        return f"{catalog_name(properties)} opens, {tables}"

    with in_section(name):
        return within_limit(check, at=properties.get("uri", ""))


def _tables(catalog: Catalog) -> str:
    """The number of tables visible to the user, as far as it can be counted within seconds."""
    from tabletopic_kernel.clients.catalog.catalog import reachable
    from tabletopic_kernel.clients.outside_errors.sorting import is_refused

    with reachable("the catalog"):
        namespaces = catalog.list_namespaces()
        tables, closed, until = 0, 0, time.monotonic() + _COUNTING_S
        for number, namespace in enumerate(namespaces):
            if time.monotonic() > until:
                return f"{tables} or more tables in {count(len(namespaces), 'namespace')}, {number} inspected"
            try:
                tables += len(catalog.list_tables(namespace))
            except Exception as error:
                if not is_refused(error):
                    raise
                closed += 1  # another user's, and irrelevant to table topics
    counts = f"{count(tables, 'table')} in {count(len(namespaces), 'namespace')}"
    return f"{counts}, {closed} of which the user may not list" if closed else counts


def storage(servers: Servers, name: str | None = None) -> str:
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
        raise Failed(
            f"[{section}] warehouse is not set",
            "set it to s3://bucket/folder, unless the databases of all table topics have a location",
            "warn",
        )
    if place is None:
        raise Failed(
            "the catalog chooses table locations, or vends the credentials",
            "nothing to do; `tabletopic enable` checks that it can write there",
            "warn",
        )
    within_limit(lambda: try_folder(place), system="the storage", at=place.location)
    return f"{place.location}: write, read, delete"


def _place(servers: Servers, name: str | None) -> Place | None:
    """The location of tables: the default, or an existing table's; None if only the catalog knows."""
    from pyiceberg.exceptions import NoSuchTableError

    from tabletopic_kernel.clients.catalog.catalog import reachable
    from tabletopic_kernel.clients.storage.probe import Place, default_place, open_impatient, table_place

    catalog = open_impatient(servers.catalog_of(name))
    if (place := default_place(catalog)) is not None:
        return place
    for identifier in _enabled_tables(servers, name):
        with suppress(NoSuchTableError), reachable("the catalog"):
            table = catalog.load_table(identifier)
            return Place(table.location(), table.io)
    with reachable("the catalog"):
        namespaces = catalog.list_namespaces()
    # What it would lend for a new table, which is not created.
    return table_place(catalog, (*namespaces[0], "tabletopic_probe")) if namespaces else None


def _enabled_tables(servers: Servers, catalog: str | None) -> list[tuple[str, ...]]:
    from tabletopic_kernel.host.topics.settings_topic import read_desired
    from tabletopic_kernel.model.settings.table_names import table_identifier

    if not servers.kafka:
        return []
    with suppress(TableTopicError):  # the broker has a check of its own
        broker = _open_broker(servers.kafka)
        if SETTINGS_TOPIC in broker.topics():
            desired_topics = read_desired(broker)
            return [
                table_identifier(topic, desired.settings)
                for topic, desired in desired_topics.items()
                if desired.settings.catalog == catalog
            ]
    return []


def spark(loaded: LoadedSettings, servers: Servers) -> str:
    """Check that executors reach what they need: by the settings, and on a cluster by running tasks."""
    from tabletopic_kernel.model.settings.cluster import out_of_reach
    from tabletopic_kernel.workbench.clients import Clients

    spark = loaded.settings.spark
    by_catalog = (out_of_reach(spark, servers.kafka, catalog) for catalog in servers.all_catalogs)
    if reasons := list(dict.fromkeys(chain.from_iterable(by_catalog))):
        raise Failed("; ".join(reasons), "table topics cannot run with these settings")
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
    tasks = f"{count(len(machines), 'task')} ran on {', '.join(sorted(set(machines)))}"
    return f"{spark.effective_master}: {tasks}, with this host's versions, and reached the warehouse"


def hosts(servers: Servers) -> str:
    from tabletopic_kernel.workbench.hosts import live_hosts

    if not (ids := live_hosts(_open_broker(servers.kafka))):
        raise Failed("no host runs", "start one with `tabletopic serve`", "warn")
    return ", ".join(ids)


def logs(servers: Servers) -> str:
    """Compare the last committed records of table topics with their logs, as far as seconds suffice."""
    from tabletopic_kernel.clients.storage.probe import open_impatient
    from tabletopic_kernel.host.ownership.cut_log import compare_with
    from tabletopic_kernel.host.topics.settings_topic import read_desired
    from tabletopic_kernel.model.settings.table_names import table_identifier
    from tabletopic_kernel.table.topic_table import TopicTable

    broker = _open_broker(servers.kafka)
    topics = read_desired(broker) if SETTINGS_TOPIC in broker.topics() else {}
    other, unproved, until = list[str](), list[str](), time.monotonic() + _COUNTING_S
    compared, partitions = 0, broker.partition_counts()
    for topic, desired in topics.items():
        if kafka_topic(topic) not in partitions:  # deleted, as `status` says: no log to compare
            continue
        name, identifier = desired.settings.catalog, table_identifier(topic, desired.settings)
        table = TopicTable.load(open_impatient(servers.catalog_of(name)), identifier, topic)
        if table and (ledger := table.ledger):
            comparison = compare_with(broker.facts(topic), ledger, broker)
            compared += 1
            other += [
                f"{topic} partition {p} from offset {at} or before" for p, at in comparison.other.items()
            ]
            unproved += [f"{topic} partition {p} at offset {at}" for p, at in comparison.gone.items()]
        if time.monotonic() > until:
            break
    if other:
        remedy = "the topic stops at its next start or batch; `tabletopic status` says how to continue"
        raise Failed(f"the log was cut after records were committed: {', '.join(other)}", remedy)
    if not compared:
        return "no table topic has committed records yet"
    trusted = f"; gone by retention or compaction, so trusted: {', '.join(unproved)}" if unproved else ""
    return f"they have what was committed{trusted}"
