"""A host in production: scraped, checked for liveness and readiness, its logs read by programs."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tabletopic_kernel.local.stack import LocalStack, StackInfo
from tabletopic_kernel.workbench.workbench import Workbench
from tests.recovery.checks import check_exact, wait_for_commits, wait_until_lag_is_0
from tests.recovery.hosts import HostProcess, Hosts
from tests.recovery.stream import Stream
from tests.recovery.waiting import wait_until

pytestmark = pytest.mark.integration
BEGIN = "metrics at "
SERVERS = (("", "broker"), ("", "registry"), ("lake", "catalog"))


def logged(host: HostProcess) -> list[dict[str, str]]:
    """The host's output, each line a document."""
    return [json.loads(line) for line in host.output.read_text("utf-8").splitlines()]


def url_of(host: HostProcess) -> str:
    """Where it listens, once it has reported that."""
    lines = wait_until(
        "the host names its port",
        lambda: [one["message"] for one in logged(host) if one["message"].startswith(BEGIN)],
    )
    return lines[0].removeprefix(BEGIN).removesuffix("/metrics")


def get(url: str) -> tuple[int, str]:
    """Status and text."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def scrape(url: str) -> dict[tuple[str, ...], float]:
    """Values by name and labels, these sorted by their names."""
    status, text = get(f"{url}/metrics")
    assert status == 200
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_host_that_is_watched(
    stack: StackInfo, bench: Workbench, hosts: Hosts, new_stream: Callable[..., Stream]
) -> None:
    """Broker and registry go and come back: pages and metrics say so, the host lives, no record is lost."""
    hosts.exactly(0)
    host = hosts.start(quiet=False, options=("--metrics-port", "0", "--log-format", "json"))
    url = url_of(host)
    assert get(f"{url}/healthz") == (200, "ok\n")
    wait_until("it is ready", lambda: get(f"{url}/readyz") == (200, "ok\n"))

    stream = new_stream(3)
    stream.begin(per_second=100)
    bench.enable(stream.topic, {"commit_interval_ms": "500ms"})
    wait_for_commits(bench, stream.topic, 2)

    def well() -> dict[tuple[str, ...], float] | None:
        found = scrape(url)
        counted = ("tabletopic_commit_lag_records", stream.topic) in found
        runs = found.get(("tabletopic_state", "running", stream.topic)) == 1
        up = [found.get(("tabletopic_server_up", *name)) for name in SERVERS] == [1, 1, 1]
        return found if counted and runs and up else None

    before = wait_until("it is well, and its lag is counted", well)
    assert before is not None
    assert before["tabletopic_committed_rows_total", stream.topic] > 0
    assert before["tabletopic_commits_total", stream.topic] >= 2
    assert before["tabletopic_commit_duration_seconds_count",] >= 2
    assert before["tabletopic_batch_duration_seconds_count",] >= 2
    assert {before["tabletopic_partition_lag_seconds", str(p), stream.topic] < 60 for p in range(3)} == {True}

    # librdkafka 2.16 twice sent nothing for four minutes after such an outage: another producer goes on.
    stream.end()
    local = LocalStack(stack.state_dir)
    assert set(local.down(["kafka", "registry"])) == {"kafka", "registry"}
    reasons = wait_until(
        "it names both",
        lambda: found if {"broker", "registry"} <= set((found := get(f"{url}/readyz")[1]).split()) else None,
    )
    assert reasons is not None
    assert "catalog" not in reasons
    assert get(f"{url}/readyz")[0] == 503
    assert get(f"{url}/healthz") == (200, "ok\n")
    during = scrape(url)
    assert [during["tabletopic_server_up", *name] for name in SERVERS] == [0, 0, 1]
    assert during["tabletopic_end_offsets_age_seconds",] > 3

    local.up(die_with_parent=True)
    wait_until("it is ready again", lambda: get(f"{url}/readyz") == (200, "ok\n"))
    stream.begin(per_second=100)
    wait_for_commits(bench, stream.topic, 2)
    stream.end()
    wait_until_lag_is_0(bench, stream.topic)
    lag = "tabletopic_commit_lag_records", stream.topic
    # No lag is told while the topic is between two hosts or epochs.
    wait_until("no lag", lambda: scrape(url).get(lag) == 0)
    wait_until("the broker is up", lambda: scrape(url)["tabletopic_server_up", "", "broker"] == 1)
    after = scrape(url)
    rows = "tabletopic_committed_rows_total", stream.topic
    assert after[rows] > before[rows]

    assert host.stop()[0] == 0
    news = [one for one in logged(host) if one.get("event") == "Committed"]
    assert news[0]["topic"] == stream.topic
    assert all({"time", "level", "logger", "message"} <= one.keys() for one in logged(host))
    check_exact(bench, stream)
