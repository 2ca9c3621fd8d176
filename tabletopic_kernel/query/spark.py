"""SQL over the catalog's tables by Spark: what DuckDB cannot, and everything that writes."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from tabletopic_kernel.core.errors import ActionNeededError, UsageError
from tabletopic_kernel.query.answer import Answer

_MESSAGE_LINES = 12


class SparkLake:
    """Queries by a Spark session; tables are called as in ``DuckLake``."""

    def __init__(self, session: SparkSession, catalog: str, namespace: str = "default") -> None:
        # It prints every wrong query with a page of trace, beside raising it.
        PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
        self._session = session
        self._catalog = catalog
        self._namespace = namespace

    def query(self, sql: str, limit: int | None = None) -> Answer:
        """The rows of one statement, at most ``limit``; time travel is part of Spark's SQL.

        Raises:
            UsageError: wrong SQL, no such table.
            ActionNeededError: the job failed.
        """
        try:
            self._use_catalog()
            frame = self._session.sql(sql.strip().rstrip(";"))
            rows = (frame if limit is None else frame.limit(limit + 1)).toArrow()
        except (ParseException, AnalysisException) as error:
            raise UsageError(_told(str(error))) from error
        except (PySparkException, Py4JJavaError) as error:
            raise ActionNeededError(f"Spark could not do it: {_told(str(error))}") from error
        truncated = limit is not None and rows.num_rows > limit
        return Answer(rows.slice(0, limit), (), truncated)

    def _use_catalog(self) -> None:
        try:
            self._session.sql(f"USE `{self._catalog}`.`{self._namespace}`")
        except AnalysisException:  # the namespace comes with the first table
            self._session.sql(f"USE `{self._catalog}`")


def _told(text: str) -> str:
    """The message without the trace of Spark's own machinery."""
    lines = text.partition("\n\nJVM stacktrace")[0].strip().splitlines()
    kept = [line for line in lines if not line.lstrip().startswith("at ") and "SQLSTATE" not in line[:9]]
    return "\n".join(kept[:_MESSAGE_LINES])
