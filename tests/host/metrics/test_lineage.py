"""OpenLineage: which events a topic's life makes, and what a receiver cannot do to a host."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tabletopic_kernel.host.metrics.lineage import Runs, Sender, sender_of, trace_to
from tabletopic_kernel.model.errors import SettingsError
from tabletopic_kernel.model.progress import events
from tabletopic_kernel.model.settings.sections import LineageSettings

SETTINGS = LineageSettings(to="lineage.jsonl", every_ms=10_000)


def enabled(at_ms: int = 0) -> events.Enabled:
    """A host took the topic at offset 5 of each of two partitions."""
    return events.Enabled(topic="clicks", at_ms=at_ms, epoch=1, next_offsets={0: 5, 1: 5})


def committed(at_ms: int, end: int, rows: int = 10) -> events.Committed:
    """A commit up to an offset of partition 0."""
    progress = events.Progress(topic="clicks", table="default.clicks", next_offsets={0: end, 1: 5})
    return events.Committed(
        topic="clicks", at_ms=at_ms, snapshot_id=at_ms + 1, rows=rows, files=1, bytes=100, seconds=0.1,
        progress=progress,
    )  # fmt: skip


def heard(*told: events.ControlEvent) -> list[dict[str, Any]]:
    """What these events make."""
    runs = Runs(SETTINGS, "kafka://broker:9092", "https://catalog")
    return [made for event in told for made in runs.hear(event)]


def ranges(event: dict[str, Any]) -> list[tuple[int, int]]:
    """The offsets of an event's input, by partition."""
    partitions = event["inputs"][0]["facets"]["tabletopic_offsets"]["partitions"]
    return [(partition["from"], partition["next"]) for partition in partitions]


def test_commits_within_the_interval_are_one_event() -> None:
    """A RUNNING event has the offsets, rows and newest snapshot of all commits since the last one."""
    made = heard(
        enabled(), committed(4_000, 15), committed(10_000, 25), committed(12_000, 30), committed(21_000, 40),
        events.Stopped(topic="clicks", at_ms=22_000),
    )  # fmt: skip
    assert [each["eventType"] for each in made] == ["START", "RUNNING", "RUNNING", "COMPLETE"]
    assert len({each["run"]["runId"] for each in made}) == 1
    assert [ranges(each)[0] for each in made] == [(5, 5), (5, 25), (25, 40), (40, 40)]
    output = made[1]["outputs"][0]
    assert (output["namespace"], output["name"]) == ("https://catalog", "default.clicks")
    assert output["facets"]["version"]["datasetVersion"] == "10001"
    statistics = output["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["fileCount"], statistics["size"]) == (20, 2, 200)
    assert made[1]["inputs"][0]["namespace"] == "kafka://broker:9092"


def test_a_run_ends_with_what_was_committed_last() -> None:
    """Commits that no RUNNING event has told are in the last event, which has the reason of a failure."""
    failed = events.Failed(topic="clicks", at_ms=2_000, reason="password=hunter2 is wrong", waits=False)
    waits = events.Failed(topic="clicks", at_ms=1_500, reason="the broker is away", waits=True)
    start, last = heard(enabled(), committed(1_000, 9), waits, failed)
    assert (last["eventType"], ranges(last)[0]) == ("FAIL", (5, 9))
    assert last["run"]["facets"]["errorMessage"]["message"] == "password=*** is wrong"
    again = heard(enabled(), failed, enabled(3_000))
    assert start["run"]["runId"] != again[2]["run"]["runId"] != again[0]["run"]["runId"]


def test_each_event_has_the_form_of_the_specification() -> None:
    """What RunEvent and facets require is there: types, ids, times with a zone, producers and schemas."""
    runs = Runs(SETTINGS, "kafka://broker:9092", "https://catalog")
    told = (enabled(), committed(20_000, 9), committed(21_000, 10))
    made = [*(each for event in told for each in runs.hear(event)), *runs.end(22_000, "it was killed")]
    assert [each["eventType"] for each in made] == ["START", "RUNNING", "ABORT"]
    for event in made:
        assert event["eventTime"].endswith("+00:00")
        assert event["job"]["name"] == "clicks"
        holders = [event["run"], event["job"], *event["inputs"], *event["outputs"]]
        for facets in (holder.get(kind, {}) for holder in holders for kind in ("facets", "outputFacets")):
            assert all({"_producer", "_schemaURL"} <= {*facet} for facet in facets.values())


def test_a_dead_receiver_delays_nobody() -> None:
    """Events are taken while the receiver hangs; what a full queue leaves out, or fails, is counted."""
    hangs, goes_on = threading.Event(), threading.Event()

    def send(event: dict[str, Any]) -> str | None:
        hangs.set()
        goes_on.wait(30)
        return "responded 500"

    sender = Sender(send, pause_s=0)
    sender.take([{"n": 0}])
    assert hangs.wait(30)
    sender.take([{"n": n} for n in range(1_200)])
    assert sender.lost == 200
    goes_on.set()
    sender.close(30)
    assert sender.lost == 1_201


def test_a_file_gets_a_line_per_event(tmp_path: Path) -> None:
    """A host's runs are lines of JSON in a file, the last one when it ends."""
    heard_by: list[Any] = []
    ends: list[Exception | None] = []
    host: Any = SimpleNamespace(listen=heard_by.append, on_end=ends.append)
    file = tmp_path / "lineage.jsonl"
    trace_to(host, LineageSettings(to=str(file)), {"bootstrap.servers": "a:1,b:2"}, {"name": "lake"})
    heard_by[0](enabled())
    host.on_end(None)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["eventType"] for line in lines] == ["START", "ABORT"]
    assert lines[0]["inputs"][0]["namespace"] == "kafka://a:1"
    assert ends == [None]


@pytest.mark.parametrize("to", ["ftp://host/x", "http://", "http://[x"])
def test_a_place_that_is_neither_is_an_error(to: str) -> None:
    """A URL of another kind is not taken for a file."""
    with pytest.raises(SettingsError, match=r"lineage\.to"):
        sender_of(LineageSettings(to=to))
