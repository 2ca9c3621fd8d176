"""The questions and checks of the demo: what was found, what it must be, whether they agree.

Everything found comes from DuckDB over the Iceberg table, from the table's own metadata, or from the
broker; everything expected from the generator, which counted while it made the events.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from time import perf_counter
from typing import Any, Protocol

from tabletopic_kernel._datasets.clickstream.questions import QUESTIONS, Question, Row
from tabletopic_kernel._datasets.clickstream.tallies import Tallies
from tabletopic_kernel.model.ledger import Offsets


class Ask(Protocol):
    """SQL in, rows out."""

    def __call__(self, sql: str) -> list[Row]: ...  # noqa: D102


@dataclass(frozen=True)
class Answer:
    """One question's rows beside those it must have."""

    name: str
    title: str
    columns: tuple[str, ...]
    found: list[Row]
    expected: list[Row]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether they are the same rows in the same order."""
        return self.found == self.expected

    def differences(self) -> list[str]:
        """One line for each row that is not as it must be."""
        pairs = zip_longest(self.found, self.expected)
        return [
            f"row {number}: {_words(found)}, must be {_words(expected)}"
            for number, (found, expected) in enumerate(pairs, start=1)
            if found != expected
        ]


@dataclass(frozen=True)
class Check:
    """One figure that must be another one."""

    name: str
    title: str
    found: Any
    expected: Any

    @property
    def ok(self) -> bool:
        """Whether they are equal."""
        return bool(self.found == self.expected)


@dataclass(frozen=True)
class Partition:
    """One partition of the topic beside its part of the table. Offsets are next to read."""

    partition: int
    end_offset: int
    ledger: int | None
    rows: int
    distinct: int

    @property
    def ok(self) -> bool:
        """Whether the table has read to the end and has each record once."""
        return self.ledger == self.end_offset == self.rows == self.distinct


def answers(
    ask: Ask, table: str, tallies: Tallies, questions: Iterable[Question] = QUESTIONS
) -> list[Answer]:
    """Ask every question of the data set."""
    given = []
    for question in questions:
        began = perf_counter()
        found = ask(question.on(table))
        seconds = round(perf_counter() - began, 3)
        expected = question.expected(tallies)
        given.append(Answer(question.name, question.title, question.columns, found, expected, seconds))
    return given


def partitions(ask: Ask, table: str, ends: Offsets, ledger: Offsets) -> list[Partition]:
    """What DuckDB counts in each partition, beside the topic's end offsets and the table's ledger."""
    counted = {
        number: (rows, distinct)
        for number, rows, distinct in ask(
            f"""\
SELECT _kafka_metadata.partition AS number, count(*), count(DISTINCT _kafka_metadata."offset")
FROM {table}
GROUP BY number"""
        )
    }
    return [
        Partition(number, ends.get(number, 0), ledger.get(number), *counted.get(number, (0, 0)))
        for number in sorted({*ends, *ledger, *counted})
    ]


def checks(
    ask: Ask, table: str, sent: int, parts: Sequence[Partition], files_of_table: int, files_on_disk: int
) -> list[Check]:
    """The proof: each record once, nothing unread, nothing left over by the kill."""
    [(rows, records, event_ids)] = ask(
        f"""\
SELECT count(*),
       count(DISTINCT (_kafka_metadata.partition, _kafka_metadata."offset")),
       count(DISTINCT event_id)
FROM {table}"""
    )
    ledger = {part.partition: part.ledger for part in parts}
    ends = {part.partition: part.end_offset for part in parts}
    return [
        Check("rows", "Rows in the table = events sent", rows, sent),
        Check("records", "Distinct (partition, offset) = rows: no record twice", records, rows),
        Check("event_ids", "Distinct event ids = events sent: no event missing", event_ids, sent),
        Check("ledger", "Ledger of the table = end offsets of the topic", ledger, ends),
        Check("files", "Data files on disk = data files of the table", files_on_disk, files_of_table),
    ]


def _words(row: Row | None) -> str:
    return "no such row" if row is None else ", ".join(map(str, row))
