"""The program with a workbench that responds from memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tabletopic_kernel.faces.cli import main
from tabletopic_kernel.query.answer import Answer, TableRead
from tests.faces.fake_workbench import FakeWorkbench, status


@dataclass(frozen=True)
class Outcome:
    """The exit code and output of a call."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Stdout as JSON: there must be nothing else."""
        return json.loads(self.out)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeWorkbench:
    """The workbench that the program finds; settings come from an empty folder."""
    monkeypatch.chdir(tmp_path)
    bench = FakeWorkbench(tmp_path / "state", there={"clicks": 2, "web.clicks": 2, "my-clicks": 2})
    bench.found = [
        status(next_offsets={0: 100, 1: 200}, end_offsets={0: 1334, 1: 200}, refused={}, dead_letters=0)
    ]
    monkeypatch.setattr("tabletopic_kernel.workbench.workbench.Workbench", lambda settings: bench)
    return bench


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], fake: FakeWorkbench) -> Callable[..., Outcome]:
    """Call the program with these arguments."""

    def call(*arguments: str) -> Outcome:
        capfd.readouterr()
        code = main(arguments)
        out, err = capfd.readouterr()
        return Outcome(code, out, err)

    return call


@pytest.fixture
def fresh_answer() -> Answer:
    """Rows of many kinds and two tables, one without a snapshot."""
    rows = pa.table({"url": ["/", None], "n": pa.array([3, 4], pa.int64())})
    tables = (TableRead("default.clicks", 42, 1_700_000_000_000), TableRead("default.empty", None, None))
    return Answer(rows, tables)
