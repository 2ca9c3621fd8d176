"""The files in `deploy/` fit the program: options, exit codes, metrics, queries."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from pathlib import Path
from typing import Any

import kubernetes_validate
import promql_parser
import pyspark
import pytest
import typer.main
import yaml

from tabletopic_kernel.faces.cli import call
from tabletopic_kernel.faces.cli.app import app
from tabletopic_kernel.host.metrics.alerts import ALERTS
from tabletopic_kernel.host.metrics.declared import METRICS
from tabletopic_kernel.host.topics import running_topics
from tabletopic_kernel.model.settings.cluster import out_of_reach
from tabletopic_kernel.workbench.config import load_settings

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
    options = {name for param in group.commands["serve"].params for name in param.opts}
    assert {word for word in words if word.startswith("-")} <= options


def test_the_unit_starts_and_ends_a_host() -> None:
    """Its options exist, Spark gets no signal before the host, and there is time for the last commit."""
    service = unit()
    check_command(shlex.split(service["ExecStart"]))
    assert service["KillMode"] == "mixed"
    assert int(service["TimeoutStopSec"]) > running_topics.CLOSE_S
    assert int(service["RestartPreventExitStatus"]) == call.WRONG_USE


# --- Kubernetes -------------------------------------------------------------------------------------------


def manifests() -> dict[str, dict[str, Any]]:
    """What is to be applied, by kind."""
    text = (DEPLOY / "kubernetes" / "host.yaml").read_text("utf-8")
    return {one["kind"]: one for one in yaml.safe_load_all(text)}


@pytest.mark.parametrize("kind", sorted(manifests() if DEPLOY.exists() else []))
def test_manifests_are_of_kubernetes_schemas(kind: str) -> None:
    """No field is unknown, and none has a value that it cannot have."""
    kubernetes_validate.validate(manifests()[kind], kubernetes_validate.latest_version(), strict=True)
    assert kind == "Namespace" or manifests()[kind]["metadata"]["namespace"] == "tabletopic"


def test_manifests_are_what_they_say() -> None:
    """The schemas find a mistake; executors have the Spark of the host, in the image's user."""
    wrong = manifests()["Deployment"]
    wrong["spec"]["template"]["spec"]["terminationGracePeriod"] = 120
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, kubernetes_validate.latest_version(), strict=True)
    text = (DEPLOY / "Dockerfile.executor").read_text("utf-8")
    assert f"apache/spark:{pyspark.__version__}-" in text
    assert "Nobody has built this file" in text
    context = manifests()["Deployment"]["spec"]["template"]["spec"]["securityContext"]
    assert f"USER {context['runAsUser']}\n" in text
    assert f"--uid {context['runAsUser']} " in (DEPLOY / "Dockerfile").read_text("utf-8")
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    words = json.loads(text.partition("ENTRYPOINT ")[2].replace("\\\n", ""))
    check_command(words)
    assert "Nobody has built this file" in text


def test_the_deployment_starts_and_ends_a_host() -> None:
    """As the unit does, with probes of pages that there are."""
    pod = manifests()["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    check_command([*container["command"], *container["args"]])
    assert pod["terminationGracePeriodSeconds"] > running_topics.CLOSE_S
    pages = [container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("liveness", "readiness")]
    assert pages == ["/healthz", "/readyz"]
    assert pod["serviceAccountName"] == manifests()["ServiceAccount"]["metadata"]["name"]


def test_the_settings_of_the_deployment_are_the_programs(tmp_path: Path) -> None:
    """File, variables and secrets together; a host may start with them, as far as settings tell."""
    file = tmp_path / "tabletopic.toml"
    file.write_text(manifests()["ConfigMap"]["data"]["tabletopic.toml"])
    (container,) = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"]
    variables = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    settings = load_settings(
        environ={**variables, **manifests()["Secret"]["stringData"], "TABLETOPIC_CONFIG": str(file)},
        cwd=tmp_path,
    ).settings
    assert settings.kafka["sasl.password"] == "PASSWORD"
    assert settings.registry["basic.auth.user.info"] == "USER:PASSWORD"
    assert settings.spark.conf["spark.driver.host"] == "$(POD_IP)"
    assert settings.spark.conf["spark.kubernetes.driver.pod.name"] == "$(POD_NAME)"
    assert not settings.spark.is_local
    assert out_of_reach(settings.spark, settings.kafka, settings.catalog) == []


# --- queries ----------------------------------------------------------------------------------------------


def panels() -> list[dict[str, Any]]:
    """Those of the dashboard that show something."""
    page = json.loads((DEPLOY / "grafana.json").read_text("utf-8"))
    return [one for one in page["panels"] if one["type"] != "row"]


def test_rules_are_read_by_prometheus_grammar() -> None:
    """Each rule is whole, and its expression parses."""
    (group,) = yaml.safe_load((DEPLOY / "alerts.yml").read_text("utf-8"))["groups"]
    assert [rule["alert"] for rule in group["rules"]] == [alert.name for alert in ALERTS]
    for rule in group["rules"]:
        promql_parser.parse(rule["expr"])
        assert re.fullmatch(r"\d+[mh]", rule["for"])
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]


def test_the_dashboard_shows_every_metric() -> None:
    """A panel each, with queries that parse, none over another."""
    names = {name for metric in METRICS for name in (metric.sample, f"{metric.name}_bucket")}
    assert len(panels()) == len(METRICS)
    for panel in panels():
        assert panel["targets"]
        for target in panel["targets"]:
            expr = target["expr"].replace("$__rate_interval", "5m")
            promql_parser.parse(expr)
            assert set(re.findall(r"tabletopic_\w+", expr)) <= names
    places = {(one["gridPos"]["x"], one["gridPos"]["y"]) for one in panels()}
    assert len(places) == len(METRICS)


@pytest.mark.parametrize("page", ["how-to/operate/monitor.md", "reference/metrics.md"])
def test_pages_name_metrics_and_alerts_that_exist(page: str) -> None:
    """Whoever reads them finds them in the scrape."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    names = {name for metric in METRICS for name in (metric.sample, metric.name, f"{metric.name}_bucket")}
    found = {
        name
        for name in re.findall(r"\btabletopic_\w+", text)
        if name not in ("tabletopic_kernel", "tabletopic_offsets")
    }
    assert found <= names
    assert set(re.findall(r"\bTabletopic[A-Z]\w+", text)) <= {alert.name for alert in ALERTS}
