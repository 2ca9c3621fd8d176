"""Leftovers of tests are found: shown by running careless ones."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from tests import leftovers
from tests.environment import completed

ROOT = Path(__file__).parents[1]
CONFTEST = """
from tests import leftovers
from tests.leftovers import (
    nothing_stays, nothing_stays_of_a_module, nothing_stays_of_a_test, temporary_files_of_the_run,
)
leftovers._GRACE_S = 0.2
"""
SLEEPS = "[sys.executable, '-c', 'import time; time.sleep(60)']"
# What the test does, and what is told of it.
CARELESS = {
    "thread": ("THREAD.start()", "thread 'idler'"),
    "process": (f"KEPT.append(subprocess.Popen({SLEEPS}))", "time.sleep(60)"),
    "temporary_folder": ("FOLDERS.append(tempfile.mkdtemp(prefix='forgotten-'))", "forgotten-"),
    "file": ("open('forgotten.txt', 'w').close()", "forgotten.txt"),
    "variable": ("os.environ['FORGOTTEN'] = '1'", "variable FORGOTTEN: nothing is now 1"),
    "handler": ("logging.getLogger().addHandler(logging.NullHandler())", "log handlers of root: "),
    "list": ("Fake.asked.append('x')", "tests.fakes.Fake.asked: "),
    "event": ("Fake.go.set()", "tests.fakes.Fake.go: "),
    "attribute": ("Fake.name = 'another'", "tests.fakes.Fake.name: "),
    "folder": ("os.chdir('/')", "working folder: "),
}
CAREFUL = {
    "thread_that_ends": "threading.Thread(target=time.sleep, args=(0.05,), daemon=True).start()",
    "process_that_ends": "subprocess.run(['true'])",
    "variable_put_back": "monkeypatch.setenv('GIVEN', '1')",
    "attribute_put_back": "monkeypatch.setattr(Fake, 'name', 'one more')",
    "file_of_the_test": "(tmp_path / 'a').touch()",
    # What was left before, or the module would tell it once more.
    "end": "END.set(); [(one.kill(), one.wait()) for one in KEPT]; [os.rmdir(one) for one in FOLDERS]",
}
HEAD = """
import logging, os, subprocess, sys, tempfile, threading, time, types

KEPT, FOLDERS, END = [], [], threading.Event()
THREAD = threading.Thread(target=END.wait, name="idler", daemon=True)
fakes = sys.modules["tests.fakes"] = types.ModuleType("tests.fakes")

class Fake:
    asked = []
    go = threading.Event()
    name = "one"

Fake.__module__ = "tests.fakes"
fakes.Fake = Fake
"""
# It has begun by itself: while a process becomes another program, the system tells neither its words nor its
# environment.
ORPHAN = """
import os, subprocess, sys, time

SLEEPS = "import os, time; print(os.getpid(), file=open('pid', 'w'), flush=True); time.sleep(60)"

def test_orphan():
    subprocess.Popen(['sh', '-c', '"$@" &', '-', sys.executable, '-c', SLEEPS]).wait()
    while not os.path.exists('pid') or not open('pid').read():
        time.sleep(0.01)
"""


def run(folder: Path, text: str) -> str:
    """pytest's output for a module of tests."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_one.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "--rootdir", str(folder)]
    done = completed(
        [*command, "--basetemp", str(folder / "tmp"), "-c", os.devnull, "test_one.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "1000"},
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of careless tests and careful ones."""
    statements = {name: statement for name, (statement, _) in CARELESS.items()} | CAREFUL
    tests = [f"def test_{name}(monkeypatch, tmp_path):\n    {text}\n" for name, text in statements.items()]
    # The folder is changed for good: last.
    tests.sort(key=lambda test: "chdir" in test)
    return run(tmp_path_factory.mktemp("careless"), "\n".join([HEAD, *tests]))


@pytest.mark.parametrize("name", CARELESS)
def test_what_is_left_is_told(told: str, name: str) -> None:
    """With its name, as an error of the test that left it."""
    (error,) = re.findall(rf"^ERROR \S*::test_{name} - .*left behind: (.*)$", told, re.MULTILINE)
    assert CARELESS[name][1] in error


@pytest.mark.parametrize("name", CAREFUL)
def test_what_is_gone_is_no_trouble(told: str, name: str) -> None:
    """Ended in time, or put back."""
    assert re.search(rf"^PASSED \S*::test_{name}$", told, re.MULTILINE)
    assert not re.search(rf"^ERROR \S*::test_{name} ", told, re.MULTILINE)


def test_a_process_without_a_parent_is_told_at_the_end(tmp_path: Path) -> None:
    """It is nobody's child any more, and still one of this run."""
    said = run(tmp_path, ORPHAN)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert re.search(r"the run left behind: process \d+: .*time.sleep\(60\)", said)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no Linux")
def test_descendants_are_found_without_a_look_at_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children of any thread and theirs, at a cost that does not grow with the machine's processes."""
    started: list[subprocess.Popen[bytes]] = []
    there, over = threading.Event(), threading.Event()

    def start() -> None:
        command = ["sh", "-c", "sleep 60 & echo $!; wait"]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE))
        there.set()
        over.wait()  # a child belongs to the thread that started it

    thread = threading.Thread(target=start)
    thread.start()
    assert there.wait(60)
    grandchild = psutil.Process(int(started[0].stdout.readline()))  # type: ignore[union-attr]
    monkeypatch.setattr(psutil, "pids", None)
    monkeypatch.setattr(psutil.Process, "children", None)
    try:
        found = {child.pid for child in leftovers._children()}
        assert {started[0].pid, grandchild.pid} <= found
    finally:
        over.set()
        thread.join()
        grandchild.kill()
        started[0].communicate()
