"""The demo of change data: a shop's table and the table of its changes, equal at the end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tabletopic_kernel.demo.change_data.scenes import Comparison, Outcome
from tabletopic_kernel.demo.proof import Check
from tests.demo.test_demo_processes import processes_of

_PROGRAM = """
import sys
from pathlib import Path
from tabletopic_kernel.demo.scenario import run
sys.exit(run(int(sys.argv[1]), state_dir=Path(sys.argv[2]), as_json=True, cdc=True))
"""


def test_each_kind_of_difference_is_noticed() -> None:
    """An order that one side alone has, and one with another value."""
    database = {1: (1, "lamp"), 2: (2, "kite"), 3: (3, "teapot")}
    table = {1: (1, "lamp"), 2: (2, "lamp"), 4: (4, "kite")}
    assert Comparison(database, table).different == [2, 3, 4]
    assert Comparison(database, dict(reversed(database.items()))).different == []


def test_without_a_comparison_nothing_is_equal() -> None:
    """The outcome is good only if something was compared, and all of it agrees."""
    assert not Outcome(100).ok
    assert Outcome(100, checks=[Check("rows", "", 2, 2)]).to_json()["ok"]
    assert not Outcome(100, checks=[Check("rows", "", 2, 2), Check("different", "", 1, 0)]).ok


@pytest.mark.integration
@pytest.mark.servers
def test_the_table_equals_the_database_and_no_process_is_left(tmp_path: Path) -> None:
    """A small shop, with a host that is killed: the proof succeeds, and all that was started has ended."""
    folder, log = tmp_path / "state", tmp_path / "log"
    command = [sys.executable, "-c", _PROGRAM, "400", str(folder)]
    with log.open("wb") as stderr:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, cwd=tmp_path, check=False)
    text = log.read_text("utf-8")
    assert done.returncode == 0, text
    assert processes_of(folder) == []
    summary = json.loads(done.stdout)
    assert summary["ok"]
    assert summary["ended_by_force"] == []
    assert sum(summary["counts"].values()) == 500 + 400
    assert "kill -9: host 1" in text
    assert "they are equal, row by row" in text
