"""Standing patterns: which new topics a host enables, and which it never does."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from tabletopic_kernel.host.topics import settings_topic, standing_patterns
from tabletopic_kernel.host.topics.settings_topic import (
    parse_desired,
    read_desired,
    write_desired,
    write_value,
)
from tabletopic_kernel.host.topics.standing_patterns import (
    StandingPatterns,
    forget_pattern,
    keep_pattern,
    leave_off,
    read_standing,
)
from tabletopic_kernel.model.errors import RetryableError, UnknownTopicError, UsageError
from tabletopic_kernel.model.settings.desired import DesiredTopic, StandingPattern
from tabletopic_kernel.model.settings.sections import TopicSettings
from tests.host.test_settings_topic import Log
from tests.table.samples import FakeControl

SHOP = StandingPattern(
    pattern="shop.*", exclude=("*-retry",), settings=TopicSettings(commit_interval_ms=1_000)
)


@dataclass
class Cluster(Log):
    """A settings topic, the names of other topics, and what enabling one of them raises."""

    there: set[str] = field(default_factory=set)
    raised: dict[str, Exception] = field(default_factory=dict)
    tried: list[str] = field(default_factory=list)
    lists: int = 0

    def partition_counts(self) -> dict[str, int]:
        """One partition each."""
        self.lists += 1
        return dict.fromkeys(sorted(self.there), 1)

    def enable(self, topic: str, pattern: StandingPattern) -> None:
        """As the workbench."""
        self.tried.append(topic)
        if (error := self.raised.get(topic)) is not None:
            raise error
        write_desired(self, topic, DesiredTopic(topic=topic, settings=pattern.settings))  # type: ignore[arg-type]


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """One with a pattern; each look follows the one before at once."""
    made = Cluster()
    monkeypatch.setattr(settings_topic, "make_producer", lambda *_, **__: made)
    monkeypatch.setattr(settings_topic, "Reader", lambda *_, **__: made)
    monkeypatch.setattr(standing_patterns, "LOOK_S", 0.0)
    keep_pattern(made, SHOP)  # type: ignore[arg-type]
    return made


@pytest.fixture
def control() -> FakeControl:
    """Keeps the events."""
    return FakeControl()


@pytest.fixture
def patterns(kafka: Cluster, control: FakeControl) -> StandingPatterns:
    """Of a host that has read the settings topic."""
    services = SimpleNamespace(
        broker=kafka, control=control, host="h", now_ms=lambda: 1, enable=kafka.enable,
        spawn=lambda _, work: work(),
    )  # fmt: skip
    made = StandingPatterns(services)  # type: ignore[arg-type]
    assert made.take(kafka.records[-1])  # type: ignore[arg-type]
    return made


def enabled(kafka: Cluster) -> dict[str, DesiredTopic]:
    """What runs."""
    return read_desired(kafka)  # type: ignore[arg-type]


def test_topics_are_enabled_as_they_come(kafka: Cluster, patterns: StandingPatterns) -> None:
    """With the pattern's settings, each once; those that exist, are left out or are not events, never."""
    kafka.there = {"other", "shop.a", "shop.a-retry", "shop.schema-changes", "shop.connect-offsets"}
    patterns.look()
    patterns.look()
    kafka.there.add("shop.b")
    patterns.look()
    assert kafka.tried == ["shop.a", "shop.b"]
    assert [value.settings for value in enabled(kafka).values()] == [SHOP.settings] * 2
    assert kafka.lists == 3


def test_a_topic_that_a_person_disabled_stays_so(kafka: Cluster, patterns: StandingPatterns) -> None:
    """Also on the next host; until somebody makes the pattern again."""
    kafka.there = {"shop.a"}
    patterns.look()
    leave_off(kafka, "shop.a")  # type: ignore[arg-type]
    write_desired(kafka, "shop.a", None)  # type: ignore[arg-type]
    another = StandingPatterns(patterns._services)
    assert all(another.take(record) for record in kafka.records if parse_desired(record) is None)  # type: ignore[arg-type]
    for host in (patterns, another):
        host.look()
    assert (kafka.tried, enabled(kafka)) == (["shop.a"], {})
    assert read_standing(kafka)[1] == {"shop.a"}  # type: ignore[arg-type]
    keep_pattern(kafka, SHOP)  # type: ignore[arg-type]
    another.take(kafka.records[-1])  # type: ignore[arg-type]
    another.look()
    assert set(enabled(kafka)) == {"shop.a"}


