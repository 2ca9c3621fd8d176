"""In CI no test is skipped."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from tests.environment import completed

ROOT = Path(__file__).parents[1]
ONE = """
import pytest

@pytest.fixture
def browser():
    pytest.skip("no browser here")

def test_screens(browser):
    pass

@pytest.mark.skip(reason="no npm here")
def test_hub():
    pass

@pytest.mark.xfail
def test_known():
    assert False

def test_that_runs():
    pass
"""
WHOLE = 'import pytest\npytest.importorskip("no_such_module")\n'


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and output of pytest over both modules."""
    (folder / "test_one.py").write_text(ONE)
    (folder / "test_whole.py").write_text(WHOLE)
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "-p", "tests.skips"]
    done = completed(
        [*command, "--continue-on-collection-errors", "-c", os.devnull, "--rootdir", folder, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "1000"},
    )
    return done.returncode, done.stdout


def test_what_skips_itself_fails_in_ci(tmp_path: Path) -> None:
    """Each with its reason; what is known to fail does not, and elsewhere it is skipped."""
    code, told = run(tmp_path, "--no-skips")
    assert code == 1
    failed = re.findall(
        r"(\S+) did not run, and with --no-skips each test must\. .*?(no \w+ here|no_such)", told
    )
    assert set(failed) == {
        ("test_one.py::test_screens", "no browser here"),
        ("test_one.py::test_hub", "no npm here"),
        ("test_whole.py", "no_such"),
    }
    assert "1 passed, 1 xfailed" in told
    code, told = run(tmp_path)
    assert code == 0
    assert "1 passed, 3 skipped, 1 xfailed" in told
