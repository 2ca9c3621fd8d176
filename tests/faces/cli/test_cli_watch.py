"""status and events."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from tabletopic_kernel.faces.cli.commands import topics
from tabletopic_kernel.model.errors import RetryableError
from tabletopic_kernel.model.progress import events
from tabletopic_kernel.model.progress.delay import Delay
from tabletopic_kernel.model.progress.events import EVENT_ADAPTER, Progress, SchemaVersion
from tabletopic_kernel.render.words import event_text


def test_status_of_one_is_an_object(run: Callable[..., Any]) -> None:
    """Partitions are its keys' text; a topic that is not enabled is wrong use."""
    told = run("status", "clicks", "--json").json
    assert told["next_offsets"] == {"0": 100, "1": 200}
    assert run("status", "--json").json == [told]
    assert run("status", "nope").code == 2


def test_the_table_shows_lag_and_servers(run: Callable[..., Any]) -> None:
    """And one topic its partitions and schemas; the servers to copy have no password."""
    text = run("status").out
    for part in (
        "clicks",
        "default.clicks",
        "running",
        "1,234",
        "2.5 s",
        "1,000,000",
        "560",
        "v3",
        "127.0.0.1:9092",
    ):
        assert part in text
    assert "registry           http://***@127.0.0.1:8081" in text
    assert "hidden" not in text
    lines = [" ".join(line.split()) for line in run("status", "clicks").out.splitlines()]
    assert "offsets 0: 100 of 1,334, 1: 200 of 200" in lines
    assert "schemas clicks-value v3" in lines


def test_one_topic_shows_what_is_no_row(run: Callable[..., Any], fake: Any) -> None:
    """Refused records and those without a row, by reason; dead letters; what retention took."""
    assert "refused" not in run("status", "clicks").out
    fake.found = [
        dataclasses.replace(
            fake.found[0],
            refused={"avro_trailing_bytes": 1_005},
            dead_letters=5,
            dead_letter_table="default.clicks__dead_letters",
            passed_over={"tombstone": 7},
            lost={1: 12},
        )
    ]
    lines = [" ".join(line.split()) for line in run("status", "clicks").out.splitlines()]
    assert "refused avro_trailing_bytes: 1,005; 5 in default.clicks__dead_letters" in lines
    assert "no row tombstone: 7" in lines
    assert "lost 12 records, by retention (partition 1: 12)" in lines


def test_errors_stand_below_the_table(run: Callable[..., Any], fake: Any) -> None:
    """In a line of their own; where nothing is enabled, status says how to begin."""
    fake.found = [
        dataclasses.replace(fake.found[0], state="failed", error="schema [v2] refused", lag_records=None)
    ]
    text = run("status").out
    assert "clicks: schema [v2] refused" in text
    assert "failed" in text
    assert "- records" in run("status", "clicks").out
    fake.found = []
    text = run("status").out
    assert "tabletopic enable TOPIC" in text
    assert "127.0.0.1:9092" in text
    assert run("status", "--json").json == []


