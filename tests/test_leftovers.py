"""Leftovers of tests are found: shown by running careless ones."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

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
    "folder": ("os.chdir('/')", "working folder: "),
}
CAREFUL = {
    "thread_that_ends": "threading.Thread(target=time.sleep, args=(0.05,), daemon=True).start()",
    "process_that_ends": "subprocess.run(['true'])",
    "variable_put_back": "monkeypatch.setenv('GIVEN', '1')",
    "file_of_the_test": "(tmp_path / 'a').touch()",
    # What was left before, or the module would tell it once more.
    "end": "END.set(); [(one.kill(), one.wait()) for one in KEPT]; [os.rmdir(one) for one in FOLDERS]",
}
HEAD = """
import logging, os, subprocess, sys, tempfile, threading, time

KEPT, FOLDERS, END = [], [], threading.Event()
THREAD = threading.Thread(target=END.wait, name="idler", daemon=True)
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
