"""The lag of topics, also of those whose ledger is not about the broker's records; told without servers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tabletopic_kernel.clients.kafka.broker import TopicEnds
from tabletopic_kernel.faces.jupyter_server.overview import row_of
from tabletopic_kernel.model.commit_cycle import State
from tabletopic_kernel.model.errors import ActionNeededError, LoginRefusedError, RetryableError
from tabletopic_kernel.model.ledger import NO_TOPIC_ID
from tabletopic_kernel.model.progress.events import Progress
from tabletopic_kernel.model.progress.progress_view import NO_HOST, NO_HOST_HINT, HostReport
from tabletopic_kernel.model.settings.desired import DesiredTopic
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.workbench.status import Looks, statuses
from tabletopic_kernel.workbench.topics.topic import TableTopic
from tabletopic_kernel.workbench.topics.topic_status import TopicStatus

READ = Progress(topic="clicks", table="default.clicks", topic_id="old", next_offsets={0: 5, 1: 3}, epoch=1)


class Broker:
    """Has one topic, whose partitions begin at ``first``."""

    def __init__(self, ends: TopicEnds | None, first: int = 0) -> None:
        self._ends = ends
        self._first = first
        self.properties: dict[str, str] = {}

    def ends(self, _topics: Any) -> dict[str, TopicEnds]:
        """Of it."""
        return {"clicks": self._ends} if self._ends else {}

    def first_offsets(self, partitions: dict[str, Any]) -> dict[str, dict[int, int]]:
        """Of all that are asked for."""
        return {topic: dict.fromkeys(asked, self._first) for topic, asked in partitions.items()}


def looking(
    reported: dict[str, HostReport] | None = None,
    table: Callable[[DesiredTopic, Any], Progress] = lambda *_: READ,
) -> Looks:
    """Hosts report this, tables are read so, and no record is looked at."""
    return Looks(lambda _: reported or {}, table, lambda *_: {})


def found(
    ends: TopicEnds | None, state: str = NO_HOST, progress: Progress = READ, first: int = 0, **settings: Any
) -> TopicStatus:
    """The status of a topic that was read up to ``progress``, as ``state`` by a host, or by none."""
    now = progress.model_copy(update={} if state == NO_HOST else {"state": State(state)})
    reported = {} if state == NO_HOST else {"clicks": HostReport(now, "h", 1)}
    looks = looking(reported, lambda *_: now)
    desired = {"clicks": DesiredTopic(topic="clicks", settings=TopicSettings(**settings))}
    (one,) = statuses(Broker(ends, first), desired, lambda _: None, looks)  # type: ignore[arg-type,return-value]
    return one


@pytest.mark.parametrize("state", [NO_HOST, "paused", "running"])
def test_offsets_of_other_records_are_no_lag(state: str) -> None:
    """Of a topic that was re-created, lost records or is gone, the status says so, whoever runs it."""
    for ends, why in (
        (TopicEnds("new", {0: 5, 1: 3}), "was re-created since the table was filled (topic id old, now new)"),
        (TopicEnds("old", {0: 2, 1: 3}), "the topic lost records"),
        (TopicEnds("old", {0: 5}), "no longer has partitions [1]"),
        (None, "no longer exists"),
    ):
        one = found(ends, state)
        assert why in (one.error or "")
        assert (one.state, one.lag_records, one.lag_seconds) == (state, None, None)
        assert why in row_of(one, DesiredTopic(topic="clicks", settings=TopicSettings()), 2)["error"]


def test_the_ledgers_own_records_are() -> None:
    """Also of a broker, or a host, that tells no ids; the sidebar's header says that nobody runs it."""
    for ends, progress in (
        (TopicEnds("old", {0: 6, 1: 3, 2: 4}), READ),
        (TopicEnds(NO_TOPIC_ID, {0: 6, 1: 3, 2: 4}), READ),
        (TopicEnds("old", {0: 6, 1: 3, 2: 4}), READ.model_copy(update={"topic_id": None})),
    ):
        one = found(ends, progress=progress)
        assert (one.lag_records, one.lag_seconds, one.error) == (5, None, NO_HOST_HINT)
        assert row_of(one, DesiredTopic(topic="clicks", settings=TopicSettings()), 3)["error"] is None
    assert found(TopicEnds("old", {0: 6, 1: 3}), "running").error is None


