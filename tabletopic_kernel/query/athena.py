"""SQL over the catalog's tables with Amazon Athena, through PyAthena, an optional extra.

Athena reads tables of Glue and of S3 Tables. PyAthena's plain cursor gets rows from Athena in pages, and
distinguishes nulls from empty text; its Arrow cursor reads Athena's CSV file, and does not.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from tabletopic_kernel.model.errors import ActionNeededError, SettingsError, TableTopicError, UsageError
from tabletopic_kernel.model.settings.sections import AthenaSettings
from tabletopic_kernel.query.answer import Answer, TableRead
from tabletopic_kernel.query.parameters import respelled
from tabletopic_kernel.query.statements.sql import names_without_catalog, with_catalogs

_NOT_OF_ATHENA = (
    "Athena reads tables of Glue and of S3 Tables, but [catalog] is neither; use the engine duckdb or "
    "spark, or set [athena] catalog to Athena's data catalog"
)
_INSTALL = "Athena needs PyAthena: pip install 'tabletopic[athena]', then restart the kernel"
# In Athena's messages about a statement: the position, or the kind of mistake.
_WRONG_SQL = re.compile(
    r"\bline \d+:\d+: |\bSYNTAX_ERROR\b|\bFAILED: |\b(?:DIVISION_BY_ZERO|INVALID_\w+|"
    r"NUMERIC_VALUE_OUT_OF_RANGE|NOT_SUPPORTED|\w+_NOT_FOUND|TYPE_MISMATCH): "
)
_POLL_INTERVAL_S = 0.5
_PAGE_ROWS = 1000  # the maximum that Athena returns at a time
_TABLE_BUCKET = re.compile(r"arn:[\w-]+:s3tables:[\w-]*:\d*:bucket/([\w.-]+)")
_GLUE_CATALOG = "AwsDataCatalog"
# Values that stay as Athena writes them: its text for nested ones does not show the types inside.
_AS_TEXT = ("array", "map", "row", "json", "time", "time with time zone")
_TYPES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamp with time zone": pa.timestamp("us", "UTC"),
    "varbinary": pa.binary(),
}


def data_catalog(catalog: Mapping[str, str]) -> str | None:
    """Athena's name of a catalog, from PyIceberg's properties; None if they do not determine it.

    >>> data_catalog({"type": "glue"})
    'AwsDataCatalog'
    >>> data_catalog({"type": "rest", "warehouse": "arn:aws:s3tables:eu-central-1:111122223333:bucket/lake"})
    's3tablescatalog/lake'
    >>> data_catalog({"rest.signing-name": "glue", "warehouse": "111122223333:s3tablescatalog/lake"})
    's3tablescatalog/lake'
    """
    warehouse = catalog.get("warehouse", "")
    if bucket := _TABLE_BUCKET.fullmatch(warehouse):
        return f"s3tablescatalog/{bucket[1]}"
    if catalog.get("rest.signing-name") == "glue":
        return warehouse.partition(":")[2] or _GLUE_CATALOG
    return _GLUE_CATALOG if catalog.get("type") == "glue" else None


class AthenaLake:
    """Queries with Athena; a table is named ``table`` (in ``namespace``) or ``namespace.table``.

    With the name of one of ``others`` in front, it is in that catalog, for which Athena has its own name.
    ``catalog`` and ``others`` are PyIceberg's properties; ``tables``: see ``DuckLake.tables``; ``cursor``
    makes a cursor, by default PyAthena's. Raises SettingsError if Athena reads none of the catalogs.
    """

    def __init__(
        self,
        catalog: Mapping[str, str],
        tables: Callable[[str], tuple[TableRead, ...]],
        settings: AthenaSettings | None = None,
        namespace: str = "default",
        cursor: Callable[[], Any] | None = None,
        others: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self._settings = settings or AthenaSettings()
        self._data_catalog = self._settings.catalog or data_catalog(catalog)
        self._others = others or {}
        if self._data_catalog is None and not any(map(data_catalog, self._others.values())):
            raise SettingsError(_NOT_OF_ATHENA)
        self._catalog = catalog
        self._tables = tables
        self._namespace = namespace
        self._cursor = cursor

    def query(self, sql: str, params: Mapping[str, Any] | None = None, limit: int | None = None) -> Answer:
        """The rows of one statement, at most ``limit``; time travel is part of Athena's SQL.

        Types are Athena's; nested values are text, instants in UTC. Raises UsageError (Athena refused it),
        SettingsError (it does not read a catalog), ActionNeededError (no PyAthena, or AWS forbids it).
        """
        own = sql.strip().rstrip(";")
        text, catalog = self._in_athenas_names(own)
        cursor = self._cursor() if self._cursor else self._pyathena(catalog)
        try:
            if params:
                # PyAthena fills %(name)s, quoting by type; any other % must then be doubled.
                cursor.execute(respelled(text.replace("%", "%%"), "%({})s".format), dict(params))
            else:
                cursor.execute(text)
            rows = cursor.fetchall() if limit is None else cursor.fetchmany(limit + 1)
        except Exception as error:  # botocore's and PyAthena's have no common base class
            raise _classified(error) from error
        truncated = limit is not None and len(rows) > limit
        return Answer(
            _arrow(cursor.description or (), rows[:limit]),
            self._read(own),
            truncated,
            cursor.data_scanned_in_bytes,
        )

    def _in_athenas_names(self, sql: str) -> tuple[str, Mapping[str, str]]:
        """The statement with Athena's names of other catalogs, and the one whose credentials it needs."""
        text, named = with_catalogs(sql, {name: data_catalog(other) for name, other in self._others.items()})
        for name in named:
            if data_catalog(self._others[name]) is None:
                raise SettingsError(
                    f"Athena reads tables of Glue and of S3 Tables, but [catalogs.{name}] is neither; use "
                    "the engine duckdb or spark"
                )
            if _session(self._others[name]) != _session(self._others[named[0]]):
                raise UsageError(
                    f"{named[0]} and {name} have different regions or keys, but an Athena query uses one "
                    "of each; use the engine duckdb or spark"
                )
        if not named:
            if self._data_catalog is None:
                raise SettingsError(_NOT_OF_ATHENA)
            return text, self._catalog
        keys = self._others[named[0]]
        # Otherwise Athena would look for the default catalog's tables in the named one, and may find some.
        if (self._data_catalog is None or _session(keys) != _session(self._catalog)) and (
            own := names_without_catalog(sql)
        ):
            if self._data_catalog is None:
                raise SettingsError(_NOT_OF_ATHENA)
            raise UsageError(
                f"{'.'.join(own[0])} is a table of [catalog], whose region or keys differ from those of "
                f"{named[0]}, but an Athena query uses one of each; use the engine duckdb or spark"
            )
        return text, keys

    def _read(self, text: str) -> tuple[TableRead, ...]:
        """The tables that a query names; empty if the catalog is unavailable: the query has already run."""
        try:
            return self._tables(text.replace(f'"{self._data_catalog}".', ""))
        except TableTopicError:
            return ()

    def _pyathena(self, catalog: Mapping[str, str]) -> Any:
        try:
            # By name: it is an extra that few have, and not type-checked.
            connect = importlib.import_module("pyathena").connect
            converter = importlib.import_module("pyathena.converter").DefaultTypeConverter()
            formatter = importlib.import_module("pyathena.formatter").DefaultParameterFormatter()
        except ImportError as error:
            raise ActionNeededError(_INSTALL) from error
        for name in _AS_TEXT:
            converter.remove(name)
        formatter.set(datetime, lambda _, __, value: _literal(value))
        # Besides raising the error, it prints each refused statement with a page of traceback.
        logging.getLogger("pyathena").setLevel(logging.CRITICAL)
        try:
            return connect(
                catalog_name=self._data_catalog or data_catalog(catalog),
                schema_name=self._namespace,
                work_group=self._settings.workgroup or os.environ.get("AWS_ATHENA_WORK_GROUP", "primary"),
                s3_staging_dir=self._settings.output_location,
                poll_interval=_POLL_INTERVAL_S,
                converter=converter,
                formatter=formatter,
                **_session(catalog),
            ).cursor(arraysize=_PAGE_ROWS)
        except Exception as error:  # no region, no such profile: its message says which
            raise _classified(error) from error


