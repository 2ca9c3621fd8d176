"""Durations are read from pytest's own reports."""

from __future__ import annotations

import json
from pathlib import Path

from tests.durations import keep, seconds_by_test, summary

_REPORT = """<testsuites><testsuite name="pytest">
<testcase classname="tests.table.test_sweep" name="test_a[x.y]" time="1.5" />
<testcase classname="tests.table.test_sweep" name="test_b" time="0.5" />
<testcase classname="tests.host.test_host" name="test_c" time="3" />
</testsuite></testsuites>"""


def test_folders_and_the_longest_tests_come_first(tmp_path: Path) -> None:
    """An unfinished report hides no others; a part of the tests, run again, changes its own."""
    whole, broken = tmp_path / "a.xml", tmp_path / "b.xml"
    whole.write_text(_REPORT)
    broken.write_text(_REPORT[:90])
    seconds = seconds_by_test([broken, whole])
    assert seconds["tests/table/test_sweep.py::test_a[x.y]"] == 1.5
    assert [line.split()[-1] for line in summary(seconds).splitlines() if line] == [
        "tests/host", "tests/table", "tests/host/test_host.py::test_c",
        "tests/table/test_sweep.py::test_a[x.y]", "tests/table/test_sweep.py::test_b",
    ]  # fmt: skip
    keep({"a": 1.0, "b": 2.0}, tmp_path / "durations.json")
    keep({"b": 3.0}, tmp_path / "durations.json")
    assert json.loads((tmp_path / "durations.json").read_text()) == {"a": 1.0, "b": 3.0}
