"""A Spark session that loads what a table topic needs, for ``class_archive``: run as a separate program."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabletopic_kernel.clients.spark.launch import java_option
from tabletopic_kernel.clients.spark.session import SparkPlace, start_spark, warm_up
from tabletopic_kernel.local.java import jvm
from tabletopic_kernel.model.settings.sections import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LIMIT_S = 1_200
# No broker listens there, and no timeout is waited for.
_NOWHERE = {
    "bootstrap.servers": "127.0.0.1:1",
    "group.id": "training",
    "default.api.timeout.ms": "500",
    "request.timeout.ms": "400",
}


def main(folder: Path, base: Path, archive: Path) -> None:
    """Use Spark for a while below ``folder``; the JVM writes ``archive`` as it ends."""
    java_home = jvm.spark_java_home(folder, base)
    conf = {"spark.driver.extraJavaOptions": java_option(f"-XX:ArchiveClassesAtExit={archive}")}
    place = SparkPlace(str(java_home), tuple(map(str, jvm.spark_jars())), folder / "logs")
    catalog = {
        "name": "lake",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"file://{folder}/warehouse",
    }
    session = start_spark(SparkSettings(master="local[2]", conf=conf), place, catalog)
    gateway: Any = session.sparkContext._gateway
    warm_up(session, limit_s=_LIMIT_S)
    with contextlib.suppress(Exception):  # it cannot connect: the purpose was to load the classes
        _read_kafka(session)
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_LIMIT_S)


def _read_kafka(session: SparkSession) -> None:
    java: Any = session.sparkContext._jvm
    properties = java.java.util.Properties()
    for key, value in _NOWHERE.items():
        properties.setProperty(key, value)
    bytes_of = java.org.apache.kafka.common.serialization.ByteArrayDeserializer
    consumer = java.org.apache.kafka.clients.consumer.KafkaConsumer(properties, bytes_of(), bytes_of())
    consumer.poll(java.java.time.Duration.ofMillis(300))
    consumer.close()
    options = {f"kafka.{key}": value for key, value in _NOWHERE.items() if key != "group.id"}
    source = session.read.format("kafka").options(**options)
    source.option("assign", '{"t":[0]}').option("fetchOffset.numRetries", "0").load().collect()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
