"""Alert rules as evaluated by Prometheus: ``promtool test rules`` with a test's own series."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from tabletopic_kernel.host.metrics.alerts import ALERTS

RULES = Path(__file__).parents[3] / "deploy" / "alerts.yml"
EVERY_S = 30  # between two scrapes
Values = Iterable[float | None]  # None: the series is not in that scrape


def program() -> str:
    """Debian has it in the package prometheus."""
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("there is no promtool: apt install prometheus")
    return found


def run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run it; returns its output as one text."""
    return subprocess.run(
        [program(), *arguments],
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )


@dataclass
class Case:
    """Series of some scrapes, and the alerts that fire in the last one.

    ``may``: alerts that may or may not fire. Series are named as in Prometheus, without the job.
    """

    name: str
    series: Mapping[str, Values]
    fires: set[str] = field(default_factory=set)
    may: set[str] = field(default_factory=set)


def labelled(series: str) -> str:
    """A series with the scrape's labels, unless it has its own."""
    name, _, labels = series.partition("{")
    own = labels.rstrip("}")
    more = ['job="tabletopic"', *(['instance="h1"'] if "instance=" not in own else [])]
    return f"{name}{{{', '.join([*more, *([own] if own else [])])}}}"


def _written(values: Sequence[float | None]) -> str:
    """The series in promtool's notation; one that is missing from a scrape is marked stale there."""
    lacks = ("_" if before is None else "stale" for before in (None, *values))
    return " ".join(f"{one:g}" if one is not None else lack for one, lack in zip(values, lacks, strict=False))


def firing(cases: Iterable[Case], folder: Path) -> dict[str, set[str]]:
    """The alerts that fire at the end of each case, by the case's name, according to promtool.

    It only supports expectations: it is told that nothing fires, and reports whatever does.
    """
    written = {case.name: {key: list(values) for key, values in case.series.items()} for case in cases}
    tests = []
    for name, series in written.items():
        length = max(map(len, series.values()))
        at = f"{(length - 1) * EVERY_S}s"
        tests.append(
            {
                "name": name,
                "interval": f"{EVERY_S}s",
                "input_series": [
                    {"series": labelled(key), "values": _written(values)} for key, values in series.items()
                ],
                "alert_rule_test": [{"eval_time": at, "alertname": alert.name} for alert in ALERTS],
            }
        )
    file = folder / "alerts.test.yml"
    asked = {"rule_files": [str(RULES)], "evaluation_interval": f"{EVERY_S}s", "tests": tests}
    file.write_text(yaml.safe_dump(asked, sort_keys=False, width=10_000))
    told = run("test", "rules", str(file)).stdout
    found: dict[str, set[str]] = {name: set() for name in written}
    blocks = re.split(r"^\s*name: (.+),$", told, flags=re.MULTILINE)
    assert len(blocks) > 1 or "SUCCESS" in told, told
    for name, block in zip(blocks[1::2], blocks[2::2], strict=True):
        found[name] |= set(re.findall(r"alertname: (\w+), time", block))
    return found
