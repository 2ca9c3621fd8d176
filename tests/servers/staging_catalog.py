"""As much of Iceberg's REST interface as staging a table takes, with keys that come with it."""

from __future__ import annotations

import http.server
import json
import threading
from typing import Any, Self

from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER


class StagingCatalog:
    """Listens from ``with`` on; ``made`` are tables that were made and not staged."""

    def __init__(self, location: str, *, stages: bool = True) -> None:
        self.made: list[str] = []
        catalog = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def _give(self, status: int, answer: dict[str, Any]) -> None:
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self) -> None:
                if self.path.startswith("/v1/config"):
                    self._give(200, {"defaults": {}, "overrides": {}})
                else:
                    error = {"message": "no such table", "type": "NoSuchTableException", "code": 404}
                    self._give(404, {"error": error})

            def do_POST(self) -> None:
                wish = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if not wish.get("stage-create"):
                    catalog.made.append(wish["name"])
                if not stages:
                    error = {"message": "cannot stage", "type": "BadRequestException", "code": 400}
                    self._give(400, {"error": error})
                    return
                schema = Schema.model_validate(wish["schema"])
                metadata = new_table_metadata(
                    schema, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, location
                )
                lent = {"s3.access-key-id": "lent", "s3.secret-access-key": "lent"}
                self._give(200, {"metadata": json.loads(metadata.model_dump_json()), "config": lent})

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
