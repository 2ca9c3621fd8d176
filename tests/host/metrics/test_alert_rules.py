"""The shipped alert rules, evaluated by Prometheus' own promtool."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabletopic_kernel.host.metrics.alerts import ALERTS
from tabletopic_kernel.host.metrics.declared import SHOWN_STATES
from tests.host.metrics.promtool import RULES, Case, Values, firing, run
from tests.host.metrics.samples import Rig, record

pytestmark = [pytest.mark.integration, pytest.mark.servers]

N = 44  # 22 minutes: each rule looks at 15, or compares with what was 15 ago
LOST, REFUSED, FAILURES = "lost_records_total", "refused_records_total", "failures_total"
UP, SECONDS = "server_up", "commit_duration_seconds_bucket"


def steady(value: float) -> list[float | None]:
    """The same all the time."""
    return [value] * N


def late(before: float | None, after: float, scrapes: int) -> list[float | None]:
    """Something changes; it has been so for that many scrapes."""
    return [before] * (N - scrapes) + [after] * scrapes


def rising(scrapes: int, *, by: float = 1) -> list[float | None]:
    """A counter that was 0 and rises once a minute."""
    return [*[0.0] * (N - scrapes), *(by * (at // 2 + 1) for at in range(scrapes))]


def of_host(name: str, host: str = "h1", **labels: str) -> str:
    """A series of a host."""
    pairs = ", ".join(f'{key}="{value}"' for key, value in {"instance": host, **labels}.items())
    return f"{name if name == 'up' else f'tabletopic_{name}'}{{{pairs}}}"


def of_topic(name: str, host: str = "h1", **labels: str) -> str:
    """A series of the topic."""
    return of_host(name, host, topic="clicks", **labels)


def calm(host: str = "h1") -> dict[str, Values]:
    """The host's metrics while nothing happens, for one topic with some history."""
    levels = {"up": 1, "in_group": 1, "poll_age_seconds": 1, "topics": 1, "end_offsets_age_seconds": 3,
              "dropped_events_total": 2}  # fmt: skip
    of_topics = {
        "commit_lag_seconds": 9, "commit_interval_seconds": 10, "dead_letters": 5, "epoch": 3, LOST: 7,
    }  # fmt: skip
    commits = [10.0 * at for at in range(N)]
    return {
        **{of_host(name, host): steady(value) for name, value in levels.items()},
        **{of_host(UP, host, server=one): steady(1) for one in ("broker", "registry", "catalog")},
        **{of_host(SECONDS, host, le=bound): commits for bound in ("1", "30", "60", "+Inf")},
        **{of_topic(name, host): steady(value) for name, value in of_topics.items()},
        **{of_topic("state", host, state=state): steady(state == "running") for state in SHOWN_STATES},
        of_topic(REFUSED, host, reason="bad_schema"): steady(5),
        of_topic(FAILURES, host, kind="commit"): steady(2),
    }


def handed_over() -> dict[str, Values]:
    """Host h1 leaves and is no longer a target, h2 takes over its topic for the last ten scrapes."""
    before = {series: [*[*values][:-10], *[None] * 10] for series, values in calm("h1").items()}
    after = {series: [*[None] * (N - 10), *[*values][-10:]] for series, values in calm("h2").items()}
    return before | after


def ended() -> dict[str, Values]:
    """Host h1 does not respond in the last eight scrapes."""
    before = {series: [*[*values][:-8], *[None] * 8] for series, values in calm("h1").items()}
    return before | {of_host("up"): late(1, 0, 8)}


