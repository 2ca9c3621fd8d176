"""Where the time of a run went: ``python -m tests.durations build/ci/*.xml``, of pytest's JUnit reports.

Writes ``durations.json`` beside the first report, in seconds by test, and prints the folders' sums and the
twenty longest tests, set-up included.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

_LONGEST = 20


def seconds_by_test(reports: list[Path]) -> dict[str, float]:
    """The time of each test; a report that a stopped run left unfinished is skipped."""
    seconds: dict[str, float] = {}
    for report in reports:
        try:
            cases = ElementTree.parse(report).iter("testcase")
        except (OSError, ElementTree.ParseError):
            continue
        for case in cases:
            name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
            seconds[name] = seconds.get(name, 0.0) + float(case.get("time", 0))
    return seconds


def summary(seconds: dict[str, float]) -> str:
    """The folders by their sums, then the longest tests."""
    folders: dict[str, float] = defaultdict(float)
    for name, each_s in seconds.items():
        folders[name.partition("::")[0].rpartition("/")[0]] += each_s
    lines = [f"{folders[name]:8.0f} s  {name}" for name in _longest(folders) if folders[name] >= 1]
    longest = _longest(seconds)[:_LONGEST]
    return "\n".join([*lines, "", *(f"{seconds[name]:8.1f} s  {name}" for name in longest)])


def _longest(seconds: dict[str, float]) -> list[str]:
    return sorted(seconds, key=lambda name: -seconds[name])


if __name__ == "__main__":
    _reports = [Path(name) for name in sys.argv[1:]]
    _seconds = seconds_by_test(_reports)
    _text = json.dumps(_seconds, indent=1, sort_keys=True)
    _reports[0].with_name("durations.json").write_text(_text, "utf-8")
    sys.stdout.write(f"{summary(_seconds)}\n")
