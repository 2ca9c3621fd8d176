"""What an erasure would erase: rows by the table, letters by their records, and who else has such rows."""

from __future__ import annotations

import pytest

from tabletopic_kernel.faces.operations.erasing import erase
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.progress.events import Erased
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table.dead_letters import LetterTable
from tabletopic_kernel.workbench.peek.erasure import (
    Erasure,
    InKafka,
    LettersToErase,
    find_letters,
    in_kafka,
    plan_erasure,
)
from tests.host.rig import Rig
from tests.host.test_replay import LATE, with_letters
from tests.table.samples import AVRO, IDENTIFIER, TOPIC, catalog, catalog_properties, rig  # noqa: F401


def letters(rig: Rig, where: str, more: str | None) -> LettersToErase:  # noqa: F811
    """Those that are found."""
    table = LetterTable(rig.catalog.real, IDENTIFIER, TOPIC)
    return find_letters(TOPIC, TopicSettings(), rig.registry, table, where, more)  # type: ignore[arg-type]


def test_letters_are_found_by_their_records(rig: Rig) -> None:  # noqa: F811
    """Those that cannot be decoded are counted, and named apart."""
    with_letters(rig)
    rig.registry.schemas[LATE] = AVRO
    found = letters(rig, "a = 4 or a = 5", "offset = 9")
    assert found == LettersToErase("(partition = 0 and offset in (4, 5, 9))", 3, 2)
    assert letters(rig, "a = 1", None) == LettersToErase(None, 0, 3)
    with pytest.raises(UsageError, match="dead letters' columns"):
        letters(rig, "a = 1", "nonsense")


def test_a_plan_names_whoever_keeps_such_rows(rig: Rig) -> None:  # noqa: F811
    """A tag of before there were any does not; a topic that cannot be read is said, and stops nothing."""
    with_letters(rig)
    table = rig.table.table
    empty, full = table.metadata.snapshots[0].snapshot_id, table.metadata.current_snapshot_id
    table.manage_snapshots().create_tag(empty, "before").create_tag(full, "audit").commit()
    kafka = in_kafka(TOPIC, TopicSettings(), rig.broker, rig.registry, "nonsense(")  # type: ignore[arg-type]
    assert "the topic was not searched: cannot read the condition" in kafka.note
    plan = plan_erasure(TOPIC, rig.table, LettersToErase(None, 0, 3), "a = 1", kafka)
    assert (plan.rows, plan.files, plan.undecoded, plan.whole) == (1, 1, 3, False)
    (pinned,) = plan.pinned
    assert "(audit, tabletopic" in pinned or "(audit" in pinned
    with pytest.raises(UsageError, match="say which rows"):
        plan_erasure(TOPIC, rig.table, LettersToErase(None, 0, 0), " ", kafka)


def test_the_report_says_what_kafka_has_and_whether_it_is_whole() -> None:
    """A plan says that nothing is done; names with braces and markup are text."""
    kafka = InKafka({0: [3, 17]}, 100, 500, "`tabletopic peek a{b --where \"x = '{0}'\"` reads on")
    plan = Erasure("a{b", "default.ab", 2, 1, 1, 4, 7, [], kafka)
    text = "\n".join(map(str, erase.text(plan, {})))
    assert "2 rows in 1 file would be erased" in text
    assert "Kafka has 2 such records among 100 of 500 that were read\n  partition 0: offset 3, 17" in text
    assert "peek a{b --where \"x = '{0}'\"` reads on\nnothing is erased yet" in text
    done = Erased(topic="a", at_ms=0, request_id="e", rows=2, gone=["x.parquet"], left=["snapshot 4 (audit)"])
    whole = Erasure("a", "default.a", 2, 1, 1, 0, 7, [], kafka, done)
    assert erase.has_failed(whole)
    assert "it is not whole" in "\n".join(map(str, erase.text(whole, {})))
