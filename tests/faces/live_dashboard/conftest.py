"""A record of topics in all conditions, as a dashboard's threads would assemble it."""

from __future__ import annotations

import pytest

from tabletopic_kernel.faces.live_dashboard.view import Retention, TableFacts, View
from tabletopic_kernel.model.commit_cycle import State
from tabletopic_kernel.model.progress import events
from tabletopic_kernel.model.progress.events import Progress, SchemaVersion
from tabletopic_kernel.model.progress.progress_view import Record
from tabletopic_kernel.model.settings.desired import DesiredTopic
from tabletopic_kernel.table.history import TableSnapshot

NOW = 1_700_000_600_000
V1 = SchemaVersion(id=1, subject="clicks-value", version=1)
V2 = SchemaVersion(id=2, subject="clicks-value", version=2)


def progress(topic: str, number: int, state: State = State.RUNNING, error: str | None = None) -> Progress:
    """A topic's progress after this many commits of 500 rows."""
    return Progress(
        topic=topic,
        table=f"default.{topic}",
        state=state,
        error=error,
        epoch=3,
        next_offsets={0: 300 * number, 1: 200 * number},
        schema_versions=[V1, V2],
        snapshot_id=9_000_000_000_000_000_000 + number,
        commits=number,
        rows=500 * number,
        files=number,
        rows_per_second=100.0,
        last_commit_ms=NOW - 1_000,
        commit_interval_ms=5_000,
        refused={"invalid": 12, "unknown_schema": 3},
        passed_over={"filtered": 2_000},
        dead_letters=15,
        dead_letter_table=f"default.{topic}__dead_letters",
    )


def told(topic: str, state: State = State.RUNNING, error: str | None = None) -> list[events.ControlEvent]:
    """Ten minutes of a topic: a commit every 5 s, a schema change, a rejected one, dead letters."""
    first, stamp = NOW - 600_000, {"topic": topic, "host": "vm-1"}
    found: list[events.ControlEvent] = [
        events.Enabled(**stamp, at_ms=first, epoch=3, next_offsets={0: 0, 1: 0}),
        events.SchemaEvolved(
            **stamp, at_ms=NOW - 300_000, changes=["add country string"], cause=V2, table_schema_id=1
        ),
        events.SchemaRefused(
            **stamp, at_ms=NOW - 200_000, refused={"price": "decimal(9,2) does not fit <b>text</b>"}, cause=V2
        ),
        events.DeadLettered(
            **stamp,
            at_ms=NOW - 100_000,
            counts={"invalid": 12},
            samples=[
                events.RefusedSample(
                    partition=1, offset=77, schema_id=1, reason="invalid", message="<script>alert(1)</script>"
                )
            ],
        ),
    ]
    for number in range(1, 121):
        at_ms = first + number * 5_000 - 1_000
        found.append(
            events.Committed(
                **stamp,
                at_ms=at_ms,
                snapshot_id=number,
                rows=500,
                files=2,
                bytes=40_000,
                seconds=0.4,
                progress=progress(topic, number),
            )
        )
    found.append(events.Heartbeat(**stamp, at_ms=NOW - 500, progress=progress(topic, 120, state, error)))
    return found


@pytest.fixture
def record() -> Record:
    """Three topics: one running, one failed, one that no host has ever run."""
    made = Record()
    made.fold(told("clicks"))
    made.fold(told("orders", State.FAILED, "partition 1, offset 77: no number"))
    made.read_from_table(Progress(topic="views", table="default.views"))
    for seconds in range(600, -1, -2):
        end = 300 * (120 - seconds // 5) + 40
        ends = {0: max(0, end), 1: 24_000}
        made.observe_ends(NOW - seconds * 1_000, {"clicks": ends, "orders": ends, "views": {0: 7}})
    made.observe_oldest(NOW, {"clicks": NOW - 4_000, "orders": NOW - 8_000, "views": NOW - 3_600_000})
    return made


@pytest.fixture
def view(record: Record) -> View:
    """What the pages show."""
    ledger = {0: 36_000, 1: 24_000}
    snapshot = TableSnapshot(4711, 4710, NOW - 1_000, "append", 500, 2, 40_000, 60_000, 240, 1, ledger, 3)
    foreign = TableSnapshot(4710, None, NOW - 9_000, "replace", 0, 1, 39_000, 59_500, 238, 1, None, None)
    return View(
        record=record,
        now_ms=NOW,
        desired_topics={name: DesiredTopic(topic=name) for name in ("clicks", "orders", "views")},
        hosts=("vm-1",),
        tables={"clicks": TableFacts("default.clicks", 60_000, 240, 4_800_000, 121, (snapshot, foreign))},
        retention={"clicks": Retention(604_800_000, -1, "delete")},
    )
