"""Flink SQL with Iceberg's sink."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from benchmarks import wide
from benchmarks.peers.program import HEAP, QUIET, Program
from benchmarks.peers.site import NAMESPACE, Site, installed
from tabletopic_kernel.local import machine
from tabletopic_kernel.local.java import jvm

_OPENS: Final = (
    "java.base/java.lang", "java.base/java.util", "java.base/java.nio", "java.base/sun.nio.ch",
    "java.base/java.net", "java.base/java.io", "java.base/java.text", "java.base/java.time",
    "java.base/java.util.concurrent", "java.base/java.util.concurrent.atomic", "java.base/java.lang.reflect",
)  # fmt: skip


def flink(site: Site, folder: Path) -> Program:
    """Flink SQL: the topic into a table."""
    columns = _wide() if site.load.format == "wide" else _clicks(avro=site.load.avro_schema is not None)
    names = ", ".join(
        "CAST(event_time AS TIMESTAMP_LTZ(6))" if kind.startswith("TIMESTAMP") else name
        for name, kind in columns.items()
    )
    return job(site, folder, columns, names)


def job(site: Site, folder: Path, columns: Mapping[str, str], names: str) -> Program:
    """Flink SQL in one process: a mini cluster with a slot for each task, exactly-once by checkpoints.

    ``columns``: of the topic, by SQL's types; ``names``: what the table gets of them.
    """
    settings = {
        "execution.target": "local",
        "parallelism.default": str(site.parallelism),
        "execution.checkpointing.interval": f"{site.interval_s} s",
        "execution.checkpointing.dir": f"file://{folder}/checkpoints",
        "table.local-time-zone": "UTC",
        "table.dml-sync": "true",
        "pipeline.object-reuse": "true",
        "restart-strategy.type": "none",
    }
    latest = sorted(folder.glob("checkpoints/*/chk-*/_metadata"), key=lambda path: path.stat().st_mtime)
    if latest:
        settings["execution.state-recovery.path"] = f"file://{latest[-1].parent}"
    statements = [f"SET '{key}' = '{value}'" for key, value in settings.items()]
    statements += _statements(site, columns, names)
    machine.write_whole(folder / "job.sql", ";\n".join(statements) + ";\n")
    (folder / "conf").mkdir(exist_ok=True)
    shown = {key: settings[key] for key in ("parallelism.default", "execution.checkpointing.interval")}
    shown |= _tolerant(site)
    sizes = {
        "taskmanager.memory.task.heap.size": "1 gb", "taskmanager.memory.managed.size": "128 mb",
        "taskmanager.memory.network.min": "64 mb", "taskmanager.memory.network.max": "64 mb",
    }  # fmt: skip
    machine.write_whole(
        folder / "conf" / "config.yaml", "".join(f"{key}: {text}\n" for key, text in sizes.items())
    )
    opens = [f"--add-opens={module}=ALL-UNNAMED" for module in _OPENS]
    class_path = os.pathsep.join(map(str, installed("flink")))
    options = [f"-Xmx{HEAP}", "-XX:+UseG1GC", QUIET, *opens, "-cp", class_path]
    main = [
        "org.apache.flink.table.client.SqlClient",
        "-f",
        str(folder / "job.sql"),
        "-hist",
        str(folder / "history"),
    ]
    return Program(
        [str(jvm.java()), *options, *main],
        {"heap": HEAP, **shown},
        {"FLINK_CONF_DIR": str(folder / "conf")},
    )


def _tolerant(site: Site) -> dict[str, str]:
    """Its format for Avro has no such option."""
    return {"json.ignore-parse-errors": "true"} if site.tolerant and not site.load.avro_schema else {}


def _statements(site: Site, columns: Mapping[str, str], names: str) -> list[str]:
    avro = site.load.avro_schema
    kafka = {f"properties.{key}": value for key, value in site.java_kafka.items()}
    source = {
        "connector": "kafka",
        "topic": site.load.topic,
        "scan.startup.mode": "earliest-offset",
        "properties.group.id": "flink",
        "format": "avro-confluent" if avro else "json",
        **_tolerant(site),
        **kafka,
    }
    if avro:
        registry = site.bench.servers.registry
        source |= {"avro-confluent.url": registry["url"], "avro-confluent.schema": avro}
        if site.registry_login:
            source |= {
                "avro-confluent.basic-auth.credentials-source": "USER_INFO",
                "avro-confluent.basic-auth.user-info": site.registry_login,
            }
    declared = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    lake = {"type": "iceberg", **site.jdbc_catalog}
    return [
        f"CREATE TEMPORARY TABLE clicks ({declared}) WITH ({_options(source)})",
        f"CREATE CATALOG `{site.catalog_name}` WITH ({_options(lake)})",
        f"INSERT INTO `{site.catalog_name}`.`{NAMESPACE}`.`flink` SELECT {names} FROM clicks",
    ]


def _clicks(*, avro: bool) -> dict[str, str]:
    text = "STRING NOT NULL"
    return {
        "event_id": text,
        "event_time": "TIMESTAMP(3) NOT NULL" if avro else text,
        **dict.fromkeys(("user_id", "session_id", "event_type", "url"), text),
        **dict.fromkeys(("referrer", "product_id"), "STRING"),
        "price": "DECIMAL(9, 2)" if avro else "DOUBLE",
        "quantity": "INT",
        "device": f"ROW<`type` {text}, os {text}, browser {text}> NOT NULL",
        "country": text,
        "duration_ms": "INT NOT NULL",
    }


def _wide() -> dict[str, str]:
    kinds = {"long": "BIGINT", "double": "DOUBLE", "string": "STRING"}
    return {"event_id": "STRING NOT NULL", **{name: kinds[kind] for name, kind in wide.COLUMNS.items()}}


def _options(options: Mapping[str, str]) -> str:
    return ", ".join(f"'{key}' = '{text.replace(chr(39), chr(39) * 2)}'" for key, text in options.items())
