"""Operations on servers and hosts, and those that are programs: up, down, serve, dashboard, demo.

Longer than other modules, as it is a table: an entry is data, with what it needs beside it.
"""

# Imports are deferred: `tabletopic status` must respond at once.
# ruff: noqa: PLC0415

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tabletopic_kernel.faces.operations import rest_bodies
from tabletopic_kernel.faces.operations.operation import (
    CLI,
    JSON,
    MAGIC,
    REST,
    Argument,
    Kind,
    Message,
    Operation,
    Route,
)

if TYPE_CHECKING:
    from tabletopic_kernel._datasets.clickstream.avro import SchemaVersion
    from tabletopic_kernel._datasets.clickstream.tallies import Tallies
    from tabletopic_kernel.workbench.workbench import Workbench

_SERVERS = "Servers and settings"
_TRY = "Try it out"


def _sample(
    workbench: Workbench, topic: str, count: int, schema: SchemaVersion = "v1", **options: Any
) -> Tallies:
    from tabletopic_kernel._datasets.clickstream.produce import produce

    kafka, registry = workbench.servers.kafka, workbench.servers.registry
    return produce(kafka, registry, topic, count, schema_version=schema, **options)


SERVERS = (
    Operation(
        "init",
        "Ask for your servers, check each, and write tabletopic.toml",
        None,
        (
            Argument(
                "file",
                "File to write",
                Kind.FILE,
                metavar="FILE",
                faces=CLI,
                default_text="tabletopic.toml in this folder",
            ),
            Argument("force", "Overwrite an existing file", Kind.FLAG, False, ("--force", "-f"), faces=CLI),
            Argument("catalog", "Add another catalog to the existing file", metavar="NAME", faces=CLI),
        ),
        changes=True,
        panel=_SERVERS,
        details="""\
Kafka, schema registry, Iceberg catalog and storage: each is yours, or the one
that `up` starts. Passwords go into the file, which only you can read, or into
environment variables, whose names it prints. --catalog only asks for one more
catalog, and adds it to the file as [catalogs.NAME].""",
        example="tabletopic init",
    ),
    Operation(
        "up",
        "Start the local stack: Kafka, a schema registry and an Iceberg catalog",
        None,
        (
            Argument(
                "detach",
                "Return once the servers are ready; `down` stops them",
                Kind.FLAG,
                False,
                ("--detach", "-d"),
                faces=CLI,
            ),
            Argument(
                "kafka_port",
                "Port of the broker",
                Kind.NUMBER,
                metavar="PORT",
                least=1,
                most=65_535,
                faces=CLI,
                default_text="a free port, kept for later starts",
            ),
            Argument(
                "registry_port",
                "Port of the registry",
                Kind.NUMBER,
                metavar="PORT",
                least=1,
                most=65_535,
                faces=CLI,
                default_text="a free port, kept for later starts",
            ),
            Argument(
                "fork",
                "Make a copied state folder independent of its original",
                Kind.FLAG,
                False,
                faces=CLI,
            ),
            JSON,
        ),
        changes=True,
        returns="`bootstrap_servers`, `registry_url`, `catalog` (`name`, `properties`), each null where "
        "the settings name your own; `state_dir`",
        panel=_SERVERS,
        details="""\
Starts the broker, registry and catalog, except those that the settings name.
The first start downloads about 270 MB of Java libraries. Without --detach the
servers run until Ctrl-C, or until this terminal is closed.
A state folder that was moved gets its tables' locations adapted. A copy of one
is refused without --fork, as its catalog names the original's tables.""",
        example="tabletopic up --detach",
        magic="%topic up",
        button="Start the local stack",
        route=Route(
            "post",
            "stack",
            202,
            message="the local stack is starting; it keeps running when Jupyter ends; stop it with "
            "`tabletopic down` or DELETE",
            notes="Broker, registry and catalog. The overview lists the steps.",
        ),
    ),
    Operation(
        "down",
        "Stop the local stack and background hosts; the data stays",
        None,
        (JSON,),
        changes=True,
        returns="`servers`, `hosts`: what was stopped",
        panel=_SERVERS,
        details="""\
Background hosts are those of `serve --detach`, and those that a Jupyter server
or a notebook started as processes.""",
        example="tabletopic down",
        magic="%topic down",
        button="Stop the Local Stack",
        route=Route(
            "delete",
            "stack",
            204,
            notes="The headless host, and hosts of `serve --detach`, stop first, so that they can commit.",
        ),
    ),
    Operation(
        "info",
        "Show the addresses for other programs: brokers, registry, catalog, live hosts",
        None,
        (JSON,),
        panel=_SERVERS,
        details="""\
With --json: bootstrap_servers, registry_url, kafka (properties of
librdkafka), registry (of the registry's client), catalog (name, and the
properties for PyIceberg's load_catalog), catalogs (a list of the others),
state_dir, hosts. These properties include passwords, which the text output
hides.""",
        example="tabletopic info --json",
    ),
    Operation(
        "config",
        "Show the settings in force and where each comes from; secrets are hidden",
        None,
        (JSON,),
        returns="`file`, and `settings`: list of `{key, value, origin}`, secrets hidden",
        panel=_SERVERS,
        details="""\
A setting comes from tabletopic.toml, an environment variable such as
TABLETOPIC_KAFKA__BOOTSTRAP__SERVERS, or an option. Later sources win.""",
        example="tabletopic config",
    ),
    Operation(
        "trust",
        "Accept the properties in tabletopic.toml that can run code",
        None,
        (JSON,),
        changes=True,
        returns="`file`, and `properties`: the accepted ones",
        panel=_SERVERS,
        details="""\
Properties such as spark.jars or plugin.library.paths decide which code runs.
In a file that was found, and not named by --config or TABLETOPIC_CONFIG, they
count only once you have accepted them, and again after each change of them.""",
        example="tabletopic trust",
    ),
    Operation(
        "doctor",
        "Check everything this program needs, and explain what to do if a check fails",
        None,
        (JSON,),
        returns="list of `{name, status, detail, remedy}`; `status` is `ok`, `warn` or `fail`",
        panel=_SERVERS,
        details="Works with or without servers; the exit code is 1 if a check fails.",
        example="tabletopic doctor",
    ),
    Operation(
        "pack",
        "Pack this program and its packages into a file that executors of a Spark cluster run",
        None,
        (
            Argument(
                "file",
                "File to write",
                Kind.FILE,
                positional=True,
                metavar="FILE",
                faces=CLI,
                default_text="executors.pex in this folder",
            ),
            Argument("force", "Overwrite an existing file", Kind.FLAG, False, ("--force", "-f"), faces=CLI),
            Argument(
                "uncompressed",
                "Do not compress: about three times as large, but faster to make",
                Kind.FLAG,
                False,
                faces=CLI,
            ),
            JSON,
        ),
        changes=True,
        returns="`file`, `bytes`, `packages` (a count), `seconds`, `python`, `spark_conf`",
        panel=_SERVERS,
        details="""\
It prints the lines for tabletopic.toml that ship the file to executors. Their
machines must have the same system and processor, and the same minor version
of Python on the path. Needs the extra `pack` and a virtual environment, but
no network. Packages that executors do not need (JupyterLab, the dashboard) or
have themselves (pyspark) are left out.""",
        example="tabletopic pack executors.pex",
    ),
)

