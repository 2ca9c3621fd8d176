"""When commits of a table that is kept by key come."""

from __future__ import annotations

from tabletopic_kernel.host.schedule import Schedule
from tabletopic_kernel.model.commit_cycle import Event, State
from tabletopic_kernel.model.settings.sections import TopicSettings


def test_a_costly_commit_is_followed_by_a_rest() -> None:
    """Of ten times its CPU, unless somebody asks; the reason is said. Appends never rest."""
    now = [0]
    schedule = Schedule(lambda: now[0])
    upsert = TopicSettings(mode="upsert", commit_interval_ms=1_000)
    schedule.committed(0, {}, upsert, cpu_ms=500)
    for now[0], event in ((1_000, None), (4_999, None), (5_000, Event.COMMIT_DUE)):
        assert schedule.due(State.STAGED, 2**40, upsert) == event
    assert schedule.stretched(upsert) is not None
    assert "every 5.0 s instead of 1.0 s" in (schedule.stretched(upsert) or "")
    now[0] = 2_000
    assert schedule.wait_s(State.STAGED, upsert) == 1.0
    schedule.ask_commit()
    assert schedule.due(State.STAGED, 0, upsert) == Event.COMMIT_DUE
    append = TopicSettings(commit_interval_ms=1_000)
    schedule.committed(0, {}, append, cpu_ms=500)
    assert schedule.due(State.STAGED, 0, append) == Event.COMMIT_DUE
    assert schedule.stretched(append) is None