def test_topics_that_are_late_say_why_once(run: Callable[..., Any], fake: Any) -> None:
    """In the state's column, and below the table a line for each reason, whatever the number of topics."""
    turn, behind = Delay.WAITING_FOR_TURN, Delay.BEHIND
    late = {"delay": turn.value, "delay_reason": turn.reason}
    fake.found = [
        *(dataclasses.replace(fake.found[0], topic=f"t{number}", **late) for number in range(5)),
        dataclasses.replace(fake.found[0], topic="slow", delay=behind.value, delay_reason=behind.reason),
    ]
    text = " ".join(run("status").out.split())
    assert text.count("waiting for turn") == 5
    assert text.count(turn.reason) == 1
    assert f"t0, t1, t2 and 2 more: {turn.reason}" in text
    assert f"slow: {behind.reason}" in text
    assert behind.reason in " ".join(run("status", "slow").out.split())
    assert [one["delay"] for one in run("status", "--json").json] == ["waiting_for_turn"] * 5 + ["behind"]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_an_outage_does_not_end_a_watch(
    run: Callable[..., Any], fake: Any, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    """Also where the output is no terminal, such as a pipe to a monitor; there, too, it is told."""
    fake.coming = [*fake.found, RetryableError("the broker is away"), *fake.found, KeyboardInterrupt()]
    monkeypatch.setattr(topics, "_REFRESH_S", 0.001)
    ended = run("status", "--watch", *options)
    assert ended.out.count('"state": "running"' if options else "running") == 2
    assert "the broker is away; retrying …" in (ended.err if options else ended.out)


def _told() -> list[events.ControlEvent]:
    progress = Progress(topic="clicks", table="default.clicks")
    return [
        events.Enabled(topic="clicks", at_ms=1, host="h", epoch=1, next_offsets={0: 5}),
        events.Heartbeat(topic="clicks", at_ms=2, host="h", progress=progress),
        events.Stopped(topic="clicks", at_ms=3, host="h"),
    ]


def test_events_are_whole_without_heartbeats(run: Callable[..., Any], fake: Any) -> None:
    """A line of --json is an event that can be read back; heartbeats come only on request."""
    fake.told = _told()
    assert [line.split()[2] for line in run("events").out.splitlines()] == ["Enabled", "Stopped"]
    assert "Heartbeat" in run("events", "--all").out
    lines = run("events", "--json", "--all").out.splitlines()
    assert [EVENT_ADAPTER.validate_python(json.loads(line)) for line in lines] == fake.told


def test_a_wrong_since(run: Callable[..., Any], fake: Any) -> None:
    """A span that is none is wrong use, with examples; one before 1970 is everything, and may be empty."""
    run("events", "--since", "999999999999999d")
    assert fake.asked[0][1][1] == 0
    ended = run("events", "--since", "soon")
    assert ended.code == 2
    assert "--since: 'soon' is not a duration" in ended.err
    ended = run("events")
    assert (ended.code, ended.out) == (0, "")
    assert "no events in the last 1h" in ended.err


_CAUSE = SchemaVersion(id=3, subject="clicks-value", version=2)
_BASE: dict[str, Any] = {"topic": "clicks", "at_ms": 1, "host": "h"}


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (
            events.Enabled(**_BASE, epoch=2, next_offsets={0: 5, 1: 6}),
            "taken over by h, epoch 2, at offset 11 over 2 partitions",
        ),
        (
            events.FilesStaged(**_BASE, rows=1000, files=1, bytes=2048, seconds=0.5),
            "1,000 rows in 1 file (2.0 KiB) in 0.5 s",
        ),
        (
            events.Committed(
                **_BASE,
                snapshot_id=9,
                rows=1,
                files=2,
                bytes=5,
                seconds=0.25,
                progress=Progress(topic="a", table="b"),
            ),
            "1 row in 2 files (5 B) in 0.2 s, snapshot 9",
        ),
        (events.CommitFailed(**_BASE, reason="conflict"), "conflict"),
        (events.Failed(**_BASE, reason="broker down", waits=True), "broker down; waiting to retry"),
        (events.Failed(**_BASE, reason="gap", waits=False), "gap"),
        (
            events.SchemaEvolved(
                **_BASE, changes=["add city string", "widen n"], cause=_CAUSE, table_schema_id=1
            ),
            "add city string; widen n (by clicks-value v2, id 3)",
        ),
        (events.SchemaRefused(**_BASE, refused={"n": "cannot narrow"}, cause=None), "n cannot narrow"),
        (
            events.EnableRefused(**_BASE, pattern="shop.*", reason="no storage"),
            "no storage (the pattern shop.* matches it)",
        ),
        (events.DeadLettered(**_BASE, counts={"bad bytes": 3}), "bad bytes: 3 skipped"),
        (
            events.GapDetected(**_BASE, missing={2: (10, 50)}),
            "partition 2: next offset was 10, the first available is 50",
        ),
        (events.Paused(**_BASE), ""),
        (events.Stopped(**_BASE), "released by h"),
    ],
)
def test_every_kind_of_event_has_words(event: events.ControlEvent, text: str) -> None:
    """Each event says in one line what happened."""
    assert event_text(event) == text
