"""Where the time of a run went: ``python -m tests.durations build/ci/story.xml``, of pytest's JUnit reports.

Prints the folders' sums and the twenty longest tests, set-up included. ``durations.json`` beside the reports
has the newest duration of every test, in seconds.
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


def keep(seconds: dict[str, float], file: Path) -> None:
    """Add them to those of earlier runs."""
    earlier = json.loads(file.read_text("utf-8")) if file.exists() else {}
    file.write_text(json.dumps({**earlier, **seconds}, indent=1, sort_keys=True), "utf-8")


if __name__ == "__main__":
    _reports = [Path(name) for name in sys.argv[1:]]
    _seconds = seconds_by_test(_reports)
    keep(_seconds, _reports[0].with_name("durations.json"))
    sys.stdout.write(f"{summary(_seconds)}\n")
