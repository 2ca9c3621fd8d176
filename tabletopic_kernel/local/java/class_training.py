"""A Spark session that loads what a table topic needs, for ``class_archive``: run as a separate program."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tabletopic_kernel.clients.spark.launch import java_option
from tabletopic_kernel.clients.spark.session import SparkPlace, start_spark
from tabletopic_kernel.clients.spark.warm_up import warm_up_source, warm_up_workers
from tabletopic_kernel.local.java import jvm
from tabletopic_kernel.model.settings.cluster import SparkSettings

_LIMIT_S = 1_200
# No broker listens there, and no timeout is waited for.
_NOWHERE = {
    "kafka.bootstrap.servers": "127.0.0.1:1",
    "kafka.default.api.timeout.ms": "500",
    "kafka.request.timeout.ms": "400",
    "fetchOffset.numRetries": "0",
    "subscribe": "t",
    "startingOffsets": "earliest",
}


def main(folder: Path, base: Path, archive: Path) -> None:
    """Use Spark for a while below ``folder``; the JVM writes ``archive`` as it ends."""
    java_home = jvm.spark_java_home(folder, base)
    conf = {"spark.driver.extraJavaOptions": java_option(f"-XX:ArchiveClassesAtExit={archive}")}
    place = SparkPlace(str(java_home), tuple(map(str, jvm.spark_jars())), folder / "logs", is_host=True)
    catalog = {
        "name": "lake",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"file://{folder}/warehouse",
    }
    session = start_spark(SparkSettings(master="local[2]", conf=conf), place, catalog)
    gateway: Any = session.sparkContext._gateway
    warm_up_workers(session)
    warm_up_source(session, _NOWHERE)
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_LIMIT_S)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
