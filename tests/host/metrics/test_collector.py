"""What a scrape of a host reads."""

from __future__ import annotations

import re
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tabletopic_kernel.host.metrics.alerts import ALERTS, alerts_of
from tabletopic_kernel.host.metrics.collector import MOST_PARTITIONS
from tabletopic_kernel.host.metrics.declared import BY_NAME, METRICS, SHOWN_STATES, STATES
from tabletopic_kernel.model.commit_cycle import State
from tabletopic_kernel.model.errors import RetryableError
from tabletopic_kernel.model.progress import events
from tabletopic_kernel.model.redact import learn
from tests.host.metrics.samples import COMPACTED, HEARTBEAT, NOW_MS, STAMP, FakeHost, Rig, record

COMMITTED = events.Committed(
    **STAMP, snapshot_id=1, rows=40, files=2, bytes=1_000, seconds=0.3, progress=record()
)
EVENTS: list[events.ControlEvent] = [
    HEARTBEAT, COMMITTED, COMPACTED, events.FilesStaged(**STAMP, rows=40, files=2, bytes=1_000, seconds=1.5),
    events.CommitFailed(**STAMP, reason="no"), events.Failed(**STAMP, reason="no", waits=True),
    events.Failed(**STAMP, reason="no", waits=False),
    events.SchemaEvolved(**STAMP, changes=["added b", "added c"], cause=None, table_schema_id=2),
    events.SchemaRefused(**STAMP, refused={"a": "no"}, cause=None),
    events.Replayed(**STAMP, replay_id="x", rows=0, error="no"),
    events.Expired(**STAMP, snapshots=4, kept=20, files=6, bytes=60),
    events.OrphansRemoved(**STAMP, files=1, bytes=5, error="no"),
    events.RowsDeleted(**STAMP, error="no"), events.Erased(**STAMP, request_id="y", error="no"),
]  # fmt: skip


def full_rig(topics: int, partitions: int = 3) -> Rig:
    """Each topic was committed and compacted, had an outage and has dead letters; one had everything."""
    names = [f"orders-eu-{number:03}" for number in range(topics)]
    more: dict[str, Any] = {
        "next_offsets": dict.fromkeys(range(partitions), 1_000_000),
        "newest_ms": dict.fromkeys(range(partitions), NOW_MS), "refused": {"avro_truncated": 3},
        "rows": 123_456_789, "files": 1234, "last_commit_ms": NOW_MS,
    }  # fmt: skip
    rig = Rig(*(record(name, **more) for name in names))
    ends = {name: dict.fromkeys(range(partitions), 1_000_017) for name in names}
    rig.lags.learn(ends, NOW_MS - 4_321, {names[0]: {0: 5}})
    for name in names:
        for event in (COMMITTED, COMPACTED, EVENTS[5]):
            rig.metrics.hear(event.model_copy(update={"topic": name}))
    for event in EVENTS:
        rig.metrics.hear(event)
    rig.host.records[0] = rig.host.records[0].model_copy(
        update={
            "passed_over": {"tombstone": 3},
            "changes": {"update": 2},
            "expectation_failures": {"positive": 1},
        }
    )
    rig.ask()
    return rig


def test_a_scrape_is_what_prometheus_reads() -> None:
    """Its own parser takes it; metrics are there, a hundred topics are 200 KB, names end in units."""
    rig = full_rig(3)
    families = {one.name: one for one in text_string_to_metric_families(rig.text())}
    assert list(families) == [metric.name for metric in METRICS]
    for one in METRICS:
        family = families[one.name]
        assert family.type == one.kind
        assert family.documentation == one.help
        assert family.samples, one.name
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(one.labels), sample
    assert 100_000 < len(full_rig(100).text()) <= 200_000
    for one in METRICS:
        assert one.name.startswith("tabletopic_")
        assert one.name.endswith(one.unit)
        assert not one.name.endswith("_total")
        assert not one.help.endswith(".")
    assert len(BY_NAME) == len(METRICS)
    assert set(STATES) == set(State)


def test_what_events_count() -> None:
    """Rows, commits, times, failures, maintenance, changes by others; rates begin with 0."""
    rig = Rig(record())
    for event in EVENTS:
        rig.metrics.hear(event)
    rig.metrics.hear(COMMITTED)
    label = '{topic="clicks"'
    assert rig.value(f"tabletopic_committed_rows_total{label}}}") == 80
    assert rig.value(f"tabletopic_committed_bytes_total{label}}}") == 2_000
    assert rig.value(f"tabletopic_commits_total{label}}}") == 2
    assert rig.value('tabletopic_commit_duration_seconds_bucket{le="0.25"}') == 0
    assert rig.value('tabletopic_commit_duration_seconds_bucket{le="0.5"}') == 2
    assert rig.value("tabletopic_batch_duration_seconds_sum") == 1.5
    failures = {"waits": 1, "stops": 1, "commit": 1, "schema": 1, "replay": 1, "maintenance": 3}
    for kind, count in failures.items():
        assert rig.value(f'tabletopic_failures_total{{kind="{kind}",topic="clicks"}}') == count, kind
    assert rig.value('tabletopic_maintenance_total{topic="clicks",work="compaction"}') == 1
    assert rig.value('tabletopic_removed_files_total{work="compaction"}') == 9
    assert rig.value('tabletopic_maintenance_total{topic="clicks",work="orphans"}') is None
    assert rig.value("tabletopic_expired_snapshots_total") == 4
    assert rig.value("tabletopic_memory_bytes") == 7e9
    assert rig.value('tabletopic_schema_changes_total{topic="clicks"}') == 1
    assert Rig(record(foreign_changes=3)).value('tabletopic_foreign_changes_total{topic="clicks"}') == 3
    assert Rig(record()).value('tabletopic_commits_total{topic="clicks"}') == 0