def _session(catalog: Mapping[str, str]) -> dict[str, str]:
    """Region and credentials of ``[catalog]`` for boto3's session; AWS's defaults replace missing ones."""
    given = {
        "region_name": ("glue.region", "client.region", "rest.signing-region"),
        "aws_access_key_id": ("glue.access-key-id", "client.access-key-id"),
        "aws_secret_access_key": ("glue.secret-access-key", "client.secret-access-key"),
        "aws_session_token": ("glue.session-token", "client.session-token"),
        "profile_name": ("glue.profile-name", "client.profile-name"),
    }
    options = {ours: next(filter(None, map(catalog.get, names)), None) for ours, names in given.items()}
    return {name: value for name, value in options.items() if value is not None}


def _literal(value: datetime) -> str:
    """A time as SQL; PyAthena's has no zone.

    >>> _literal(datetime(2026, 1, 31, 12, tzinfo=UTC)), _literal(datetime(2026, 1, 31, 12))
    ("TIMESTAMP '2026-01-31 12:00:00.000000 UTC'", "TIMESTAMP '2026-01-31 12:00:00.000000'")
    """
    zone = "" if value.tzinfo is None else " UTC"
    clock = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    return f"TIMESTAMP '{clock.isoformat(' ', 'microseconds')}{zone}'"


def _arrow(description: Sequence[tuple[Any, ...]], rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """The rows as Arrow, by Athena's types; names may occur twice."""
    types = [
        pa.decimal128(precision, scale) if name == "decimal" else _TYPES.get(name, pa.string())
        for _, name, _, _, precision, scale, *_ in description
    ]
    columns = [pa.array([row[index] for row in rows], kind) for index, kind in enumerate(types)]
    return pa.Table.from_arrays(columns, names=[column[0] for column in description])


def _classified(error: Exception) -> UsageError | ActionNeededError:
    if _WRONG_SQL.search(str(error)):
        return UsageError(f"Athena refused the query: {error}")
    return ActionNeededError(f"Athena failed: {error}")