SERVE = Operation(
    "serve",
    "Run the table topics: read, stage and commit until Ctrl-C or SIGTERM",
    None,
    (
        Argument("quiet", "Print nothing", Kind.FLAG, False, ("--quiet", "-q"), faces=CLI),
        Argument(
            "detach",
            "Run in the background; `down` stops it",
            Kind.FLAG,
            False,
            ("--detach", "-d"),
            faces=CLI,
        ),
        Argument("mark", faces=CLI, hidden=True),
        Argument("with_parent", "Stop when this process ends", Kind.NUMBER, metavar="PID", faces=CLI),
        Argument(
            "metrics_port",
            "Serve /metrics, /healthz and /readyz on this port; 0 picks a free one",
            Kind.NUMBER,
            metavar="PORT",
            least=0,
            most=65_535,
            faces=CLI,
        ),
        Argument(
            "metrics_host",
            "Address of the metrics port",
            default="127.0.0.1",
            metavar="ADDRESS",
            faces=CLI,
        ),
        Argument(
            "log_format",
            "Format of standard output: text, or logs as JSON",
            default="text",
            choices=("text", "json"),
            faces=CLI,
        ),
    ),
    changes=True,
    panel="Table topics",
    details="""\
Several hosts share the topics and fail over. On exit, a host commits what is
staged. Killing it loses nothing.""",
    example="tabletopic serve",
    magic="%topic host start",
    button="Start a host",
    route=Route(
        "post",
        "host",
        202,
        message="the host is starting; it ends with this Jupyter server",
        notes="The headless host of this Jupyter server. It outlives kernels and ends with the server.",
    ),
)

DASHBOARD = Operation(
    "dashboard",
    "Serve the live dashboard to this machine's browser until Ctrl-C",
    None,
    (
        Argument(
            "port", "Port on 127.0.0.1; 0 picks a free one", Kind.NUMBER, 0, least=0, most=65_535, faces=CLI
        ),
        Argument(
            "topic",
            "The topic to show; without it, all topics",
            positional=True,
            metavar="TOPIC",
            names="topics",
            faces=MAGIC,
        ),
        Argument("topic", "The topic to show; without it, all topics", faces=REST),
        Argument("theme", "Colour theme", default="default", choices=("default", "dark"), faces=MAGIC),
        Argument("theme", "Colour theme", choices=("default", "dark"), faces=REST),
        Argument("height", "Height of the frame", Kind.NUMBER, 800, metavar="PIXELS", least=1, faces=MAGIC),
    ),
    panel="Watching",
    details="In JupyterLab, open it from the sidebar, or with %dashboard in a notebook.",
    example="tabletopic dashboard --port 8050",
    magic="%dashboard",
    button="Open Dashboard",
    route=Route("get", "dashboard", 302, notes="Redirects to the page below `tabletopic/dashboard/`."),
)

