"""The live hosts' reports about themselves, also from versions that report less."""

from __future__ import annotations

from tabletopic_kernel.model.progress import events
from tabletopic_kernel.model.progress.event_json import event_json, event_of_json, is_heartbeat
from tabletopic_kernel.model.progress.events import HostHeartbeat, Progress
from tabletopic_kernel.workbench.hosts import HostStatus, fold_hosts


def report(host: str, topics: list[str], at_ms: int = 1, memory_bytes: int | None = 5) -> HostHeartbeat:
    """A host's heartbeat."""
    return HostHeartbeat(
        host=host, at_ms=at_ms, topics=topics, started_ms=7, version="1.2", memory_bytes=memory_bytes
    )


def test_the_newest_report_of_each_live_host_counts() -> None:
    """By id; an older host is known by its topics; the host's own report counts."""
    told = [report("b", ["old"]), report("gone", ["x"]), report("b", ["z", "a"], 2), report("a", [])]
    assert fold_hosts(["b", "a"], told) == [
        HostStatus("a", [], 7, "1.2", 5),
        HostStatus("b", ["a", "z"], 7, "1.2", 5),
    ]
    progress = Progress(topic="clicks", table="default.clicks")
    beat = events.Heartbeat(topic="clicks", at_ms=1, host="old", progress=progress)
    assert fold_hosts(["old", "silent"], [beat]) == [HostStatus("old", ["clicks"]), HostStatus("silent", [])]
    beat = events.Heartbeat(topic="clicks", at_ms=1, host="a", progress=progress)
    assert fold_hosts(["a"], [beat, report("a", [])])[0].topics == []
    assert is_heartbeat(event_json(report("a", ["clicks"])).encode())
    failed = events.Failed(topic="t", at_ms=1, reason='"type":"HostHeartbeat"', waits=False)
    assert not is_heartbeat(event_json(failed).encode())


def test_a_text_that_no_encoding_has_is_told_as_far_as_it_goes() -> None:
    """Such as a registry's, whose JSON may have half a surrogate pair: no event may end who writes it."""
    progress = Progress(topic="t", table="t").model_copy(
        update={"error": "no \ud800", "refused": {"\udc00": 1}}
    )
    beat = events.Heartbeat(topic="t", at_ms=1, progress=progress)
    read = event_of_json(event_json(beat))
    assert isinstance(read, events.Heartbeat)
    assert (read.progress.error, read.progress.refused) == ("no ?", {"?": 1})
    failed = events.Failed(topic="t", at_ms=1, reason="no \ud800", waits=True)
    assert '"no ?"' in event_json(failed)
