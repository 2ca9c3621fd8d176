"""The part of Iceberg's REST interface that staging a table needs, with keys vended along with it."""

from __future__ import annotations

import json
from typing import Any

from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from tests.servers.http_server import Handler, HttpServer


class StagingCatalog(HttpServer):
    """Listens from ``with`` on; ``made`` are tables that were created instead of staged.

    ``stages``: False refuses it, a text only as long as keys are asked for.
    """

    def __init__(self, location: str, *, stages: bool | str = True) -> None:
        self.made: list[str] = []
        catalog = self

        class Stage(Handler):
            def _give(self, status: int, answer: dict[str, Any]) -> None:
                self.give(status, json.dumps(answer).encode())

            def _get(self) -> None:
                if self.path.startswith("/v1/config"):
                    self._give(200, {"defaults": {}, "overrides": {}})
                elif self.path.partition("?")[0] == "/v1/namespaces":
                    self._give(200, {"namespaces": [["default"]]})
                elif self.path.partition("?")[0] == "/v1/namespaces/default/tables":
                    self._give(200, {"identifiers": []})
                else:
                    error = {"message": "no such table", "type": "NoSuchTableException", "code": 404}
                    self._give(404, {"error": error})

            def _post(self) -> None:
                wish = json.loads(self.body())
                if not wish.get("stage-create"):
                    catalog.made.append(wish["name"])
                asked = bool(self.headers.get("X-Iceberg-Access-Delegation"))
                if not stages or (asked and stages is not True):
                    error = {"message": stages or "cannot stage", "type": "BadRequestException", "code": 400}
                    self._give(400, {"error": error})
                    return
                schema = Schema.model_validate(wish["schema"])
                metadata = new_table_metadata(
                    schema, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, location
                )
                lent = {"s3.access-key-id": "lent", "s3.secret-access-key": "lent"}
                self._give(200, {"metadata": json.loads(metadata.model_dump_json()), "config": lent})

            do_GET, do_POST = _get, _post  # noqa: N815 - http.server's names

        super().__init__(Stage)
