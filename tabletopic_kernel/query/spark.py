"""SQL over the catalog's tables with Spark: queries that DuckDB cannot run, and everything that writes."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tabletopic_kernel.clients.catalog.catalog import in_section
from tabletopic_kernel.clients.catalog.engine_properties import spark_catalog
from tabletopic_kernel.clients.spark.java_errors import text_of
from tabletopic_kernel.model.errors import ActionNeededError, UsageError
from tabletopic_kernel.query.answer import Answer, TableRead, interruptible
from tabletopic_kernel.query.parameters import respelled
from tabletopic_kernel.query.statements.sql import with_catalogs

_MESSAGE_LINES = 12


class SparkLake:
    """Queries with a Spark session; tables are named as in ``DuckLake``."""

    def __init__(self, session: SparkSession, catalog: str, namespace: str = "default") -> None:
        # Besides raising the error, it prints every wrong query with a page of traceback.
        PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
        self._session = session
        self._catalog = catalog
        self._namespace = namespace

    def query(self, sql: str, params: Mapping[str, Any] | None = None, limit: int | None = None) -> Answer:
        """The rows of one statement, at most ``limit``; time travel is part of Spark's SQL.

        ``params``: values for ``$name``. Raises UsageError (wrong SQL) or ActionNeededError (the job failed).
        """
        try:
            return self._run_tagged(lambda: self._run(sql, params, limit))
        except (ParseException, AnalysisException) as error:
            raise UsageError(_message(str(error))) from error
        except (PySparkException, Py4JError) as error:  # Py4JError: also if the JVM ends
            raise ActionNeededError(f"Spark failed: {_message(text_of(error))}") from error

    def _run(self, sql: str, params: Mapping[str, Any] | None, limit: int | None) -> Answer:
        self._use_catalog()
        text = sql.strip().rstrip(";")
        if params:
            frame = self._session.sql(respelled(text, ":{}".format), args=dict(params))
        else:
            frame = self._session.sql(text)
        tables = _tables_of(frame, self._catalog)
        rows = _to_arrow(frame if limit is None else frame.limit(limit + 1))
        truncated = limit is not None and rows.num_rows > limit
        return Answer(rows.slice(0, limit), tables, truncated)

    def _run_tagged(self, work: Callable[[], Answer]) -> Answer:
        """The session may run table topics, too: Ctrl-C cancels only this query's jobs."""
        tag = f"tabletopic-query-{uuid.uuid4().hex}"
        context = self._session.sparkContext

        def run() -> Answer:
            context.addJobTag(tag)  # a property of this thread
            return work()

        return interruptible("spark query", run, lambda: context.cancelJobsWithTag(tag))

    def _use_catalog(self) -> None:
        try:
            self._session.sql(f"USE `{self._catalog}`.`{self._namespace}`")
        except AnalysisException:  # the namespace is created with the first table
            self._session.sql(f"USE `{self._catalog}`")


def check_catalogs(sql: str, default: dict[str, str], others: Mapping[str, dict[str, str]]) -> None:
    """Check that Spark can use the default catalog, and those in the SQL; raises as ``spark_catalog``."""
    spark_catalog(default)
    _, named = with_catalogs(sql, dict.fromkeys(others))
    properties = tuple(others.values())
    for number, name in enumerate(others):
        if name in named:
            with in_section(name):
                spark_catalog(others[name], (default, *properties[:number]))


def _to_arrow(frame: Any) -> pa.Table:
    """Like ``toArrow``, which fails on nulls of a struct with a required field."""
    every_null = frame._jdf.schema().asNullable()
    schema = to_arrow_schema(
        StructType.fromJson(json.loads(every_null.json())), error_on_duplicated_field_names_in_struct=True
    )
    batches = frame._collect_as_arrow(empty_list_if_zero_records=False)
    return pa.Table.from_batches(batches).cast(schema)


def _tables_of(frame: DataFrame, default: str) -> tuple[TableRead, ...]:
    """The Iceberg tables that a query reads and their snapshots, from its analyzed plan; none if unsure."""
    tables: dict[tuple[str, int | None], TableRead] = {}
    try:
        leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
        for index in range(leaves.size()):
            read = _table_read(leaves.apply(index), default)
            if read is not None:
                tables[read.table, read.snapshot_id] = read
    except Py4JError:  # not Spark's public interface: it may change, and only information depends on it
        return ()
    return tuple(tables.values())


def _table_read(leaf: Any, default: str) -> TableRead | None:
    if leaf.getClass().getSimpleName() != "DataSourceV2Relation":
        return None
    spark_table = leaf.table()
    if not spark_table.getClass().getName().startswith("org.apache.iceberg."):
        return None
    table = spark_table.table()
    chosen = spark_table.snapshotId()
    snapshot = table.currentSnapshot() if chosen is None else table.snapshot(chosen)
    name = str(table.name()).removeprefix(f"{default}.")
    if snapshot is None:
        return TableRead(name, None, None)
    return TableRead(name, int(snapshot.snapshotId()), int(snapshot.timestampMillis()))


def _message(text: str) -> str:
    lines = text.partition("\n\nJVM stacktrace")[0].strip().splitlines()
    kept = [line for line in lines if not line.lstrip().startswith("at ") and "SQLSTATE" not in line[:9]]
    return "\n".join(kept[:_MESSAGE_LINES])
