"""A DuckDB connection that reads Iceberg: extensions from wheels, storage secrets, classified errors."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.request import getproxies_environment

import duckdb
from pyiceberg.table import TableProperties

from tabletopic_kernel.clients.catalog.engine_properties import duckdb_secret
from tabletopic_kernel.local.machine import stack_errors
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError, SettingsError, UsageError
from tabletopic_kernel.model.settings.cluster import is_loopback
from tabletopic_kernel.query.statements.sql import literal

EXTENSIONS = ("avro", "httpfs", "iceberg")  # in this order: the last one needs the others
FATAL = (duckdb.FatalException, duckdb.InternalError)  # DuckDB refuses every statement after one
_SECRET = "tabletopic_storage"
S3 = ("s3", "s3a", "s3n")
_PATHS = (TableProperties.WRITE_DATA_PATH, TableProperties.WRITE_METADATA_PATH)


def connect() -> duckdb.DuckDBPyConnection:
    """An in-memory DuckDB with the installed extensions; SettingsError if one is missing or too old."""
    with stack_errors(Path(tempfile.gettempdir()), "TMPDIR"):
        spill = tempfile.mkdtemp(prefix="tabletopic-duckdb-")  # mode 0700: it gets rows
    connection = duckdb.connect(
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "temp_directory": spill,  # DuckDB's own choice is the current folder
        }
    )
    weakref.finalize(connection, shutil.rmtree, spill, ignore_errors=True)
    for name in EXTENSIONS:
        connection.execute(f"LOAD {literal(_extension(name))}")
    connection.execute("SET TimeZone = 'UTC'")
    # A table that is not in the catalog is a mistake, not a variable of the caller's.
    connection.execute("SET python_enable_replacements = false")
    return connection


def _extension(name: str) -> str:
    package = importlib.util.find_spec(f"duckdb_extension_{name}")
    wheel = f"duckdb-extension-{name}=={duckdb.__version__}"
    if package is None or package.origin is None:
        raise SettingsError(f"DuckDB's {name} extension is not installed: pip install {wheel}")
    folder = Path(package.origin).parent / "extensions" / f"v{duckdb.__version__}"
    files = sorted(folder.glob("*.duckdb_extension"))
    if not files:
        raise SettingsError(f"DuckDB's {name} extension has the wrong version: pip install {wheel}")
    return str(files[0])


def folders_of(location: str, properties: Mapping[str, str], schemes: Sequence[str] = ()) -> list[str]:
    """The folders of a table's files, or those in stores of ``schemes``; each ends with a slash.

    >>> folders_of("s3://lake/t", {"write.data.path": "s3://files/t/"}, S3)
    ['s3://lake/t/', 's3://files/t/']
    """
    named = (location, *filter(None, map(properties.get, _PATHS)))
    return [f"{place.rstrip('/')}/" for place in named if not schemes or place.partition("://")[0] in schemes]


def scopes_of(folders: Iterable[str]) -> list[str]:
    """Where a table may have files: anywhere, in its buckets and folders; nowhere if it has none."""
    folders = list(folders)
    buckets = ("/".join(folder.split("/")[:3]) + "/" for folder in folders)
    return list(dict.fromkeys(("", *buckets, *folders))) if folders else []


def give_secret(connection: duckdb.DuckDBPyConnection, folders: Iterable[str], io: Mapping[str, str]) -> None:
    """Give DuckDB PyIceberg's access to a table on S3; ``io`` has the properties of the table's storage.

    One secret for each of the table's folders, as catalogs lend keys per table; one for each bucket and one
    for all other places: a table may have files anywhere.
    """
    scopes = scopes_of(folders)
    if not scopes:
        return
    options = {"PROVIDER": "config", **duckdb_secret(io)}
    if getproxies_environment() and is_loopback(options["ENDPOINT"]):
        # DuckDB's default client, curl, would use the environment's proxy.
        connection.execute("SET httpfs_client_implementation = 'httplib'; SET http_proxy = ''")
    for scope in scopes:
        name = f"{_SECRET}_{zlib.crc32(scope.encode()):08x}" if scope else _SECRET
        scoped = options | ({"SCOPE": scope} if scope else {})
        options_sql = ", ".join(f"{key} {literal(value)}" for key, value in scoped.items() if value)
        connection.execute(f"CREATE OR REPLACE TEMPORARY SECRET {name} (TYPE s3, {options_sql})")


@contextmanager
def sql_errors() -> Iterator[None]:
    """Classify DuckDB's errors by remedy: UsageError, RetryableError, ActionNeededError; or Ctrl-C."""
    try:
        yield
    except (
        duckdb.ProgrammingError,
        duckdb.DataError,
        duckdb.NotSupportedError,
        duckdb.IntegrityError,
    ) as error:
        raise UsageError(str(error)) from error
    except duckdb.OutOfMemoryException as error:
        raise ActionNeededError(f"DuckDB failed: {error}") from error
    except FATAL as error:
        why = str(error).partition("\n")[0]
        raise ActionNeededError(
            f"DuckDB failed ({why}); it is started again. If this query fails again, use the engine spark"
        ) from error
    except duckdb.OperationalError as error:
        raise RetryableError(f"DuckDB could not read the table: {error}") from error
    except duckdb.Error as error:  # errors without their own class
        raise UsageError(str(error)) from error
    except RuntimeError as error:
        if str(error) == "Query interrupted":  # DuckDB's error for Ctrl-C in a short statement
            raise KeyboardInterrupt from None
        raise


def position(error: duckdb.Error) -> str:
    """The end of DuckDB's message that shows the line and marks the position."""
    _, mark, where = str(error).partition("\n\nLINE ")
    return mark + where
