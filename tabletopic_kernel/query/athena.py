"""SQL over the catalog's tables by Amazon Athena, through PyAthena, which is an extra of its own.

Athena reads tables of a Glue catalog. Where its results go, and in which workgroup it runs, PyAthena takes
from ``AWS_ATHENA_S3_STAGING_DIR`` and ``AWS_ATHENA_WORK_GROUP``; credentials are AWS's usual ones.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import pyarrow as pa

from tabletopic_kernel.model.errors import ActionNeededError, SettingsError, UsageError
from tabletopic_kernel.query.shared import Answer, TableRead, respelled

_INSTALL = 'Athena needs PyAthena: pip install "pyathena[arrow]", then restart the kernel'
# The sorts of errors that every DB API module has (PEP 249); the first is the person's.
_WRONG_SQL = ("ProgrammingError", "DataError", "NotSupportedError")


class Cursor(Protocol):
    """What is used of PyAthena's ArrowCursor."""

    def execute(self, operation: str, parameters: dict[str, Any] | None = None) -> Any:
        """Run a statement to its end; ``parameters`` fill ``%(name)s``."""

    def as_arrow(self) -> pa.Table:
        """All rows."""
        ...


class AthenaLake:
    """Queries by Athena; ``tables`` tells which tables a text names, and how fresh they are.

    Args:
        catalog: PyIceberg's properties; the type must be ``glue``.
        tables: see ``DuckLake.tables``.
        cursor: makes a cursor; PyAthena's unless another one is given.

    Raises:
        SettingsError: the catalog is none that Athena reads.
    """

    def __init__(
        self,
        catalog: Mapping[str, str],
        tables: Callable[[str], tuple[TableRead, ...]],
        cursor: Callable[[], Cursor] | None = None,
    ) -> None:
        if catalog.get("type") != "glue":
            raise SettingsError(
                f"Athena reads tables of a Glue catalog, and [catalog] type is {catalog.get('type')!r}; "
                "use the engine duckdb or spark"
            )
        self._catalog = catalog
        self._tables = tables
        self._cursor = cursor or self._pyathena

    def query(self, sql: str, params: Mapping[str, Any] | None = None, limit: int | None = None) -> Answer:
        """The rows of one statement, at most ``limit``; time travel is part of Athena's SQL.

        Raises:
            UsageError: Athena refused the statement.
            ActionNeededError: PyAthena is not installed, or AWS does not allow it.
        """
        cursor = self._cursor()
        text = sql.strip().rstrip(";")
        try:
            if params:
                # PyAthena fills %(name)s, quoting by type; any other % must be doubled then.
                cursor.execute(respelled(text.replace("%", "%%"), "%({})s".format), dict(params))
            else:
                cursor.execute(text)
            rows = cursor.as_arrow()
        except Exception as error:  # botocore's and PyAthena's have no base class in common
            raise _sorted(error) from error
        truncated = limit is not None and rows.num_rows > limit
        return Answer(rows.slice(0, limit), self._tables(text), truncated)

    def _pyathena(self) -> Cursor:
        try:
            # By name: it is an extra that few have, and no part of what is type-checked.
            connect = importlib.import_module("pyathena").connect
            arrow_cursor = importlib.import_module("pyathena.arrow.cursor").ArrowCursor
        except ImportError as error:
            raise ActionNeededError(_INSTALL) from error
        region = self._catalog.get("glue.region") or self._catalog.get("client.region")
        given = {"region_name": region} if region else {}
        try:
            made: Cursor = connect(cursor_class=arrow_cursor, schema_name="default", **given).cursor()
        except Exception as error:  # no region, no place for results: its message says which
            raise _sorted(error) from error
        return made


def _sorted(error: Exception) -> UsageError | ActionNeededError:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if kinds.intersection(_WRONG_SQL) or "FAILED: " in str(error) or "SYNTAX_ERROR" in str(error):
        return UsageError(f"Athena refused it: {error}")
    return ActionNeededError(f"Athena could not do it: {error}")
