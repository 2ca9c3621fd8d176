"""The drill's report: recovery times, steps, the page."""

from __future__ import annotations

from pathlib import Path

from tabletopic_kernel.local.crash_points import Act
from tabletopic_kernel.model.steps import Step
from tests.drill import report
from tests.drill.arena import Happening
from tests.drill.outcome import Outcome, Patience, StepHit
from tests.drill.schedule import Fault
from tests.drill.tables import Sample, commit_after, handed_over_after
from tests.drill.verdict import TopicVerdict

SAMPLES = [Sample(1, 10, 0), Sample(2, 10, 5), Sample(3, 4, 11), Sample(4, 4, 12), Sample(5, 9, 7)]


def outcome() -> Outcome:
    """A small drill."""
    found = Outcome(7, began_s=0.0, ended_s=10.0, rounds=1)
    found.samples = {"orders": SAMPLES, "visits": [Sample(1, 1, 0), Sample(3, 2, 0)]}
    found.happenings = [
        Happening(1.5, Fault.KILL_HOST, "orders", "killed host 1"),
        Happening(1.6, "kill", "step sent", "process 1: kill"),
        Happening(1.7, Fault.PAUSE, "visits", "was not possible: <busy>", is_fault=False),
    ]
    found.steps = [
        StepHit(1, Step.SENT, Act.KILL, None, hit=True),
        StepHit(2, Step.CLAIM, Act.HOLD, Fault.PAUSE, hit=False),
    ]
    found.verdicts = [TopicVerdict("orders", 3, 2, 1), TopicVerdict("visits", 1, 1)]
    return found


def test_a_commit_after_a_rollback_counts() -> None:
    """What the table had before the fault is no measure any more once it was taken back."""
    assert commit_after(SAMPLES, 1.5) == 5
    assert commit_after(SAMPLES, 0) == 1
    assert commit_after(SAMPLES, 5) is None


def test_recovery_is_that_of_the_slowest_topic() -> None:
    """From the fault until all topics have committed records again."""
    assert outcome().recoveries()[Fault.KILL_HOST] == [3.5]


def test_a_hand_over_ends_with_the_next_owners_first_records() -> None:
    """What the host that leaves still commits does not count, nor the claim of the next owner."""
    own, last, claim, records = (
        Sample(1, 10, 0, 4),
        Sample(2, 12, 0, 4),
        Sample(3, 12, 0, 5),
        Sample(4, 13, 0, 5),
    )
    assert handed_over_after([own, last, claim], 1.5) is None
    assert handed_over_after([own, last, claim, records], 1.5) == 4
    found = outcome()
    found.samples = {
        "orders": [own, last, claim, records],
        "visits": [Sample(1, 1, 0, 1), Sample(2, 2, 0, 1)],
    }
    found.happenings = [Happening(1.5, Fault.STOP_HOST, "host 1", "", moved=("orders",))]
    assert found.hand_overs() == {Fault.STOP_HOST: [2.5]}
    assert found.recoveries() == {}
    assert "| asked to stop | 1 | 2.5 | 2.5 |" in report.findings(found)


def test_a_topic_that_failed_without_a_cause_is_a_problem() -> None:
    """After a rollback a person is asked; otherwise nobody should be."""
    found = outcome()
    found.failed("orders", "gone", found.happenings)
    assert not found.ok
    cause = Happening(2, Fault.FOREIGN_ROLLBACK, "visits", "")
    found.problems.clear()
    found.failed("visits", "the ledger is not where it was", [*found.happenings, cause])
    assert found.ok


def test_a_page_gets_what_was_found(tmp_path: Path) -> None:
    """The verdict, the command that repeats the drill, and each step; the rest of the page stays."""
    found = outcome()
    found.options = "--faults foreign --heavy 0.1"
    page = tmp_path / "drill.md"
    page.write_text("# The drill\n\n## Results of the last run\n\nnothing\n")
    report.write(found, page)
    text = page.read_text()
    assert text.startswith("# The drill\n\n## Results of the last run\n\n✓ ")
    assert "nothing" not in text
    assert 'make drill ARGS="--seed 7 --rounds 1 --faults foreign --heavy 0.1"' in text
    assert "| sent | 1 | 0 |" in text
    found.verdicts[0].differ("records are <lost>", [(0, 1)])
    assert report.differences(found) == ["orders: 1 records are <lost>: (0, 1)"]


def test_patience_counts_the_time_that_a_machine_had() -> None:
    """Where ten programs want each processor ten seconds are one; an idle machine gives no second twice."""
    now = [0.0]
    crowd = [10.0]
    patience = Patience(5, lambda: crowd[0], lambda: now[0])
    now[0] = 49.0
    assert not patience.is_over
    crowd[0] = 0.1
    now[0] = 49.05
    assert not patience.is_over
    now[0] = 49.11
    assert patience.is_over


def test_a_drill_without_a_verdict_is_not_well() -> None:
    """Nothing compared is nothing proved."""
    assert not Outcome(1, 0.0).ok
