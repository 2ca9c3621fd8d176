"""The rig: a database, connectors, and hosts, on servers of these tests alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tabletopic_kernel.local import hosts, processes, watcher
from tabletopic_kernel.local.stack import LocalStack
from tests.database.rig import Rig
from tests.servers.postgres import Postgres


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory, class_archive: None) -> Iterator[Rig]:
    """Servers and a database for a module; no connector yet, and no host."""
    folder = tmp_path_factory.mktemp("database")
    local = LocalStack(folder)
    local.up(die_with_parent=True)
    keeper = watcher.start_keeper(folder)
    with Postgres() as postgres:
        rig = Rig(folder, postgres)
        yield rig
        rig.end()
    hosts.stop_detached(folder)
    local.down()
    processes.stop([keeper], 10)
