"""Athena: moto keeps workgroups and executions; an engine runs the statements, which moto does not.

A query's state, reason and scanned bytes, and its rows as pages of text with Athena's types, are inserted
into moto's responses.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from trino.exceptions import TrinoQueryError

from tests.athena.trino import Trino
from tests.servers.http_proxy import Answer, HttpProxy, Request

_SERVICE = "AmazonAthena."


class RefusedError(Exception):
    """The engine rejects a statement, in Athena's words."""


@dataclass
class Execution:
    """A statement as started by a client; the engine adds columns, rows and a way to cancel it."""

    asked: dict[str, Any]
    state: str = "RUNNING"
    reason: str = ""
    scanned: int = 0
    columns: list[dict[str, Any]] = field(default_factory=list)
    rows: list[list[str | None]] = field(default_factory=list)
    cancel: Callable[[], None] = lambda: None
    thread: threading.Thread | None = None

    @property
    def sql(self) -> str:
        """The statement."""
        return str(self.asked["QueryString"])


Engine = Callable[[Execution], None]


class Athena(HttpProxy):
    """Listens on a free port from ``with`` on; ``executions`` has what was started, in order.

    Args:
        target: moto's URL.
        engine: runs a statement to its end; raises RefusedError.
    """

    def __init__(self, target: str, engine: Engine) -> None:
        super().__init__(target, change=self._changed)
        self.executions: dict[str, Execution] = {}
        self.pages = 0  # of results, that were read
        self._engine = engine

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        for execution in self.executions.values():
            _stop(execution)

    @property
    def last(self) -> Execution:
        """The statement started last."""
        return list(self.executions.values())[-1]

    def _changed(self, request: Request, answer: Answer) -> Answer:
        change = {
            "StartQueryExecution": self._started,
            "GetQueryExecution": self._looked_at,
            "GetQueryResults": self._read,
            "StopQueryExecution": self._stopped,
        }.get(request.headers.get("X-Amz-Target", "").removeprefix(_SERVICE))
        if change is None or answer.status != 200:
            return answer
        asked, told = json.loads(request.body), json.loads(answer.body)
        return Answer(200, json.dumps(change(asked, told)).encode(), answer.headers)

    def _started(self, asked: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
        made = Execution(asked)
        self.executions[told["QueryExecutionId"]] = made
        made.thread = threading.Thread(target=self._run, args=(made,), name="athena")
        made.thread.start()
        return told

    def _run(self, execution: Execution) -> None:
        state = "SUCCEEDED"
        try:
            self._engine(execution)
        except RefusedError as error:
            state, execution.reason = "FAILED", str(error)
        if execution.state == "RUNNING":
            execution.state = state

    def _looked_at(self, asked: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
        execution, shown = self.executions[asked["QueryExecutionId"]], told["QueryExecution"]
        shown["Status"] |= {"State": execution.state, "StateChangeReason": execution.reason}
        shown["Statistics"]["DataScannedInBytes"] = execution.scanned
        return told

    def _read(self, asked: dict[str, Any], _: dict[str, Any]) -> dict[str, Any]:
        self.pages += 1
        execution = self.executions[asked["QueryExecutionId"]]
        lines = [[column["Name"] for column in execution.columns], *execution.rows]
        start = int(asked.get("NextToken", 0))
        end = start + asked["MaxResults"]
        rows = [
            {"Data": [{} if text is None else {"VarCharValue": text} for text in line]}
            for line in lines[start:end]
        ]
        page: dict[str, Any] = {
            "ResultSet": {"Rows": rows, "ResultSetMetadata": {"ColumnInfo": execution.columns}}
        }
        return page | ({"NextToken": str(end)} if end < len(lines) else {})

    def _stopped(self, asked: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
        _stop(self.executions[asked["QueryExecutionId"]])
        return told


def _stop(execution: Execution) -> None:
    if execution.state == "RUNNING":
        execution.state, execution.reason = "CANCELLED", "Query cancelled by user"
        execution.cancel()
    if execution.thread is not None:
        execution.thread.join()


def column(name: str, kind: str, precision: int = 0, scale: int = 0) -> dict[str, Any]:
    """Athena's description of a column."""
    return {
        "CatalogName": "hive", "SchemaName": "", "TableName": "", "Name": name, "Label": name, "Type": kind,
        "Precision": precision, "Scale": scale, "Nullable": "UNKNOWN", "CaseSensitive": kind == "varchar",
    }  # fmt: skip


# -- an engine


def answered_by(trino: Trino) -> Engine:
    """The engine behind Athena; a data catalog is Trino's catalog with the same name."""

    def run(execution: Execution) -> None:
        context = execution.asked["QueryExecutionContext"]
        with trino.connection(context["Catalog"].lower(), context["Database"]) as connection:
            cursor = connection.cursor()
            execution.cancel = cursor.cancel
            try:
                cursor.execute(execution.sql)
                rows = cursor.fetchall()
            except TrinoQueryError as error:
                raise RefusedError(f"{error.error_name}: {error.message}") from error
            described = cursor.description or []
            signatures = [one["typeSignature"] for one in cursor._query.columns or []]
            execution.scanned = (cursor.stats or {}).get("physicalInputBytes", 0)
        execution.columns = [_column(one[0], one[1]) for one in described]
        execution.rows = [
            [_text(value, kind) for value, kind in zip(row, signatures, strict=True)] for row in rows
        ]

    return run


def _column(name: str, kind: str) -> dict[str, Any]:
    bare = re.sub(r"\([^)]*\)", "", kind) if kind.startswith("time") else kind.partition("(")[0]
    digits = [int(number) for number in re.findall(r"\d+", kind)] if bare == "decimal" else [0, 0]
    return column(name, {"real": "float"}.get(bare, bare), *digits)


def _text(value: Any, signature: dict[str, Any]) -> str | None:
    """A value of Trino's JSON in Athena's notation."""
    kind = signature["rawType"]
    if value is None:
        return None
    if kind == "varbinary":
        return base64.b64decode(value).hex(" ")
    if kind in ("array", "map", "row"):
        return _nested(value, kind, [one["value"] for one in signature["arguments"]])
    return str(value).lower() if kind == "boolean" else str(value)


def _nested(value: Any, kind: str, below: list[Any]) -> str:
    if kind == "array":
        return f"[{', '.join(_inner(one, below[0]) for one in value)}]"
    if kind == "map":
        pairs = (f"{_inner(key, below[0])}={_inner(one, below[1])}" for key, one in value.items())
        return f"{{{', '.join(pairs)}}}"
    named = (
        f"{field['fieldName']['name']}={_inner(one, field['typeSignature'])}"
        for one, field in zip(value, below, strict=True)
    )
    return f"{{{', '.join(named)}}}"


def _inner(value: Any, signature: dict[str, Any]) -> str:
    return _text(value, signature) or ("null" if value is None else "")
