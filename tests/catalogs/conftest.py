"""One catalog at a time, and everything around a coordinator on it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.host.coordinator import Coordinator
from tabletopic_kernel.table.topic_table import TopicTable
from tests.catalogs.lakes import LAKES, Lake
from tests.host.rig import Rig, made_rig
from tests.table.samples import TOPIC, FlakyCatalog

_ROOT = Path(__file__).parents[2]


@dataclass
class LakeRig(Rig):
    """A coordinator on a catalog shared with other tests, in its own namespace."""

    namespace: str = "default"

    @property
    def identifier(self) -> tuple[str, str]:
        """The topic's table."""
        return self.namespace, TOPIC

    def open_catalog(self) -> FlakyCatalog:
        """A sweep in parallel gets its own catalog, as in a host: Hive's client serves one thread."""
        if threading.current_thread() is threading.main_thread():
            return self.catalog
        return FlakyCatalog(open_catalog(self.catalog.real.properties))

    def make(self, **settings: Any) -> Coordinator:
        """Like the base class's, with tables in the namespace."""
        return super().make(namespace=self.namespace, **settings)

    @property
    def table(self) -> TopicTable:
        """The table as another process sees it."""
        found = TopicTable.load(self.catalog.real, self.identifier, TOPIC)
        assert found is not None
        return found

    def committed(self, coordinator: Coordinator, start: int, end: int, *, epoch: int = 1) -> None:
        """Stage offsets of partition 0, and let the interval pass."""
        self.stage(start, end, epoch=epoch)
        self.after(60_000, coordinator)


@pytest.fixture(scope="module", params=LAKES)
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A running catalog."""
    with LAKES[request.param](tmp_path_factory.mktemp("lake")) as started:
        yield started


@pytest.fixture
def rig(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> LakeRig:
    """Everything around a coordinator, and the coordinator."""
    made = made_rig(open_catalog(lake.properties), monkeypatch)
    return LakeRig(FlakyCatalog(made.catalog.real), namespace=f"n{uuid.uuid4().hex[:8]}")


class Spark:
    """A process with the product's own Spark session; it gets each catalog by its [catalog] section."""

    def __init__(self, folder: Path) -> None:
        self._log = (folder / "spark.txt").open("w")
        self._folder = folder
        self.process: subprocess.Popen[str]

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.catalogs.spark_session", str(self._folder)],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self._log.close()

    def ask(self, catalog: Mapping[str, str], namespace: str, sql: str) -> list[dict[str, Any]]:
        """The rows of one statement in a namespace of a catalog."""
        self.process.stdin.write(json.dumps([dict(catalog), namespace, sql]) + "\n")
        self.process.stdin.flush()
        while line := self.process.stdout.readline():
            if line.startswith("answer "):
                told: dict[str, Any] = json.loads(line.removeprefix("answer "))
                assert "error" not in told, told["error"]
                rows: list[dict[str, Any]] = told["rows"]
                return rows
        pytest.fail(f"Spark has ended: {(self._folder / 'spark.txt').read_text()[-3000:]}")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    """One session for all catalogs."""
    with Spark(tmp_path_factory.mktemp("spark")) as started:
        yield started
