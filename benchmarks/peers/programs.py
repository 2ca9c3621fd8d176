"""The compared programs, each as a good user would run it: its command, its files, its settings."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.flink import flink
from benchmarks.peers.kafka_connect import connect_sink
from benchmarks.peers.program import HEAP, Program
from benchmarks.peers.site import NAMESPACE, Site, installed
from tabletopic_kernel.local import machine
from tabletopic_kernel.local.java import jvm

REJECTS: Final = "rejects"  # Spark's table of what gives no row
_JSON_COLUMNS: Final = (
    "event_id string, event_time string, user_id string, session_id string, event_type string, url string, "
    "referrer string, product_id string, price double, quantity int, "
    "device struct<type: string, os: string, browser: string>, country string, duration_ms int"
)


def ours(site: Site, folder: Path) -> Program:
    """A host of this product, as `tabletopic serve` starts it."""
    command = [sys.executable, "-m", "tabletopic_kernel.faces.cli", "serve", "--quiet"]
    return Program(
        command,
        {"commit_interval_ms": f"{site.interval_s}s"},
        {"TABLETOPIC_STATE_DIR": str(site.bench.servers.state_dir)},
    )


def spark(site: Site, folder: Path, columns: str = _JSON_COLUMNS, key: str = "") -> Program:
    """Structured Streaming into Iceberg's sink; Spark's own Avro, behind the schema id's five bytes.

    ``columns``: of JSON, as Spark writes them; with a ``key``, each batch is merged.
    """
    kafka = {f"kafka.{key}": value for key, value in site.java_kafka.items()}
    extra = [*installed("spark"), *jvm.spark_jars()]
    conf = {
        "spark.master": f"local[{site.parallelism}]",
        "spark.driver.memory": HEAP,
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.jars": ",".join(map(str, extra)),
        **site.spark_conf,
        **({"spark.sql.shuffle.partitions": str(2 * site.parallelism)} if key else {}),
    }
    source = {"subscribe": site.load.topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "1000000"}
    job: dict[str, Any] = {
        "conf": conf,
        "source": source | kafka,
        "schema": site.load.avro_schema,
        "columns": columns,
        "key": key,
        "fanout": bool(site.load.partition_by),  # else it refuses rows that are not in the partitions' order
        "rejects": f"{site.catalog_name}.{NAMESPACE}.{REJECTS}" if site.tolerant else "",
        "table": f"{site.catalog_name}.{NAMESPACE}.spark",
        "interval": f"{site.interval_s} seconds",
        "checkpoint": str(folder / "checkpoint"),
    }
    settings = {key: conf[key] for key in ("spark.master", "spark.driver.memory")}
    settings |= {"maxOffsetsPerTrigger": source["maxOffsetsPerTrigger"], "trigger": job["interval"]}
    settings |= {name: conf[name] for name in ("spark.sql.shuffle.partitions",) if name in conf}
    settings |= {"fanout-enabled": "true"} if job["fanout"] else {}
    settings |= {"mode": "PERMISSIVE, a second query for what gives no row"} if site.tolerant else {}
    return _script("spark_job", job, folder, settings, {"JAVA_HOME": str(jvm.spark_java_home(folder))})


def loop(site: Site, folder: Path) -> Program:
    """confluent-kafka and PyIceberg in a loop: consume, append, commit the offsets."""
    servers = site.bench.servers
    job = {
        "kafka": {**servers.kafka, "group.id": "loop", "auto.offset.reset": "earliest"},
        "catalog": servers.catalog,
        "topic": site.load.topic,
        "schema": site.load.avro_schema,
        "table": f"{NAMESPACE}.loop",
        "interval_s": site.interval_s,
    }
    return _script("loop_job", job, folder, {"enable.auto.commit": "false"}, {})


def _script(
    name: str, job: object, folder: Path, settings: Mapping[str, str], variables: Mapping[str, str]
) -> Program:
    machine.write_whole(folder / "job.json", json.dumps(job))
    script = str(Path(__file__).with_name(f"{name}.py"))
    return Program([sys.executable, script, str(folder / "job.json")], settings, variables)


PROGRAMS: Final[Mapping[str, Callable[[Site, Path], Program]]] = {
    "ours": ours,
    "spark": spark,
    "connect": connect_sink,
    "flink": flink,
    "loop": loop,
}
