"""Replay: dead letters processed again with the current settings; each becomes a row, or stays a dead letter
(I7).

A round takes some letters. Those that now become rows are staged, and marked in the dead-letter table with
the round's id. Then the rows are committed like any staged batch, with that id in the ledger, and the marked
letters are removed. The next settle completes or discards the round, depending on the ledger: ADR 0007.

Why this is safe: a round begins with settled letters, so none of them is a row. A marked letter is still a
letter. If the table's ledger names its round, the rows are there and the letters go; else the rows never came
and the letters stay. This owner or the next decides from the tables alone, so a crash at any step neither
loses nor doubles a record (I1, I7).
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.table import FileScanTask

from tabletopic_kernel.host.maintenance.jobs import Job, once_more
from tabletopic_kernel.host.maintenance.outcomes import Outcomes
from tabletopic_kernel.host.owner import Owner
from tabletopic_kernel.host.ownership.ownership import Ownership
from tabletopic_kernel.host.replay.letters import LetterSource, dead_letters_where, stage_dead_letters
from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.model.ledger import StagedOffsets, added
from tabletopic_kernel.model.settings.desired import ReplayRequest
from tabletopic_kernel.model.settings.values import Expectation
from tabletopic_kernel.model.steps import Step, reach
from tabletopic_kernel.pipeline.plan import Needs, ReplayedBatch, StagedBatch, StageResult
from tabletopic_kernel.pipeline.sinks import Place, places_of
from tabletopic_kernel.pipeline.source import Limits

# Letters per round: a round is one commit, decoded by the coordinator's own thread between its other work.
_ROUND_LETTERS = 50_000


class Replay:
    """One replay, of the letters that exist when it begins; its rounds run in the coordinator's thread."""

    name = "a replay"

    def __init__(self, request: ReplayRequest, ownership: Ownership, outcomes: Outcomes) -> None:
        self._request, self._ownership, self._outcomes = request, ownership, outcomes
        self._owner = ownership.owner
        self._figures = outcomes.figures(request)
        self._where: BooleanExpression = AlwaysTrue()
        self._left: frozenset[str] | None = None  # data files not tried yet; None before the first round

    def run(self) -> Job:
        """Try all letters, and have each round's rows committed before the next one begins."""
        self._where = dead_letters_where(self._request.where)
        while (staged := (yield self._ownership.ask(self._stage_round))) is not None:
            rows, commit = staged
            yield commit
            self._figures["rows"] = self._figures.get("rows", 0) + rows

    def report(self, error: TableTopicError | None) -> None:
        """Report the new rows, and the letters that stay by reason."""
        self._outcomes.ended(self._request, error, **self._figures)

    def _stage_round(self, _: Owner) -> tuple[int, Future[tuple[int, int]]] | None:
        batch = once_more(self.round)
        return None if batch is None else (batch.rows, self._ownership.stage(batch, at_once=True))

    def round(self) -> StagedBatch | None:
        """Try some dead letters; returns the rows to commit, None when no letters are left.

        Letters stay after an error of ``Owner.satisfy``, ``DeadLetters.settle``, ``refresh`` or a commit.
        """
        # Letters of an earlier round whose rows are in the table would become rows again (I7).
        self._owner.settle_letters()
        self._owner.dead_letters.refresh()
        while tasks := self._next_tasks():
            batch = self._round(tasks)
            if batch is not None:
                return batch
        return None

    def _next_tasks(self) -> Sequence[FileScanTask]:
        if self._owner.dead_letters.table is None:
            return ()
        source = LetterSource(self._owner.dead_letters, self._where)
        if self._left is None:
            self._left = source.files()
        tasks = source.next(self._left, Limits({}, _ROUND_LETTERS)) or ()
        self._left -= {task.file.file_path for task in tasks}
        return tasks

    def _round(self, tasks: Sequence[FileScanTask]) -> StagedBatch | None:
        owner, began = self._owner, time.monotonic()
        letters = pa.concat_tables([owner.dead_letters.read(task, AlwaysTrue()) for task in tasks])
        selected = pa.concat_tables([owner.dead_letters.read(task, self._where) for task in tasks])
        reach(Step.REPLAY)
        result, stayed = try_dead_letters(selected, owner)
        self._figures["stayed"] = added(self._figures.get("stayed", {}), Counter(stayed.values()))
        moved = set(places_of(selected)) - stayed.keys()
        if not moved:
            return None
        rules = map(Expectation.of, owner.keeper.settings.expectations)
        warning = {rule.name for rule in rules if rule.action == "warn"}  # others' letters stay
        failures = {name: n for name, n in result.expectation_failures.items() if name in warning}
        replay_id = f"{self._request.id}/{uuid.uuid4()}"
        try:
            self._mark(tasks, letters, moved, replay_id)
        except TableTopicError:
            owner.dead_letters.unsettle()
            # The letters may be in other files now, and those that stay are counted again.
            self._left, self._figures["stayed"] = None, {}
            owner.files.discard(result.own_files, ())
            raise
        reach(Step.MARKED)
        return ReplayedBatch(
            StagedOffsets({}, {}),
            tuple(result.files),
            result.rows,
            time.monotonic() - began,
            passed_over=result.passed_over,
            deletes=tuple(result.deletes),
            unavailable=result.unavailable,
            expectation_failures=failures,
            replay_id=replay_id,
        )

    def _mark(
        self, tasks: Sequence[FileScanTask], letters: pa.Table, moved: set[Place], replay_id: str
    ) -> None:
        is_moved = pa.array([place in moved for place in places_of(letters)], pa.bool_())
        column = letters.schema.get_field_index("replay_id")
        field = letters.schema.field(column)
        marked = letters.filter(is_moved)
        marked = marked.set_column(column, field, pa.repeat(pa.scalar(replay_id, field.type), len(marked)))
        rest = letters.filter(pc.invert(is_moved))
        self._owner.dead_letters.replace(tasks, (marked, rest), self._owner.ledger, replay_id)


def try_dead_letters(dead_letters: pa.Table, owner: Owner) -> tuple[StageResult, dict[Place, str]]:
    """As ``stage_dead_letters``, with the current settings; raises as ``Owner.satisfy``."""
    # The registry may have schemas now that it lacked when these became letters.
    owner.keeper.forget_unknown()
    plan = owner.satisfy(owner.plan().to_ask_again(0) or Needs(), recheck=True)
    while True:
        result, stayed = stage_dead_letters(dead_letters, plan)
        if result.error is None and not result.needs:
            return result, stayed
        owner.files.discard(result.own_files, ())
        if result.error is not None:
            raise result.error
        plan = owner.satisfy(result.needs, recheck=False)