def test_records_that_are_gone_already() -> None:
    """Nobody reads the topic, so the status says it; a host reports by itself. The lag counts them."""
    ends = TopicEnds("old", {0: 9, 1: 3, 2: 7})
    one = found(ends, first=6)
    assert (one.state, one.lag_records) == (NO_HOST, 11)
    assert "partition 0: 1 records from offset 5, partition 2: 6 records from offset 0" in (one.error or "")
    assert "partition 1" not in (one.error or "")  # it was read to its end
    assert row_of(one, DesiredTopic(topic="clicks", settings=TopicSettings()), 3)["error"] == one.error
    skipping = found(ends, first=6, on_gap="go_on")
    assert skipping.error == "unread records that retention deleted: 7; `on_gap` skips them"
    assert found(ends, "running", first=6).error is None
    assert "(partition 2: 5 records from offset 0)" in (found(ends, first=5).error or "")
    never_read = READ.model_copy(update={"next_offsets": {}})
    assert found(ends, progress=never_read, first=6).error == NO_HOST_HINT


class Answering(TableTopic):
    """A topic whose status is the next of these answers; the last one stays."""

    look_every_s = 0.001

    def __init__(self, *answers: TopicStatus | RetryableError) -> None:
        super().__init__("clicks", None)  # type: ignore[arg-type]
        self.answers = list(answers)

    def status(self) -> TopicStatus:
        """The next one."""
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, RetryableError):
            raise answer
        return answer


BEHIND = TopicEnds("old", {0: 6, 1: 3})


@pytest.mark.parametrize(
    ("more", "error", "told"),
    [
        ({}, RetryableError, "clicks is running and 1 records behind after 0.01 s$"),
        ({"state": "failed", "error": "no Avro"}, ActionNeededError, "clicks failed: no Avro"),
        ({"state": "paused"}, ActionNeededError, "is paused; resume it with `tabletopic resume clicks`"),
    ],
)
def test_a_wait_ends_where_it_is_futile(more: Any, error: type[Exception], told: str) -> None:
    """At once where a person must act, else after its time."""
    with pytest.raises(error, match=told):
        Answering(replace(found(BEHIND, "running"), **more)).wait(timeout_s=0.01)


def test_a_wait_counts_each_partition_by_itself() -> None:
    """Records that arrive in one do not make up for another's; it is not over with other records."""
    first = replace(found(BEHIND, "running"), next_offsets={0: 100, 1: 0}, end_offsets={0: 100, 1: 50})
    ahead = replace(first, next_offsets={0: 200, 1: 0}, end_offsets={0: 200, 1: 50})
    there = replace(first, next_offsets={0: 100, 1: 50}, end_offsets={0: 200, 1: 50})
    assert Answering(first, first, ahead, there).wait() is there
    for ends, why in ((TopicEnds("new", {0: 5, 1: 3}), "re-created"), (None, "no longer exists")):
        with pytest.raises(RetryableError, match=f"clicks is no_host after 0.01 s: .*{why}"):
            Answering(found(ends)).wait(timeout_s=0.01)


def test_an_outage_does_not_end_a_wait() -> None:
    """Servers restart meanwhile; only one that is away at the beginning, or to the end, is reported."""
    away = RetryableError("could not read __tabletopic.control")
    behind = found(TopicEnds("old", {0: 6, 1: 3}), "running")
    done = replace(behind, next_offsets={0: 6, 1: 3}, lag_records=0)
    assert Answering(behind, away, away, done).wait() is done
    refused = LoginRefusedError("could not read __tabletopic.control: refused")
    for answers, limit_s in (([away], 120), ([behind, away], 0.01), ([behind, refused], 120)):
        with pytest.raises(RetryableError, match="could not read __tabletopic"):
            Answering(*answers).wait(limit_s)


def test_an_error_is_of_its_topic_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever it is, also a refused message; the others have their rows, a fault of ours its trace."""
    errors: dict[str, Exception] = {
        "a": KeyError(0),
        "b": ActionNeededError("the table has another owner"),
        "c": RetryableError("the storage of c does not respond"),
    }

    def read(desired: DesiredTopic, _: Any) -> Progress:
        if desired.topic in errors:
            raise errors[desired.topic]
        return READ

    topics = {name: DesiredTopic(topic=name) for name in ("a", "b", "c", "clicks")}
    topics["clicks"] = topics["clicks"].model_copy(update={"refused": "a message does not count"})
    broker: Any = Broker(TopicEnds("old", {0: 6, 1: 3}))
    found = statuses(broker, topics, lambda _: None, looking(table=read))  # type: ignore[arg-type,return-value]
    assert {one.topic: (one.error, one.lag_records) for one in found} == {
        "a": ("unexpected KeyError: 0; the log has the trace", None),
        "b": ("the table has another owner", None),
        "c": ("the storage of c does not respond", None),
        "clicks": ("a message does not count", 1),
    }
    assert row_of(found[3], topics["clicks"], 2)["error"] == "a message does not count"
    assert "KeyError: 0" in caplog.text