Change = dict[str, Values]
# What happens, which series it changes, and the alert that fires, if one does.
CHANGES: tuple[tuple[str, Change, str], ...] = (
    ("nothing", {}, ""),
    ("no host is in the group", {of_host("in_group"): late(1, 0, 6)}, "NoHost"),
    ("one of two hosts is out of the group", {of_host("in_group", "h2"): late(1, 0, 12)}, "HostNotInGroup"),
    ("a host restarts", {of_host("up"): late(1, 0, 3)}, ""),
    ("the loop hangs", {of_host("poll_age_seconds"): late(1, 300, 5)}, "HostStuck"),
    ("the loop closes a topic", {of_host("poll_age_seconds"): late(1, 90, 5)}, ""),
    ("a server is away", {of_host(UP, server="registry"): late(1, 0, 6)}, "ServerDown"),
    ("a server was away for a minute", {of_host(UP, server="registry"): late(1, 0, 2)}, ""),
    ("no end offsets", {of_host("end_offsets_age_seconds"): late(3, 200, 6)}, "LagUnknown"),
    ("a topic failed", {of_topic("state", state="failed"): late(0, 1, 4)}, "TopicFailed"),
    ("a topic waits", {of_topic("state", state="waiting"): late(0, 1, 12)}, "TopicWaiting"),
    ("a transaction is open", {of_topic("open_transaction_seconds"): late(0, 1_000, 5)}, "OpenTransaction"),
    ("a topic waits for two minutes", {of_topic("state", state="waiting"): late(0, 1, 5)}, ""),
    ("a table is behind", {of_topic("commit_lag_seconds"): late(9, 100, 12)}, "Lag"),
    ("a table with long intervals", {of_topic("commit_lag_seconds"): late(9, 100, 12),
                                     of_topic("commit_interval_seconds"): steady(60)}, ""),
    ("a paused topic", {of_topic("commit_lag_seconds"): late(9, 100, 12),
                        of_topic("state", state="paused"): steady(1)}, ""),
    ("more are refused", {of_topic(REFUSED, reason="bad_schema"): late(5, 6, 1)}, "RecordsRefused"),
    ("the first of a reason", {of_topic(REFUSED, reason="json_text"): late(None, 1, 1)}, "RecordsRefused"),
    ("a letter of others", {of_topic("dead_letters"): late(5, 6, 1)}, "RecordsRefused"),
    ("a replay took letters", {of_topic("dead_letters"): late(5, 0, 1)}, ""),
    ("retention was faster", {of_topic(LOST): late(7, 8, 1)}, "RecordsLost"),
    ("commits fail", {of_topic(FAILURES, kind="commit"): rising(20)}, "CommitsFail"),
    ("a commit failed", {of_topic(FAILURES, kind="commit"): late(2, 3, 2)}, ""),
    ("commits are slow", {of_host(SECONDS, le=bound): steady(0) for bound in ("1", "30")}, "CommitsSlow"),
    ("owners change", {of_topic("epoch"): rising(20)}, "OwnerChanges"),
    ("the owner changed", {of_topic("epoch"): late(3, 4, 2)}, ""),
    ("the first schema that does not fit", {of_topic(FAILURES, kind="schema"): late(None, 1, 1)},
     "SchemaRefused"),
    ("another schema", {of_topic(FAILURES, kind="schema"): late(1, 2, 1)}, "SchemaRefused"),
    ("the first maintenance that failed", {of_topic(FAILURES, kind="maintenance"): late(None, 1, 1)},
     "MaintenanceFails"),
    ("events are dropped", {of_host("dropped_events_total"): late(2, 3, 1)}, "EventsDropped"),
)  # fmt: skip
CASES = (
    *(Case(name, calm() | change, {f"Tabletopic{one}"} if one else set()) for name, change, one in CHANGES),
    Case("the only host ended", ended(), {"TabletopicHostDown", "TabletopicNoHost"}),
    Case("one of two hosts ended", calm("h2") | ended(), {"TabletopicHostDown"}),
    Case("a host leaves and another takes over", handed_over()),
    # What the next host found at once is news also to those who saw none of it before.
    Case("retention was faster than the next host", handed_over() | {of_topic(LOST, "h2"): late(None, 8, 10)},
         {"TabletopicRecordsLost"}),
)  # fmt: skip


def test_each_rule_fires_when_it_must_and_no_other(tmp_path: Path) -> None:
    """Each alert has a case in which it fires; in the calm and after short trouble none does."""
    found = firing(CASES, tmp_path)
    assert found == {case.name: case.fires for case in CASES}
    assert set().union(*found.values()) == {alert.name for alert in ALERTS}


def test_promtool_finds_no_fault_in_rules_and_metrics() -> None:
    """Neither in the file nor in what a host shows, by the rules that Prometheus has for names and help."""
    assert run("check", "rules", str(RULES)).returncode == 0
    told = run("check", "metrics", given=Rig(record()).text())
    assert (told.returncode, told.stdout) == (0, "")
    wrong = run("check", "metrics", given="# TYPE clicks counter\nclicks 1\n")
    assert wrong.returncode != 0
