"""The demo's comparisons: any error fails one."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from tabletopic_kernel._datasets.clickstream.generator import Tallies
from tabletopic_kernel._datasets.clickstream.questions import QUESTIONS
from tabletopic_kernel.demo import proof
from tabletopic_kernel.demo.report import Outcome
from tests.demo.made_up import ENDS, EVENTS, compare, wrong


def test_a_table_with_each_event_once_passes_every_comparison(
    sent: tuple[list[dict[str, Any]], Tallies],
) -> None:
    """All five answers and checks agree; an outcome without any is not good."""
    outcome = compare(*sent)
    assert wrong(outcome) == set()
    assert len(outcome.answers) == len(QUESTIONS)
    assert all(part.ok for part in outcome.partitions)
    assert outcome.ok
    assert not Outcome(EVENTS).ok
    assert not Outcome(EVENTS, checks=[proof.Check("rows", "", 1, 1)]).ok


def _doubled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*rows, rows[7]]


def _one_lost(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return rows[:7] + rows[8:]


def _one_replaced(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The number of rows is right, but one event is lost and another is in its place."""
    return [*rows[:7], {**rows[8], "_kafka_metadata": rows[7]["_kafka_metadata"]}, *rows[8:]]


def _price_changed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    at = next(number for number, row in enumerate(rows) if row["event_type"] == "purchase")
    cent_more = {**rows[at], "price": rows[at]["price"] + Decimal("0.01")}
    return [*rows[:at], cent_more, *rows[at + 1 :]]


@pytest.mark.parametrize(
    ("spoil", "noticed_by"),
    [
        (_doubled, {"rows", "records"}),
        (_one_lost, {"rows", "event_ids"}),
        (_one_replaced, {"event_ids"}),
        (_price_changed, {"revenue_by_hour"}),
    ],
)
def test_what_is_wrong_in_the_table_is_noticed(
    sent: tuple[list[dict[str, Any]], Tallies],
    spoil: Callable[[list[dict[str, Any]]], list[dict[str, Any]]],
    noticed_by: set[str],
) -> None:
    """A duplicate, a loss, a swap and one cent too much each fail a comparison, and with it the whole."""
    rows, tallies = sent
    outcome = compare(spoil(rows), tallies)
    assert noticed_by <= wrong(outcome)
    assert not outcome.ok


@pytest.mark.parametrize(
    ("changed", "noticed_by"),
    [
        ({"ledger": {**ENDS, 2: 499}}, "ledger"),
        ({"ends": {**ENDS, 4: 1}}, "ledger"),
        ({"files_on_disk": 4}, "files"),
    ],
)
def test_what_is_wrong_beside_the_table_is_noticed(
    sent: tuple[list[dict[str, Any]], Tallies], changed: dict[str, Any], noticed_by: str
) -> None:
    """A ledger that is behind, a partition that was never read, a file that nobody committed."""
    outcome = compare(*sent, **changed)
    assert wrong(outcome) == {noticed_by}
    assert not outcome.ok
