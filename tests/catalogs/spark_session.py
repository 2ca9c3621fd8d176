"""Spark as in `tabletopic query --engine spark`, in a separate process: a JVM has one class path.

Reads one JSON list per line (the [catalog] section, a namespace, a statement), responds with a line each.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tabletopic_kernel.clients.catalog.engine_properties import spark_catalog
from tabletopic_kernel.clients.spark.session import give_keys
from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.query.spark import SparkLake
from tabletopic_kernel.workbench.clients import Clients
from tabletopic_kernel.workbench.config.servers import Servers

# Nobody asks for this one: a session that may need every jar fetches them by itself.
_ALL_JARS = {
    "name": "unused", "uri": "postgresql://127.0.0.1/none", "client.region": "none", "gcs.project-id": "none",
}  # fmt: skip


def main(folder: Path) -> None:
    """Respond until the input ends."""
    session = Clients(Settings(), Servers({}, {}, _ALL_JARS, folder)).spark()
    for line in sys.stdin:
        catalog, namespace, sql = json.loads(line)
        for key, text in spark_catalog(catalog).items():
            if key.startswith("spark.sql.catalog."):
                session.conf.set(key, text)
        give_keys(session, catalog)
        try:
            rows = SparkLake(session, catalog["name"], namespace).query(sql).rows.to_pylist()
            answer = {"rows": rows}
        except TableTopicError as error:
            answer = {"error": str(error)}
        print(f"answer {json.dumps(answer, default=str)}", flush=True)  # noqa: T201
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
