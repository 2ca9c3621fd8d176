"""A child process of the Jupyter server."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabletopic_kernel.faces.jupyter_server.child import Child
from tabletopic_kernel.model.errors import StackError
from tests.faces.jupyter_server.live_server import until

IDLE = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def child() -> Iterator[Child]:
    """Stopped at the end."""
    one = Child("the host")
    yield one
    one.stop(5)


def test_a_child_is_started_once(child: Child, tmp_path: Path) -> None:
    """And again when it is gone; asked to stop, it leaves no obituary."""
    assert child.start(IDLE, tmp_path / "logs" / "out", {})
    first = child.pid
    assert not child.start(IDLE, tmp_path / "logs" / "out", {})
    assert child.pid == first
    child.stop(5)
    assert child.pid is None
    assert child.obituary() is None
    assert child.start(IDLE, tmp_path / "logs" / "out", {})
    assert child.pid != first


def test_a_child_that_fails_says_why(child: Child, tmp_path: Path) -> None:
    """Exit code, last words and where the rest is; a command that is not there is an error that says so."""
    log = tmp_path / "out"
    child.start([sys.executable, "-c", "import sys; sys.exit('error: no broker')"], log, {})
    assert child.wait(240)
    assert child.obituary() == f"the host ended with exit code 1: error: no broker; see {log}"
    child.start(IDLE, log, {})
    assert child.obituary() is None
    os.kill(child.pid or 0, signal.SIGKILL)
    assert child.wait(240)
    assert child.obituary() == f"the host was killed by signal 9; see {log}"
    with pytest.raises(StackError, match="the host cannot be started"):
        child.start([str(tmp_path / "nothing")], tmp_path / "out", {})


def test_a_child_that_does_not_listen_is_killed(child: Child, tmp_path: Path) -> None:
    """After the limit."""
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True)"
    child.start([sys.executable, "-c", f"{deaf}; time.sleep(600)"], tmp_path / "out", {})
    until(lambda: "deaf" in (tmp_path / "out").read_text())
    child.ask_to_stop()
    assert not child.wait(0.2)
    child.stop(0.1)
    assert child.pid is None
