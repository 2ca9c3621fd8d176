"""A run: tables from a seed, questions about their versions, and what differs from the rows themselves."""

from __future__ import annotations

import itertools
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from tests.engines.engines import Engine, SqlEngine, engines_of, spark_of
from tests.engines.known import known_fault, may_fail
from tests.engines.questions import EITHER, Question, ask, condition_filter, truth_of, value_of
from tests.engines.tables import ID, History, Version
from tests.engines.values import canonical, named, text

_TOGETHER = 10  # questions that an engine is asked at a time
_PER_TABLE = 250


@dataclass
class Outcome:
    """Questions asked, answers by engine, faults that are known, what is wrong, and seconds of CPU."""

    questions: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    seconds: Counter[str] = field(default_factory=Counter)

    def tell(self, wrong: str) -> None:
        """Note a wrong answer, at once for those who watch."""
        self.wrong.append(wrong)
        sys.stdout.write(f"{wrong}\n")
        sys.stdout.flush()

    @contextmanager
    def measured(self, name: str) -> Iterator[None]:
        """Count the CPU time of this process and Spark's."""
        begun = _cpu_s()
        yield
        self.seconds[name] += _cpu_s() - begun

    def __str__(self) -> str:
        """In a line."""
        answers = ", ".join(f"{count} by {name}" for name, count in sorted(self.answers.items()))
        known = ", ".join(f"{count} {name}" for name, count in sorted(self.known.items())) or "none"
        times = ", ".join(f"{name} {seconds:.0f}" for name, seconds in sorted(self.seconds.items()))
        return (
            f"{self.questions} questions, answers: {answers}; known faults: {known}; "
            f"wrong: {len(self.wrong)}; seconds of CPU: {times}"
        )


def _cpu_s() -> float:
    this = psutil.Process()
    times = [process.cpu_times() for process in (this, *this.children(recursive=True))]
    return sum(one.user + one.system for one in times)


Right = tuple[list[str], set[int]]


def expected(version: Version, question: Question) -> Right:
    """The answer by the rows themselves, and the ids of rows that may be in it or not."""
    lines, doubtful = [], set()
    for row in version.rows:
        truth = truth_of(question.condition, row)
        if truth is EITHER:
            doubtful.add(row[ID])
        if truth is True:
            shown = [canonical(named(value_of(one, row), one.kind), one.kind) for one in question.shown]
            lines.append(text([row[ID], *shown]))
    return sorted(lines), doubtful


def without(lines: Sequence[str], doubtful: set[int]) -> list[str]:
    """The lines whose rows are not doubtful."""
    return [line for line in lines if int(line[1:].split(",")[0].rstrip("]")) not in doubtful]


def run(
    seed: int, questions: int, session: SparkSession, folder: Path, *, until: float = float("inf")
) -> Outcome:
    """Tables from ``seed`` on, until so many questions are asked or the time is over."""
    outcome = Outcome()
    for number in itertools.count(seed):
        left = questions - outcome.questions
        if left <= 0 or time.monotonic() > until:
            return outcome
        ask_table(number, min(left, _PER_TABLE), session, folder, outcome, until)
        sys.stdout.write(f"seed {number}: {outcome}\n")
        sys.stdout.flush()
    return outcome


def made(seed: int, session: SparkSession, folder: Path) -> History:
    """The table of a seed."""

    def spark(name: str, sql: str) -> None:
        spark_of(history.properties, session).query(sql)

    history = History(f"lake{seed}", folder, random.Random(seed), spark)
    history.play(5)
    return history


def ask_table(
    seed: int, count: int, session: SparkSession, folder: Path, outcome: Outcome, until: float
) -> None:
    """Questions about one table, until the time is over."""
    chance = random.Random(-seed)
    with outcome.measured("tables"):
        history = made(seed, session, folder)
    # Compiling takes most of the time: of every fifth table only.
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN" if seed % 5 else "FALLBACK")
    table, (engines, lake) = history.table, engines_of(history, session)
    try:
        for first in range(0, count, _TOGETHER):
            if time.monotonic() > until:
                break
            number = chance.randrange(len(history.versions)) if chance.random() < 0.5 else -1
            version = history.versions[number]
            how = "head" if number == -1 else chance.choice(("snapshot", "time"))
            schema = table.schema() if how == "head" else version.schema
            version = Version(version.snapshot_id, version.at_ms, schema, version.rows)
            asked = [
                Question(seed, number, how, *ask(schema, chance))
                for _ in range(first, min(first + _TOGETHER, count))
            ]
            with outcome.measured("the rows themselves"):
                right = [(one, expected(version, one)) for one in asked]
            outcome.questions += len(right)
            for engine in engines:
                with outcome.measured(engine.name):
                    _compare(table, engine, version, right, outcome)
    finally:
        lake.close()


def _compare(
    table: Table, engine: Engine, version: Version, right: Sequence[tuple[Question, Right]], outcome: Outcome
) -> None:
    # A question that fails costs all those beside it.
    parts: dict[bool, list[tuple[Question, Right]]] = {False: [], True: []}
    for question, wanted in right:
        parts[may_fail(engine.name, question, version.schema, table)].append((question, wanted))
    for part in filter(None, parts.values()):
        answers = engine.ask(version, [question for question, _ in part])
        for (question, wanted), answer in zip(part, answers, strict=True):
            if answer is not None:
                _judge(table, engine, version, question, answer, wanted, outcome)


def _judge(
    table: Table,
    engine: Engine,
    version: Version,
    question: Question,
    answer: list[str] | str,
    expected: Right,
    outcome: Outcome,
) -> None:
    outcome.answers[engine.name] += 1
    right, doubtful = expected
    if not isinstance(answer, str):
        answer = sorted(without(answer, doubtful))
        if engine.name == "pyiceberg":  # which makes empty lists of null ones
            answer, right = ([line.replace("[]", "null") for line in lines] for lines in (answer, right))
    if answer == right:
        return
    fault = known_fault(engine.name, question, version.schema, table, answer)
    if fault is not None:
        outcome.known[f"{engine.name}: {fault}"] += 1
    else:
        outcome.tell(told(engine, version, question, answer, right))


def told(
    engine: Engine, version: Version, question: Question, answer: str | list[str], right: list[str]
) -> str:
    """What is wrong, and how to ask again."""
    if isinstance(engine, SqlEngine):
        asked = engine.sql(version, [question])
    else:
        asked = str(condition_filter(question.condition, version.schema))
    lines = [f"seed {question.table}, version {question.version} by {question.how}, {engine.name}: {asked}"]
    if isinstance(answer, str):
        lines.append(f"  {answer[:600]}")
    else:
        lines += [f"  missing {line[:300]}" for line in sorted(set(right) - set(answer))[:3]]
        lines += [f"  too much {line[:300]}" for line in sorted(set(answer) - set(right))[:3]]
        lines.append(f"  {len(answer)} rows instead of {len(right)}")
    return "\n".join(lines)
