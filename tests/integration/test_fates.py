"""Where each record went, and dead letters that are counted, downloaded and dropped, on the real servers."""

from __future__ import annotations

import json

import pytest

from tabletopic_kernel.workbench.workbench import Workbench
from tests.integration.conftest import Sender
from tests.integration.rows import FAST
from tests.integration.together import Story, together

pytestmark = [pytest.mark.story, pytest.mark.usefixtures("host")]


def fates(bench: Workbench, topic: str) -> list[tuple[str, str]]:
    """Kind and text of each record's fate, by offset."""
    records = bench.topic(topic).peek(100, start="oldest")
    known = [record.fate for record in records]
    return [(fate.kind, fate.text) for fate in known if fate is not None]


@together()
def test_where_each_record_went(bench: Workbench, sender: Sender) -> Story:
    """A row, a filtered record, letters, a deleted row, and what is not committed yet."""
    handle = bench.topic(sender.topic)
    for text in ('{"n": 1}', '{"n": -1}', "poison\n<b>", "more poison", '{"n": 2}'):
        sender.raw(text.encode(), key=b"a\n<b>", headers=[("h", b"\xff")])
    sender.flush()
    yield {**FAST, "value_format": "json", "projection": "SELECT n FROM batch WHERE n > 0"}
    letters = handle.letters()
    (group,) = letters.groups
    assert (group.reason, group.letters, sum(group.counts.values())) == ("json_syntax", 2, 2)
    bench.open_catalog().load_table(bench.table_of(sender.topic)).delete("n = 2")
    bench.pause(sender.topic)
    yield None, "paused"
    sender.raw(b'{"n": 3}')
    sender.flush()
    kinds = ["row", "no_row", "dead_letter", "dead_letter", "deleted", "not_yet"]
    known = fates(bench, sender.topic)
    assert [kind for kind, _ in known] == kinds
    commits = [each.snapshot_id for each in handle.history() if each.next_offsets]
    assert any(f"row of snapshot {commit} (committed at " in known[0][1] for commit in commits)
    assert known[1][1] == "no row: filtered"
    assert "dead letter because json_syntax: " in known[2][1]
    (first,) = handle.letters("offset = 2", limit=5).records
    assert (first.raw, first.key, first.headers) == (
        b"poison\n<b>",
        b"a\n<b>",
        [{"key": "h", "value": b"\xff"}],
    )
    bench.resume(sender.topic)
    yield None
    dropped = handle.drop_letters("nobody needs it", "offset = 2")
    assert dropped is not None
    assert (dropped.letters, dropped.note, dropped.error) == ({"json_syntax": 1}, "nobody needs it", None)
    known = fates(bench, sender.topic)
    assert [kind for kind, _ in known] == [*kinds[:2], "no_row", "dead_letter", "deleted", "row"]
    assert "its dead letter is gone" in known[2][1]


@together()
def test_records_that_others_replaced(bench: Workbench, sender: Sender) -> Story:
    """The row of a key is of its newest record; a tombstone deletes it."""
    for key, value in (("a", "1"), ("b", "1"), ("a", "2"), ("b", None), ("c", "1")):
        sender.raw(None if value is None else value.encode(), key=key.encode())
    sender.flush()
    yield {**FAST, "mode": "upsert", "value_format": "string", "key_format": "string"}
    found = fates(bench, sender.topic)
    assert [kind for kind, _ in found] == ["superseded", "deleted", "row", "no_row", "row"]
    assert found[0][1] == "superseded by offset 2"
    assert found[3][1] == "no row: tombstone"
    topic = bench.topic(sender.topic)
    (newest,) = topic.peek(1, key="a")
    assert (newest.offset, newest.fate and newest.fate.kind) == (2, "row")
    assert json.loads(json.dumps(topic.letters().to_json()))["letters"] == 0
