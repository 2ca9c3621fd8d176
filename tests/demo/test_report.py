"""The demo's output: pages at its end, and lines while it runs."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from tabletopic_kernel._datasets.clickstream.generator import Tallies
from tabletopic_kernel.demo import proof, report
from tabletopic_kernel.demo.report import Outcome, Story
from tabletopic_kernel.demo.screen import Screen
from tests.demo.made_up import answer, compare, text_of


def test_a_wrong_answer_shows_what_it_must_be() -> None:
    """A tick for the right one, a cross and each row that differs; both figures of a wrong check."""
    right = text_of(report.answer_table(answer([("/", 5)], [("/", 5)])))
    assert "✓" in right
    assert "✗" not in right
    wrong = text_of(report.answer_table(answer([("/", 5), ("/a", 1)], [("/", 6)])))
    assert "✗" in wrong
    assert "row 1: /, 5, must be /, 6" in wrong
    assert "row 2: /a, 1, must be no such row" in wrong
    text = text_of(report.check_table([proof.Check("rows", "Rows", 99_999, 100_000)]))
    assert "✗" in text
    assert "99,999, must be 100,000" in text


def _outcome(sent: tuple[list[dict[str, Any]], Tallies]) -> Outcome:
    outcome = compare(*sent)
    first = proof.Commit(17 * 10**17, 1_000, 1, 0, 0, 0, {0: 0})
    rows = replace(first, at_ms=3_000, rows=10_500, files=1, bytes=450_000, oldest_ms=500, newest_ms=2_600)
    outcome.commits = [first, rows, replace(first, epoch=2)]
    outcome.schemas = [proof.SchemaStep(0, 24, ("create default.clicks",), ("clicks-value version 1",))]
    outcome.story = Story(killed_s=10.0, takeover_s=17.5, caught_up_s=21.0)
    outcome.seconds = {"servers": 5.0, "stream": 30.0}
    return outcome


def test_pages_fit_100_columns(sent: tuple[list[dict[str, Any]], Tallies]) -> None:
    """Every page of the end, in a log: no line is longer, none ends in blanks, no colour."""
    outcome = _outcome(sent)
    text = "".join(
        text_of(page)
        for page in (
            report.commit_table(outcome.commits), report.schema_table(outcome.schemas),
            *map(report.answer_table, outcome.answers), report.partition_table(outcome.partitions),
            report.check_table(outcome.checks), report.summary(outcome), report.next_steps(None),
        )
    )  # fmt: skip
    assert max(map(len, text.splitlines())) <= 100
    assert not [line for line in text.splitlines() if line != line.rstrip()]
    assert "\x1b" not in text
    assert "0.4 …  2.5 s" in text
    assert "10 of 10 comparisons agree" in text
    assert "7.5 s after the kill; 11.0 s after it" in text


def test_pages_are_for_people() -> None:
    """A line now and then, long texts under their beginning; times, money and counts as people write."""
    stream = io.StringIO()
    words = "the table's schema follows: add [device] " + "struct<width: int> " * 12
    Screen(stream).moment("✓", words)
    first, *others = stream.getvalue().splitlines()
    assert first.startswith("    0.0 s  ✓ the table's schema follows: add [device]")
    assert others
    assert all(line.startswith(" " * 13) and len(line) <= 100 for line in others)
    assert " ".join(" ".join([first[13:], *others]).split()) == " ".join(words.split())
    stream = io.StringIO()
    screen = Screen(stream)
    screen.begin()
    for sent_so_far in range(50):
        screen.progress(f"sent {sent_so_far}")
    assert [line[-6:] for line in stream.getvalue().splitlines()] == ["sent 0"]
    row = (datetime(2026, 1, 5, 6), Decimal("1234.5"))
    sold = proof.Answer("revenue", "Sold?", ("hour_utc", "revenue_eur"), [row], [row], 0.0)
    text = text_of(report.answer_table(sold))
    assert "Mon 06:00" in text
    assert "1,234.50" in text