def test_a_topic_that_no_pattern_matches_is_disabled_without_a_mark(kafka: Cluster) -> None:
    """One message, as ever."""
    leave_off(kafka, "other")  # type: ignore[arg-type]
    assert len(kafka.records) == 1


def test_a_refusal_is_reported_once(kafka: Cluster, patterns: StandingPatterns, control: FakeControl) -> None:
    """With its reason, and never tried again; what a server's outage keeps out is tried again, silently."""
    kafka.there = {"shop.a", "shop.b", "shop.c", "shop.d"}
    kafka.raised = {
        "shop.a": UsageError("its table is another's"),
        "shop.b": RetryableError("the registry does not respond"),
        "shop.c": UnknownTopicError("there is no topic"),
    }
    patterns.look()
    kafka.raised = {}
    patterns.look()
    assert kafka.tried == [*["shop.a", "shop.b", "shop.c", "shop.d"], *["shop.b", "shop.c"]]
    (event,) = control.written
    assert (event.topic, event.pattern, event.reason) == ("shop.a", "shop.*", "its table is another's")
    keep_pattern(kafka, SHOP)  # type: ignore[arg-type]
    patterns.take(kafka.records[-1])  # type: ignore[arg-type]
    patterns.look()
    assert kafka.tried[-1] == "shop.a"


def test_a_broker_that_is_away_ends_no_host(
    kafka: Cluster, patterns: StandingPatterns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next look asks it again."""

    def away() -> Any:
        raise RetryableError("the broker does not respond")

    kafka.there = {"shop.a"}
    with monkeypatch.context() as patch:
        patch.setattr(kafka, "partition_counts", away)
        patterns.look()
    patterns.look()
    assert kafka.tried == ["shop.a"]


@pytest.mark.parametrize("end", ["forgotten", "changed", "released"])
def test_a_pattern_that_ended_enables_nothing(kafka: Cluster, patterns: StandingPatterns, end: str) -> None:
    """Even before this host has read so: it looks into the settings topic first."""
    kafka.there = {"shop.a"}
    if end == "forgotten":
        forget_pattern(kafka, "shop.*")  # type: ignore[arg-type]
    elif end == "changed":
        keep_pattern(kafka, SHOP.model_copy(update={"exclude": ("shop.a",)}))  # type: ignore[arg-type]
    else:
        patterns.release({0})
    patterns.look()
    patterns.take(kafka.records[-1]) if end != "released" else None  # type: ignore[arg-type]
    patterns.look()
    assert kafka.tried == []


def test_a_pattern_that_is_not_there_cannot_end(kafka: Cluster) -> None:
    """The error names those that are."""
    with pytest.raises(UsageError, match=r"no standing pattern; there are shop\.\*"):
        forget_pattern(kafka, "shop")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value", [b"{}", b"\xff", b'{"pattern": "other"}', b'{"pattern": "shop.*", "colour": 1}']
)
def test_a_pattern_of_a_newer_program_is_passed_over(
    kafka: Cluster, patterns: StandingPatterns, value: bytes
) -> None:
    """Like anything else that nobody understands; and no topic can be named like a pattern's message."""
    kafka.there = {"shop.a"}
    write_value(kafka, "pattern:shop.*", value)  # type: ignore[arg-type]
    assert patterns.take(kafka.records[-1])  # type: ignore[arg-type]
    patterns.look()
    assert (kafka.tried, read_standing(kafka)) == ([], ({}, set()))  # type: ignore[arg-type]
    assert all(parse_desired(record) is None for record in kafka.records)  # type: ignore[arg-type]


def test_the_settings_of_a_pattern_are_those_that_were_given(kafka: Cluster) -> None:
    """Others come from the file when a topic comes, so they are not kept."""
    (kept,) = read_standing(kafka)[0].values()  # type: ignore[arg-type]
    assert kept == SHOP
    assert kept.settings.model_dump(exclude_unset=True) == {"commit_interval_ms": 1_000}