@pytest.mark.parametrize(("state", "shown"), STATES.items())
def test_one_state_is_hot(state: State, shown: str) -> None:
    """Each state of the protocol is one of those that are shown."""
    rig = Rig(record(state=state))
    values = {one: rig.value(f'tabletopic_state{{state="{one}",topic="clicks"}}') for one in SHOWN_STATES}
    assert values == {one: float(one == shown) for one in SHOWN_STATES}


def test_lag_by_topic_and_partition() -> None:
    """Records are added up, of ages the highest counts; what is not known is not shown."""
    rig = Rig(record(next_offsets={0: 90, 1: 100}, newest_ms={0: NOW_MS - 9_000}), record("new", epoch=0))
    assert rig.value('tabletopic_commit_lag_records{topic="clicks"}') is None
    rig.lags.learn({"clicks": {0: 100, 1: 105}, "new": {0: 7}}, NOW_MS - 2_000)
    assert rig.value('tabletopic_commit_lag_records{topic="clicks"}') == 15
    assert rig.value('tabletopic_commit_lag_seconds{topic="clicks"}') == 9
    assert rig.value('tabletopic_partition_lag_records{partition="1",topic="clicks"}') == 5
    assert rig.value('tabletopic_partition_lag_seconds{partition="1",topic="clicks"}') == 2
    assert rig.value('tabletopic_commit_lag_records{topic="new"}') is None


def test_partitions_and_reasons_are_bounded() -> None:
    """A topic with too many has its sum; beyond ten reasons are one, and a long one is cut."""
    many = dict.fromkeys(range(MOST_PARTITIONS + 1), 5)
    rig = Rig(record("a", next_offsets={}), record("b", next_offsets={}))
    rig.lags.learn({"a": many, "b": {0: 5}}, NOW_MS)
    assert rig.value('tabletopic_commit_lag_records{topic="a"}') == 5 * len(many)
    assert rig.value("tabletopic_hidden_partitions") == len(many)
    assert rig.text().count("tabletopic_partition_lag_records{") == 1
    rig = Rig(record(refused={f"r{number:02}": 1 for number in range(30)} | {"a" * 500: 1}))
    lines = [line for line in rig.text().splitlines() if line.startswith("tabletopic_refused_records_total{")]
    assert len(lines) == 11
    assert lines[-1] == 'tabletopic_refused_records_total{reason="other",topic="clicks"} 21.0'
    assert max(map(len, lines)) < 140


def test_a_topic_that_left_is_forgotten() -> None:
    """Its last commit can still be scraped; of thousands that come and go nothing is kept."""
    rig = Rig(record())
    rig.metrics.hear(COMMITTED)
    rig.host.records = []
    rig.clock.now_s = 60
    assert rig.value('tabletopic_commits_total{topic="clicks"}') == 1
    rig.clock.now_s = 2_000
    assert "clicks" not in rig.text()


def test_servers_that_do_not_answer() -> None:
    """Each has its own sample, which moves back once it answers."""
    rig = Rig()
    assert rig.value('tabletopic_server_up{catalog="",server="broker"}') == 0  # nobody has asked yet
    rig.troubles["registry"] = RetryableError("away")
    rig.ask()
    assert rig.value('tabletopic_server_up{catalog="",server="broker"}') == 1
    assert rig.value('tabletopic_server_up{catalog="",server="registry"}') == 0
    rig.troubles.clear()
    rig.clock.now_s = 5
    rig.ask()
    rig.clock.now_s = 7
    assert rig.value('tabletopic_server_up{catalog="",server="registry"}') == 1
    assert rig.value("tabletopic_end_offsets_age_seconds") == 2


def test_no_label_and_no_help_holds_a_secret() -> None:
    """Whatever an event or a table says: reasons are masked, other texts are no labels."""
    secret = "hunter2-Ä/'\"%+= x"
    learn({"sasl.password": secret})
    rig = Rig(record(refused={secret: 1}, passed_over={f"was {secret}": 1}, error=f"no {secret}"))
    rig.host = rig.metrics._host = FakeHost(rig.host.records, waits_for=secret)
    for event in (
        events.Failed(**STAMP, reason=secret, waits=False),
        events.CommitFailed(**STAMP, reason=secret),
        events.SchemaRefused(**STAMP, refused={secret: secret}, cause=None),
        events.Replayed(**STAMP, replay_id=secret, rows=0, error=secret),
        events.DeadLettered(**STAMP, counts={secret: 1}),
        COMPACTED.model_copy(update={"error": secret}),
        HEARTBEAT,
    ):
        rig.metrics.hear(event)
    rig.troubles = dict.fromkeys(rig.servers, RetryableError(secret))
    rig.ask()
    text = rig.text()
    assert 'reason="***"' in text
    assert "hunter2" not in text
    assert list(text_string_to_metric_families(text))


def test_alerts_read_what_is_there() -> None:
    """Each name in an expression is a sample that a scrape of a host has, with the labels that it names."""
    families = text_string_to_metric_families(full_rig(1).text())
    samples = {sample.name for family in families for sample in family.samples}
    for alert in ALERTS:
        names = set(re.findall(r"tabletopic_\w+", alert.expr))
        assert names, alert.name
        assert names <= samples, alert.name
        assert alert.metrics
    assert alerts_of("tabletopic_commit_lag_seconds") == ("TabletopicLag",)
    assert alerts_of("tabletopic_commit_duration_seconds") == ("TabletopicCommitsSlow",)
