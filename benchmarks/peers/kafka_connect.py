"""Iceberg's sink on Kafka Connect."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from benchmarks.peers.program import HEAP, QUIET, Program
from benchmarks.peers.site import NAMESPACE, Site, installed
from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.demo.change_data import connect
from tabletopic_kernel.local import machine
from tabletopic_kernel.local.java import jvm

_CONTROL: Final = "control-iceberg"
_BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
_JSON: Final = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
REJECTS: Final = "rejects"  # topic of the records that cannot be decoded
_TOLERANT: Final = {
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": REJECTS,
    "errors.deadletterqueue.topic.replication.factor": "1",
}


def connect_sink(site: Site, folder: Path) -> Program:
    """One worker, ParallelGC; it needs its control topic before it starts."""
    debezium = jvm.install(wanted=connect.JARS).folder
    Broker(site.bench.servers.kafka).ensure_topic(_CONTROL, 1, {})
    plugins = {"sink": installed("sink"), "avro": list((debezium / "avro").iterdir())}
    for name, files in plugins.items():
        (folder / "plugins" / name).mkdir(parents=True, exist_ok=True)
        for file in files:
            if not (link := folder / "plugins" / name / file.name).exists():
                link.symlink_to(file)
    settings = {
        "tasks.max": str(site.parallelism),
        "iceberg.control.commit.interval-ms": str(1000 * site.interval_s),
        "consumer.override.max.poll.records": "5000",
        **(_TOLERANT if site.tolerant else {}),
    }
    _properties(folder / "sink.properties", _sink(site) | settings)
    _properties(folder / "worker.properties", _worker(site, folder))
    options = [f"-Xmx{HEAP}", "-XX:+UseParallelGC", QUIET, "-cp", str(debezium / "connect" / "*")]
    main = "org.apache.kafka.connect.cli.ConnectStandalone"
    properties = [str(folder / f"{name}.properties") for name in ("worker", "sink")]
    command = [str(jvm.java()), *options, main, *properties]
    return Program(command, {"heap": HEAP, "GC": "ParallelGC", **settings})


def _sink(site: Site) -> dict[str, str]:
    values = connect.avro(site.bench.servers.registry) if site.load.avro_schema else _JSON
    return {
        "name": "sink",
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "topics": site.load.topic,
        "key.converter": _BYTES,
        **{key: text for key, text in values.items() if key.startswith("value.")},
        "iceberg.tables": f"{NAMESPACE}.connect",
        "iceberg.catalog": site.catalog_name,
        "iceberg.control.topic": _CONTROL,
        **{f"iceberg.catalog.{key}": text for key, text in site.jdbc_catalog.items()},
        **{f"iceberg.kafka.{key}": text for key, text in site.java_kafka.items()},
    }


def _worker(site: Site, folder: Path) -> dict[str, str]:
    clients = "", "producer.", "consumer.", "admin."
    return {
        **{f"{client}{key}": text for client in clients for key, text in site.java_kafka.items()},
        "key.converter": _BYTES,
        "value.converter": _BYTES,
        "plugin.path": str(folder / "plugins"),
        "listeners": f"http://{machine.LOOPBACK}:{machine.free_port(set())}",
        "offset.storage.file.filename": str(folder / "offsets"),
        "connector.client.config.override.policy": "All",
    }


def _properties(file: Path, properties: Mapping[str, str]) -> None:
    lines = (f"{key}={text}\n".replace("\\", "\\\\") for key, text in properties.items())
    machine.write_whole(file, "".join(lines))
