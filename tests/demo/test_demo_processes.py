"""The demo with real servers: its proof succeeds, and it never leaves anything behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tabletopic_kernel.demo.scenario import run
from tabletopic_kernel.local import hosts
from tabletopic_kernel.model.errors import StackError, UsageError


@pytest.mark.integration
def test_a_host_that_ends_by_itself_is_told_with_its_last_words(tmp_path: Path) -> None:
    """Without servers a host cannot run: the error has its output and says where the rest is."""
    (tmp_path / "logs").mkdir()
    host = hosts.HostProcess(tmp_path, 1)
    _wait_for(lambda: not host.is_alive)
    with pytest.raises(StackError, match=r"host 1 .* exited unexpectedly") as caught:
        host.check()
    assert "no servers" in str(caught.value)
    assert str(tmp_path / "logs") in str(caught.value)


_ORPHAN = """
import os, signal, subprocess, time
from tabletopic_kernel.local.processes import ProcessTree

before = subprocess.Popen(["sh", "-c", "sleep 300 & wait"], start_new_session=True)
tree = ProcessTree()
parent = subprocess.Popen(["sh", "-c", "sleep 300 & wait"], start_new_session=True)
try:
    # A child that was just forked still has its parent's name.
    while "sleep" not in [one.name() for one in tree.left()]:
        time.sleep(0.02)
    assert tree.peak_bytes > 0
finally:
    parent.kill()
    parent.wait()
[orphan] = tree.left()
assert orphan.name() == "sleep", orphan
assert tree.end_what_is_left(timeout_s=0) == [f"sleep ({orphan.pid})"]
assert tree.left() == []
assert before.poll() is None
os.killpg(before.pid, signal.SIGKILL)
"""


def test_orphans_are_remembered_and_ended() -> None:
    """A grandchild whose parent was killed is found all the same; what was there before is left alone."""
    command = [sys.executable, "-c", _ORPHAN]
    ended = subprocess.run(command, timeout=240, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


_PROGRAM = """
import sys
from pathlib import Path
from tabletopic_kernel.demo.scenario import run
sys.exit(run(int(sys.argv[1]), state_dir=Path(sys.argv[2]), as_json=True))
"""


def _demo(folder: Path, events: int, log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as stderr:
        return subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(events), str(folder)],
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=folder.parent,
        )


def processes_of(folder: Path) -> list[psutil.Process]:
    """Processes with the folder in their command or environment."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            if str(folder) in " ".join([*process.cmdline(), *process.environ().values()]):
                found.append(process)
    return found


def _wait_for(condition: Callable[[], bool], limit_s: float = 240) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "not within the time"
        time.sleep(0.1)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A state folder; processes that a failed test leaves there are stopped."""
    state = tmp_path / "state"
    yield state
    for process in processes_of(state):
        with contextlib.suppress(psutil.Error):
            process.kill()


@pytest.mark.integration
def test_the_demo_proves_itself_and_leaves_no_process(folder: Path, tmp_path: Path) -> None:
    """A small one, with servers, a schema change and a killed host: all agrees, and all is gone."""
    log = tmp_path / "log"
    demo = _demo(folder, 6_000, log)
    out, _ = demo.communicate(timeout=400)
    text = log.read_text("utf-8")
    assert demo.returncode == 0, text
    assert processes_of(folder) == []
    summary = json.loads(out)
    assert summary["ok"]
    assert summary["ended_by_force"] == []
    assert sum(commit["rows"] for commit in summary["commits"]) == summary["sent"] == 6_000
    # One claim for each host; more only if the machine stalled for so long that the group took one for dead.
    claims = [commit["epoch"] for commit in summary["commits"] if commit["rows"] == 0]
    assert claims in ([1, 2], [1, 2, 3], [1, 2, 3, 4])
    assert summary["story"]["takeover_epoch"] in claims[1:]
    assert [schema["causes"] for schema in summary["schemas"]] == [
        ["clicks-value version 1 (id 1)"],
        ["clicks-value version 2 (id 2)"],
    ]
    assert "kill -9: host 1" in text
    assert text.count("✓ Rows") + text.count("✓  Rows") == 1
    assert "\x1b" not in text
    with pytest.raises(UsageError, match="already has a topic clicks"):  # a second time in the same folder
        run(6_000, state_dir=folder)
    assert processes_of(folder) == []


@pytest.mark.integration
@pytest.mark.parametrize(("sent_signal", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_ended_demos_leave_nothing(
    folder: Path, tmp_path: Path, sent_signal: signal.Signals, code: int
) -> None:
    """In the middle of the stream, with Spark running: by Ctrl-C, and by force."""
    log = tmp_path / "log"
    demo = _demo(folder, 100_000, log)
    _wait_for(lambda: "first commit" in log.read_text("utf-8") or demo.poll() is not None)
    assert demo.poll() is None, log.read_text("utf-8")
    assert len(processes_of(folder)) > 3
    demo.send_signal(sent_signal)
    assert demo.wait(240) == code
    if sent_signal is not signal.SIGKILL:
        assert "everything the demo started has been stopped" in log.read_text("utf-8")
        assert processes_of(folder) == []
    _wait_for(lambda: processes_of(folder) == [], limit_s=240)
