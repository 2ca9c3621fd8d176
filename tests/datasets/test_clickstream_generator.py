"""The generator: same seed, same bytes; exact tallies; a believable shape."""

import dataclasses
import hashlib
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabletopic_kernel._datasets.clickstream.generator import (
    START,
    Clickstream,
    DeviceTally,
    Encoder,
    Event,
    Prebuilt,
    SchemaVersion,
    Tallies,
)
from tabletopic_kernel._datasets.clickstream.shop import STEPS
from tabletopic_kernel.formats import wire
from tabletopic_kernel.model.errors import UsageError

MANY = 30_000
# sha256 over key, time and body of the first 5,000 events of seed 7. They change with the generator only:
# whoever changes them writes the change into the changelog, as others' expected results change too.
FIRST_5000 = {
    "v1": "3cab730855143f078d7286efe8d76997357ed26e2fbe19593ed30ed91bd7e599",
    "v2": "0b0fae71b5e376659b684554e5933a507c238e96ea1f9169aa0c9a734054bc17",
}


@cache
def _many() -> list[Event]:
    return list(Clickstream().events(MANY))


@cache
def _pool() -> tuple[Prebuilt, list[Event]]:
    return Prebuilt(schema_id=5, distinct=300), list(Clickstream().events(300))


def _recounted(events: Iterable[Event]) -> Tallies:
    sessions, users = defaultdict(set), defaultdict(set)
    views: Counter[str] = Counter()
    versions: Counter[str] = Counter()
    devices: Counter[str] = Counter()
    revenue: dict[str, Decimal] = defaultdict(Decimal)
    for event in events:
        value = event.value
        views[value["url"]] += 1
        sessions[value["event_type"]].add(value["session_id"])
        devices[value["device"]["type"]] += 1
        users[value["device"]["type"]].add(value["user_id"])
        versions["v2" if "viewport" in value["device"] else "v1"] += 1
        if value["event_type"] == "purchase":
            hour = datetime.fromtimestamp(value["event_time"] / 1000, UTC).strftime("%Y-%m-%dT%H:00:00Z")
            revenue[hour] += value["price"] * value["quantity"]
    return Tallies(
        events=views.total(),
        views_by_url=dict(views),
        sessions_by_step={step: len(sessions[step]) for step in STEPS},
        revenue_cents_by_hour={hour: int(euros * 100) for hour, euros in revenue.items()},
        devices={
            kind: DeviceTally(devices[kind], len(users[kind])) for kind in ("desktop", "mobile", "tablet")
        },
        events_by_version=dict(versions),
    )


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_same_seed_same_bytes(version: SchemaVersion) -> None:
    """The first events of a seed are the same bytes on every machine and Python version."""
    encode = Encoder(version).encode
    digest = hashlib.sha256()
    for event in Clickstream(7, version).events(5_000):
        digest.update(b"%s %d %s" % (event.key, event.timestamp_ms, encode(event.value)))
    assert digest.hexdigest() == FIRST_5000[version]


def test_events_go_on_where_they_stopped() -> None:
    """In pieces as at once; another seed gives other visits, another start moves all times together."""
    assert list(Clickstream(8).events(100)) != list(Clickstream(7).events(100))
    pieces = Clickstream()
    got = [*pieces.events(10), *pieces.events(0), *pieces.events(90)]
    assert got == list(Clickstream().events(100))
    later = Clickstream(start=START.replace(month=6)).events(500)
    moved_ms = int((START.replace(month=6) - START).total_seconds() * 1000)
    for event, other in zip(Clickstream().events(500), later, strict=True):
        assert other.timestamp_ms == event.timestamp_ms + moved_ms
        assert other.value == {**event.value, "event_time": event.value["event_time"] + moved_ms}


@given(seed=st.integers(0, 2**32), first=st.integers(0, 400), second=st.integers(0, 400))
@settings(max_examples=15, deadline=None)
def test_tallies_are_exact(seed: int, first: int, second: int) -> None:
    """Tallies equal a recount of the events handed out, also over a schema switch."""
    stream = Clickstream(seed)
    events = list(stream.events(first))
    stream.switch_schema("v2")
    events += stream.events(second)
    counted = _recounted(events)
    tallies = dataclasses.replace(
        stream.tallies, events_by_version={v: n for v, n in stream.tallies.events_by_version.items() if n}
    )
    assert tallies == counted


def test_version_two_needs_its_schema() -> None:
    """Version 2 has durations that no int holds and countries withheld; version 1 has neither."""
    old = [event.value for event in _many()]
    new = [event.value for event in Clickstream(schema_version="v2").events(MANY)]
    assert max(value["duration_ms"] for value in old) <= 2**31 - 1
    assert sum(value["duration_ms"] > 2**31 - 1 for value in new) > MANY / 100
    assert all(value["country"] for value in old)
    assert sum(value["country"] is None for value in new) > MANY / 100
    assert [value["event_id"] for value in old] == [value["event_id"] for value in new]


@pytest.mark.parametrize("count", [0, 1, 299, 300, 301, 900, 1_000])
def test_prebuilt_pool_knows_its_tallies(count: int) -> None:
    """A pool sent in circles is tallied as its records are, repeats included."""
    pool, once = _pool()
    assert [record[0] for record in pool.records] == [event.key for event in once]
    assert all(value.startswith(wire.prefix(5)) for _, value, _ in pool.records)
    sent = list(itertools.islice(itertools.cycle(once), count))
    expected = _recounted(sent)
    if not count:
        expected.events_by_version = {"v1": 0}
    assert pool.tallies(count) == expected


def test_mistakes_are_named() -> None:
    """Unknown versions, starts without a zone and empty pools are the caller's mistakes."""
    with pytest.raises(UsageError, match="v3"):
        Clickstream(schema_version="v3")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="time zone"):
        Clickstream(start=datetime(2026, 1, 1))
    with pytest.raises(UsageError, match="empty"):
        Prebuilt(1, distinct=0)