PROGRAMS = (
    Operation(
        "sample",
        "Send clicks of a fictional shop to a topic, as Avro, and count them",
        _sample,
        (
            Argument(
                "topic",
                "Topic to send to; created if it is missing",
                default="clicks",
                positional=True,
                metavar="[TOPIC]",
                default_text="clicks",
            ),
            # The pattern is Kafka's own rule for names.
            Argument(
                "topic", "Topic to send to", default="clicks", pattern=r"^[A-Za-z0-9._-]{1,249}$", faces=REST
            ),
            Argument("to", options=("--topic",), faces=CLI, hidden=True),  # of `produce-clickstream`
            Argument("count", "How many events", Kind.NUMBER, 10_000, least=0),
            # More is a load test, for which the command line offers more.
            Argument("count", "How many events", Kind.NUMBER, 5_000, least=1, most=100_000, faces=REST),
            Argument(
                "rate",
                "Events per second",
                Kind.DECIMAL,
                metavar="PER_SECOND",
                faces=CLI,
                default_text="as fast as possible",
            ),
            Argument("schema", "Version of the events' schema", default="v1", choices=("v1", "v2")),
            Argument("switch_at", "Switch to schema v2 after N events", Kind.NUMBER, metavar="N", faces=CLI),
            Argument(
                "seed",
                "Seed of the generator: the same seed sends the same events",
                Kind.NUMBER,
                7,
            ),
            Argument("partitions", "Partitions of a new topic", Kind.NUMBER, 4, least=1, faces=CLI),
            Argument("as_json", "Print all tallies as JSON", Kind.FLAG, False, ("--json",), faces=CLI),
        ),
        changes=True,
        render=lambda tallies, values: [
            Message("sent {n} events to {topic}", {"n": f"{tallies.events:,}", "topic": values["topic"]})
        ],
        returns="exact counts: `events`, `events_by_version`, `views_by_url`, `sessions_by_step`, "
        "`revenue_cents_by_hour`, `devices` (device → `events`, `users`)",
        panel=_TRY,
        details="The tallies are exact: queries of the table must return the same figures.",
        example="tabletopic sample clicks --count 100000 --rate 500",
        magic="%topic sample",
        button="Send Sample Events",
        route=Route("post", "sample", 202, message="sending {count:,} events to {topic}"),
    ),
    Operation(
        "demo",
        "Run the whole path once, and prove that no row is lost or duplicated",
        None,
        (
            Argument("events", "How many events to send", Kind.NUMBER, 100_000, least=1, faces=CLI),
            Argument(
                "keep",
                "Keep the demo's folder, for experiments",
                Kind.FLAG,
                False,
                ("--keep/--no-keep",),
                faces=CLI,
            ),
            Argument("as_json", "Print a summary as JSON", Kind.FLAG, False, ("--json",), faces=CLI),
        ),
        returns="`ok`; `answers`, `checks` and `partitions`, each with `ok`; `events`, `sent`, `story`, "
        "`commits`, `schemas`, `seconds` (by scene), `total_s`, `peak_memory_bytes`, `peak_rss_bytes`, "
        "`ended_by_force`",
        panel=_TRY,
        details="""\
The demo starts its own servers in a temporary folder (or in that of
--state-dir), and stops and removes everything at the end.""",
        example="tabletopic demo",
    ),
)

# Operations that only some faces have.
OTHERS = (
    Operation(
        "host",
        "Show, start or stop the host in this kernel",
        None,
        (
            Argument(
                "action", "Without it, show the host", positional=True, choices=("start", "stop"), faces=MAGIC
            ),
            Argument(
                "all",
                "Also stop background hosts of this machine, as `%topic down` does",
                Kind.FLAG,
                False,
                faces=MAGIC,
            ),
        ),
        changes=True,
        magic="%topic host",
    ),
    Operation(
        "stop-host",
        "Stop the headless host of this Jupyter server",
        None,
        changes=True,
        route=Route(
            "delete",
            "host",
            204,
            notes="Staged files are committed first. Hosts started elsewhere are not touched.",
        ),
    ),
    Operation(
        "overview",
        "Servers, host and all topics at a glance",
        None,
        route=Route(
            "get",
            "overview",
            answer=lambda: rest_bodies.Overview,
            notes="Cheap to poll: a thread refreshes it while clients poll. Does not count as activity.",
        ),
    ),
    Operation(
        "settings-schema",
        "JSON Schema of a topic's settings",
        None,
        route=Route(
            "get",
            "settings-schema",
            answer=lambda: dict[str, Any],
            notes="With defaults and descriptions, for a form. Durations and sizes may also be text such as "
            '`"5s"` and `"128MB"`.',
        ),
    ),
    Operation(
        "quickstart",
        "Path of the quickstart notebook",
        None,
        changes=True,
        route=Route(
            "post",
            "quickstart",
            answer=lambda: rest_bodies.Quickstart,
            notes="Below this server's root folder; the notebook is created if it is missing.",
        ),
    ),
)
