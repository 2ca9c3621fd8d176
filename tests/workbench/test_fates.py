"""What became of each record: a model of what is known, and a table with its log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tabletopic_kernel.clients.registry.registry import Registry
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.pipeline.source import SOURCE_SCHEMA
from tabletopic_kernel.workbench.peek.fates import Commit, Facts, fates
from tests.table.samples import IDENTIFIER, TOPIC
from tests.workbench.live_histories import Life


def commit(number: int, end: int, replay: str | None = None, commits: int | None = None) -> Commit:
    """A snapshot of partition 0; number 0 is the claim of a new table."""
    ledger = Ledger("t", "c", "i", {0: end}, 1, f"{number}", commits=number if commits is None else commits)
    return Commit(number, number * 1000, Ledger(**{**vars(ledger), "replay_id": replay}))


ALL = [commit(0, 5), commit(1, 10), commit(2, 20)]
EXPIRED = [commit(7, 10), commit(8, 20)]
REPLAYED = [*ALL, commit(3, 20, "r", 3)]
CUT = [*ALL, commit(3, 8, commits=2), commit(4, 20, commits=3)]
MARKED = replace(CUT[-1].ledger, truncated={0: ((8, 20, 2),)})
# What is known besides the commits, the offset, the kind of fate, its snapshot, and a part of its text.
CASES: list[tuple[list[Commit], dict[str, Any], int, str, str | None, str]] = [
    (ALL, {}, 20, "not_yet", None, "partition 0 up to offset 20"),
    (ALL, {}, 4, "no_row", None, "begins at offset 5"),
    (ALL, {"rows": {(0, 5)}}, 5, "row", "1", "row of snapshot 1 (committed at "),
    (ALL, {"rows": {(0, 10)}}, 10, "row", "2", "row of snapshot 2"),
    (EXPIRED, {"rows": {(0, 3)}}, 3, "row", None, "row of an expired snapshot"),
    (EXPIRED, {"rows": {(0, 10)}}, 10, "row", "8", "row of snapshot 8"),
    (REPLAYED, {"rows": {(0, 5)}}, 5, "row", "1", ", or of a later replay"),
    (ALL, {"rows": None}, 5, "unknown", "1", "no _kafka_metadata"),
    (ALL, {"letters": {(0, 9): ("bad", "it is bad")}}, 9, "dead_letter", "1", "because bad: it is bad"),
    (ALL, {"rows": {(0, 9)}, "letters": {(0, 9): ("bad", "")}}, 9, "row", "1", "row of"),
    (ALL, {"rows": None, "letters": {(0, 9): ("bad", "")}}, 9, "dead_letter", "1", "because bad"),
    (ALL, {"tried": {(0, 9): "filtered"}}, 9, "no_row", "1", "no row: filtered"),
    (ALL, {"tried": {(0, 9): "row"}}, 9, "deleted", "1", "row deleted since, or dead letter dropped"),
    (ALL, {"newer": {(0, 9): (0, 12)}}, 9, "superseded", "1", "superseded by offset 12"),
    (ALL, {"newer": None}, 9, "unknown", "1", "replaced or deleted since"),
    (CUT, {"rows": {(0, 9)}}, 9, "row", "4", "row of snapshot 4"),
    (CUT, {"rows": {(0, 9)}, "ledger": MARKED}, 9, "row", "4", "or of an earlier log's record"),
    (CUT, {"rows": {(0, 9)}, "letters": {(0, 9): ("bad", "")}, "ledger": MARKED}, 9, "dead_letter", "4", ""),
    (ALL, {"newer": {(0, 9): (3, 1)}}, 9, "superseded", "1", "1 of partition 3"),
]


@pytest.mark.parametrize(("commits", "known", "offset", "kind", "snapshot", "text"), CASES)
def test_a_fate(
    commits: list[Commit], known: dict[str, Any], offset: int, kind: str, snapshot: str | None, text: str
) -> None:
    """By the ledger first, then the row, the letter, and what the record would become now."""
    fate = Facts(**{"ledger": commits[-1].ledger, "commits": commits, "rows": set(), **known}).fate(
        (0, offset)
    )
    assert (fate.kind, fate.snapshot_id) == (kind, snapshot)
    assert text in fate.text


def seen(life: Life) -> list[tuple[str, str]]:
    """Kind and text of each record of partition 0."""
    records = life.batch({0: 0}, {0: len(life.log[0])})
    records = records.from_pylist([{"headers": None, **row} for row in records.to_pylist()], SOURCE_SCHEMA)
    registry = cast(Registry, life.registry)
    found = fates(records, TOPIC, life.settings, registry, life.catalog)
    return [(fate.kind, fate.text) for fate in found]


def test_records_of_a_table(tmp_path: Path) -> None:
    """Rows and their snapshots, poison, deleted rows, and what is not committed."""
    life = Life(tmp_path)
    life.send(30)
    life.put(b"poison")
    life.commit_all()
    life.send(30)
    table = life.catalog.load_table(IDENTIFIER)
    newest = table.current_snapshot()
    assert newest is not None
    places = {row["n"]: row["_kafka_metadata"]["offset"] for row in _rows_of_partition_0(life)}
    gone = next(n for n in places if n is not None)
    table.delete(f"n = {gone}")
    end = life.ledger.next_offsets[0]
    for offset, (kind, text) in enumerate(seen(life)):
        if offset >= end:
            assert kind == "not_yet"
        elif life.log[0][offset].fields is None:
            assert (kind, "its dead letter is gone" in text) == ("no_row", True)
        elif offset == places[gone]:
            assert kind == "deleted"
        else:
            assert (kind, str(newest.snapshot_id) in text) == ("row", True)
    assert {kind for kind, _ in seen(life)} == {"not_yet", "no_row", "deleted", "row"}


def _rows_of_partition_0(life: Life) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = life.catalog.load_table(IDENTIFIER).scan().to_arrow().to_pylist()
    return [row for row in rows if row["_kafka_metadata"]["partition"] == 0]
