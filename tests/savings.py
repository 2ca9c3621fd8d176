"""Removes what takes minutes of a run and proves nothing, for all tests of this process."""

from __future__ import annotations

import functools
import gc
import itertools
import os
import sys
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
import typer
from sqlalchemy import event
from sqlalchemy.engine import Engine

# jsonschema builds 39 grammars of IRIs from it when it is imported, 2 s of work in each process, to judge the
# formats "iri" and "iri-reference". No test asks for these; without the package jsonschema judges the rest.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]

# A test's Spark runs for half a minute, too short for what the second compiler of its JVM saves: that takes a
# fifth of the CPU time of a test with a host.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")


def pytest_collection_finish() -> None:
    """Objects from collecting stay until the end: the garbage collector need not check them again."""
    gc.collect()
    gc.freeze()


def _without_sync(connection: Any, _: object) -> None:
    """A test's catalog need not survive a power failure: SQLite waits for the disk at each commit."""
    if type(connection).__module__.startswith("sqlite3"):
        connection.execute("PRAGMA synchronous=OFF")


@pytest.fixture(scope="session", autouse=True)
def catalogs_do_not_wait_for_the_disk() -> Iterator[None]:
    """SQLite's, in this process; servers and hosts have their own."""
    event.listen(Engine, "connect", _without_sync)
    yield
    event.remove(Engine, "connect", _without_sync)


@pytest.fixture(scope="session", autouse=True)
def extensions_are_verified_once() -> Iterator[None]:
    """DuckDB hashes 84 MB of extensions per connection to a lake: in a run, only for the first one."""
    real, lakes = duckdb.connect, itertools.count()

    def connect(*args: Any, **more: Any) -> duckdb.DuckDBPyConnection:
        config = more.get("config", {})
        if config.get("temp_directory") and next(lakes):
            more["config"] = {**config, "allow_unsigned_extensions": "true"}
        return real(*args, **more)

    patch = pytest.MonkeyPatch()
    patch.setattr(duckdb, "connect", connect)
    yield
    patch.undo()


@pytest.fixture(scope="session", autouse=True)
def commands_are_built_once() -> Iterator[None]:
    """Typer builds a program's commands from its functions at each call; a process calls it once."""
    patch = pytest.MonkeyPatch()
    patch.setattr(typer.main, "get_command", functools.cache(typer.main.get_command))
    yield
    patch.undo()
