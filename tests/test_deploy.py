"""What `deploy/` ships fits the program: options, exit codes, metrics, queries."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import typer.main
import yaml

from tabletopic_kernel.faces.cli import call
from tabletopic_kernel.faces.cli.app import app
from tabletopic_kernel.host import host
from tabletopic_kernel.host.metrics.alerts import ALERTS
from tabletopic_kernel.host.metrics.declared import METRICS

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"

pytestmark = pytest.mark.skipif(not DEPLOY.exists(), reason="not a checkout")


def unit() -> configparser.SectionProxy:
    """What the unit says of the service."""
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(DEPLOY / "tabletopic.service")
    return parser["Service"]


def check_command(words: list[str]) -> None:
    """A command line of `serve` that the program takes."""
    assert words[1] == "serve"
    group: Any = typer.main.get_command(app)
    options = {name for one in group.commands["serve"].params for name in one.opts}
    assert {word for word in words if word.startswith("-")} <= options


def test_the_unit_starts_and_ends_a_host() -> None:
    """Its options exist, Spark gets no signal before the host, and there is time for the last commit."""
    service = unit()
    check_command(shlex.split(service["ExecStart"]))
    assert service["KillMode"] == "mixed"
    assert int(service["TimeoutStopSec"]) > host._CLOSE_S
    assert int(service["RestartPreventExitStatus"]) == call.WRONG_USE


def test_the_container_starts_a_host() -> None:
    """As the unit; it says that it was never built."""
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    words = json.loads(text.partition("ENTRYPOINT ")[2].replace("\\\n", ""))
    check_command(words)
    assert "Nobody has built this file" in text


def test_exit_codes_of_serve() -> None:
    """docs/production.md has them, and they are the program's."""
    text = (ROOT / "docs" / "production.md").read_text("utf-8")
    codes = [int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)]
    assert codes == [0, call.FAILED, call.WRONG_USE, call.INTERRUPTED]


# --- queries ----------------------------------------------------------------------------------------------


def panels() -> list[dict[str, Any]]:
    """Those of the dashboard that show something."""
    page = json.loads((DEPLOY / "grafana.json").read_text("utf-8"))
    return [one for one in page["panels"] if one["type"] != "row"]


def test_rules_are_read_by_prometheus_grammar() -> None:
    """Each rule is whole, and its expression parses."""
    (group,) = yaml.safe_load((DEPLOY / "alerts.yml").read_text("utf-8"))["groups"]
    assert [rule["alert"] for rule in group["rules"]] == [one.name for one in ALERTS]
    for rule in group["rules"]:
        promql_parser.parse(rule["expr"])
        assert re.fullmatch(r"\d+[mh]", rule["for"])
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]


def test_the_dashboard_shows_every_metric() -> None:
    """A panel each, with queries that parse, none over another."""
    names = {name for one in METRICS for name in (one.sample, f"{one.name}_bucket")}
    assert len(panels()) == len(METRICS)
    for panel in panels():
        assert panel["targets"]
        for target in panel["targets"]:
            expr = target["expr"].replace("$__rate_interval", "5m")
            promql_parser.parse(expr)
            assert set(re.findall(r"tabletopic_\w+", expr)) <= names
    places = {(one["gridPos"]["x"], one["gridPos"]["y"]) for one in panels()}
    assert len(places) == len(METRICS)


@pytest.mark.parametrize("page", ["production.md", "metrics.md"])
def test_pages_name_metrics_and_alerts_that_exist(page: str) -> None:
    """Whoever reads them finds them in the scrape."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    names = {name for one in METRICS for name in (one.sample, one.name, f"{one.name}_bucket")}
    found = {name for name in re.findall(r"\btabletopic_\w+", text) if name != "tabletopic_kernel"}
    assert found <= names
    assert set(re.findall(r"\bTabletopic[A-Z]\w+", text)) <= {one.name for one in ALERTS}
