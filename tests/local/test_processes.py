"""Start, recognise and stop processes."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from tabletopic_kernel.local import processes
from tabletopic_kernel.local.machine import is_free_port
from tabletopic_kernel.local.processes import ProcessId

SLEEP = "import time; time.sleep(60)"
LISTENING = """
import socket, sys, threading, time
server = socket.create_server(("127.0.0.1", 0))
memory = b"x" * 2**29
for _ in range(200):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print(server.getsockname()[1], flush=True)
time.sleep(60)
"""
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); {SLEEP}"


def _start(tmp_path: Path, program: str, its_mark: str) -> ProcessId:
    started = processes.spawn([sys.executable, "-c", program, its_mark], tmp_path, tmp_path / "out")
    # For a moment after the start of a program the kernel tells no arguments; it may end as quickly.
    with contextlib.suppress(psutil.Error):
        while not psutil.Process(started.pid).cmdline():
            pass
    return started


def test_a_process_is_known_by_pid_and_start_time(tmp_path: Path) -> None:
    """Another's pid, unless marked, is another process; a zombie is dead; each has its own session."""
    its_mark = processes.mark("x", tmp_path)
    started = _start(tmp_path, SLEEP, its_mark)
    reused = ProcessId(started.pid, started.start_time_s - 100)
    assert processes.is_alive(started, its_mark)
    assert processes.is_alive(reused, its_mark)  # the clock was set
    assert not processes.is_alive(reused, processes.mark("y", tmp_path))
    [(carried, found)] = processes.find([its_mark])
    assert (carried, found.pid) == (its_mark, started.pid)
    processes.stop([started], 10)
    assert not processes.is_alive(started, its_mark)
    assert processes.find([its_mark]) == []
    started = _start(tmp_path, "pass", "mark")
    psutil.wait_procs([psutil.Process(started.pid)], timeout=240)
    assert not processes.is_alive(started, "mark")
    started = _start(tmp_path, SLEEP, "mark")
    assert os.getsid(started.pid) == started.pid != os.getsid(0)
    processes.stop([started], 10)


def test_a_process_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    """Asking comes first; what has ended, or is somebody else's by now, is left alone."""
    started = _start(tmp_path, DEAF, "mark")
    while "deaf" not in (tmp_path / "out").read_text():
        assert processes.is_alive(started, "mark")
    processes.stop([started], timeout_s=0.1)
    assert not processes.is_alive(started, "mark")
    started = _start(tmp_path, SLEEP, "mark")
    processes.stop([ProcessId(started.pid, started.start_time_s - 100)], timeout_s=1)
    assert processes.is_alive(started, "mark")
    processes.stop([started], 10)
    assert not processes.is_alive(started, "mark")
    processes.stop([ProcessId(2**22 - 1, 0.0)], timeout_s=1)


def test_a_killed_process_is_alive_while_it_holds_its_port(tmp_path: Path) -> None:
    """Its first thread ends long before the last: a server started then would get another port."""
    started = _start(tmp_path, LISTENING, "mark")
    while not (port := (tmp_path / "out").read_text().strip()):
        assert processes.is_alive(started, "mark")
    os.kill(started.pid, signal.SIGKILL)
    while processes.is_alive(started, "mark"):
        pass
    assert is_free_port(int(port))


def test_settings_of_other_installations_do_not_reach_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka, Quarkus and log4j would take settings from the environment; ours come from us alone."""
    monkeypatch.setenv("QUARKUS_HTTP_PORT", "1")
    monkeypatch.setenv("CLASSPATH", "/x")
    monkeypatch.setenv("LANG", "C")
    seen = processes.environment()
    assert {"QUARKUS_HTTP_PORT", "CLASSPATH"}.isdisjoint(seen)
    assert seen["LC_ALL"] == "C.UTF-8"
    assert seen["PATH"] == os.environ["PATH"]
