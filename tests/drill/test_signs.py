"""Each fault of the drill moves a declared metric, and fires a shipped alert."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabletopic_kernel.host.metrics.alerts import ALERTS
from tabletopic_kernel.host.metrics.declared import METRICS
from tabletopic_kernel.local.crash_points import Act
from tests.drill.faults import _DOINGS
from tests.drill.run import run
from tests.drill.schedule import _NEEDS, HEAVY, Fault, one_by_one
from tests.drill.signs import SIGNS, Fires, Moves, Scrape, Series, Sighting, Sign
from tests.drill.streams import WATCHED_PLANS
from tests.host.metrics.promtool import Case, firing, program

EXPRESSIONS = {one.name: one.expr for one in ALERTS}
BEFORE, AFTER = 20, 80  # scrapes of the calm, and of what goes on as it was seen: longer than any rule looks


def test_no_fault_lacks_its_sign() -> None:
    """Nor does an act at a step; what metrics and alerts are called is declared."""
    assert SIGNS.keys() == set(Fault) == _DOINGS.keys()
    assert set(_NEEDS) | {Act.FAIL, Act.HOLD} == set(Act)  # as killed, stopped, frozen; a disk; what is held
    names = {name for one in METRICS for name in (one.name, one.sample)} | {"up"}
    for fault, sign in SIGNS.items():
        assert sign.name in names, fault
        assert (sign.alert in EXPRESSIONS) is (sign.fires is not Fires.NEVER), fault
        assert sign.topic in {None, *(plan.topic for plan in WATCHED_PLANS)}
        if sign.fires in (Fires.AT_ONCE, Fires.LASTING):
            assert sign.name in re.findall(r"\w+", EXPRESSIONS[sign.alert]), fault


def test_one_by_one() -> None:
    """Each fault alone; those after which a host starts again come last."""
    rounds = list(one_by_one(frozenset(Fault)))
    assert {one.alone for one in rounds} == set(Fault)
    assert all(one.faults == 1 for one in rounds)
    heavy = [one.alone in HEAVY for one in rounds]
    assert heavy == sorted(heavy)


@pytest.mark.parametrize(
    ("moves", "calm", "now", "moved"),
    [
        (Moves.RISES, [1, 3], 5.5, True),
        (Moves.RISES, [1, 3], 5, False),  # not by more than 2
        (Moves.RISES, [], 3, True),  # a counter begins with what it counts
        (Moves.FALLS, [4, 3], 0, True),
        (Moves.FALLS, [], 0, False),
        (Moves.CHANGES, [4, 4], 1, True),
        (Moves.CHANGES, [4, 4], 5, False),
        (Moves.APPEARS, [], 0, True),
        (Moves.APPEARS, [0], 9, False),
    ],
)
def test_what_moves(moves: Moves, calm: list[float], now: float, moved: bool) -> None:
    """Against all of the calm, and by more than is said; series with other labels do not count."""
    sign = Sign('clicks{kind="a"}', moves, "", Fires.NEVER, by=2)
    mine: Series = ("clicks", (("instance", "h1"), ("kind", "a")))
    other: Series = ("clicks", (("instance", "h1"), ("kind", "b")))
    seen = sign.moved([{mine: one, other: 0} for one in calm], {mine: now, other: 99})
    assert seen == (mine if moved else None)


def test_a_fault_of_a_topic_is_not_seen_in_another() -> None:
    """Which may have troubles of its own; what has no topic counts."""
    sign = Sign("letters", Moves.RISES, "", Fires.NEVER, topic="visits")
    theirs, mine, whole = (
        ("letters", labels) for labels in ((("topic", "orders"),), (("topic", "visits"),), ())
    )
    assert sign.moved([], {theirs: 3}) is None
    assert sign.moved([], {theirs: 3, mine: 1}) == mine
    assert sign.moved([], {whole: 3}) == whole


def lasting(sighting: Sighting) -> dict[str, list[float | None]]:
    """The alert's series: first as in calm times, then as observed, for long enough.

    Only of the topic whose series moved: others may have problems of their own. If the alert fires only after
    a while, counters keep rising once a minute at the initial rate, and ages keep growing.
    """
    names = {*re.findall(r"\btabletopic_\w+", EXPRESSIONS[sighting.sign.alert]), "up"}
    lasts = sighting.sign.fires is Fires.LASTING
    topic = dict(sighting.series[1]).get("topic") if sighting.series else None
    found = {}
    for series in sorted({*sighting.calm, *sighting.then}):
        if series[0] not in names or topic not in (None, dict(series[1]).get("topic", topic)):
            continue
        before, then = sighting.calm.get(series), sighting.then.get(series)
        more = 0.0
        if lasts and then is not None and then != before:
            if series[0].endswith("_total"):
                more = (then - (before or 0.0)) / 2
            elif series[0].endswith("_seconds") and series == sighting.series:
                more = 30.0
        after = [None if then is None else then + more * at for at in range(AFTER)]
        labels = ", ".join(f'{key}="{value}"' for key, value in series[1])
        found[f"{series[0]}{{{labels}}}"] = [*[before] * BEFORE, *after]
    return found


def steady(scrape: Scrape) -> dict[str, list[float | None]]:
    """A scrape repeated for a while."""
    return {
        f"{name}{{{', '.join(f'{key}={chr(34)}{value}{chr(34)}' for key, value in labels)}}}": [of]
        * BEFORE
        * 2
        for (name, labels), of in scrape.items()
        if name == "up" or name.startswith("tabletopic_")
    }


def cases(sightings: list[Sighting]) -> Iterator[Case]:
    """The calm case, and each fault whose alert should fire by itself."""
    first = next(one.calm for one in sightings if all(one.calm[up] == 1 for up in one.calm if up[0] == "up"))
    yield Case("calm", steady(first))
    for one in sightings:
        if one.sign.fires is Fires.LASTING:
            yield Case(one.fault.value, lasting(one), {one.sign.alert})
        elif one.sign.fires is Fires.AT_ONCE:  # with the rule's own time, and before it is no news any more
            held = {series: values[: BEFORE + 5] for series, values in lasting(one).items()}
            yield Case(one.fault.value, held, {one.sign.alert})


# One of each way to be seen; `make drill ARGS=--each` takes ten minutes for all of them.
FAULTS = {
    Fault.KILL_HOST,
    Fault.KILL_BROKER,
    Fault.KILL_REGISTRY,
    Fault.FILL_DISK,
    Fault.FOREIGN_APPEND,
    Fault.FOREIGN_ROLLBACK,
}


@pytest.mark.integration
@pytest.mark.servers
@pytest.mark.timeout(1_200)
def test_monitoring_shows_faults(tmp_path: Path, class_archive: None) -> None:
    """On real servers and hosts: the metric moves, the alert fires as shipped, and no record is lost."""
    program()  # else nothing is begun
    told: list[str] = []
    outcome = run(seed=5, each=True, faults=sorted(FAULTS), state_dir=tmp_path / "drill", say=told.append)
    assert outcome.ok, "\n".join([*told, *outcome.problems, *map(str, outcome.verdicts)])
    assert {one.fault for one in outcome.sightings} == FAULTS
    wanted = list(cases(outcome.sightings))
    found = firing(wanted, tmp_path)
    assert found["calm"] == set()
    assert not {one.name: one.fires for one in wanted if not one.fires <= found[one.name]}
