"""A failed test with servers shows their last log lines."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

FAILING = """
import os
import subprocess
import pytest
from pathlib import Path
from tabletopic_kernel.local.stack import StackInfo
from tests import server_logs

@pytest.fixture
def stack(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "kafka.log").write_text("shutting down\\n")
    killed = subprocess.Popen(["sleep", "60"])
    killed.kill()
    os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)
    pids = {"kafka": os.getpid(), "registry": 2**22 - 1, "catalog": killed.pid}
    yield StackInfo("b:1", "http://r", {}, tmp_path, pids)
    killed.wait()

def test_a(stack):
    assert False

def test_b(stack):
    pass
"""


def test_the_ends_of_logs_follow_the_traceback(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With how each server is or ended, and whether the machine has killed for memory."""
    pytester.makepyfile(FAILING)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    ran = pytester.runpytest_subprocess("-p", "tests.server_logs", "-p", "no:cacheprovider")
    ran.assert_outcomes(passed=1, failed=1)
    ran.stdout.fnmatch_lines(
        [
            "*what the servers logged last*",
            "stack: {'kafka': '* running', 'registry': '4194303 gone', 'catalog': '* ended, signal 9'}*",
            "shutting down",
        ]
    )
