"""Replay: dead letters processed again with the current settings; each becomes a row, or stays a dead letter
(I7).

A round takes some letters. Those that now become rows are staged, and marked in the dead-letter table with
the round's id. Then the rows are committed like any staged batch, with that id in the ledger, and the marked
letters are removed. Whoever settles the letters later finishes or forgets the round by the ledger: ADR 0007.

Why this is safe: a round begins with settled letters, so none of them is a row. A marked letter is still a
letter. Its fate hangs on one fact, whether the table's ledger names its round: if so, the rows are there and
the letters go; else the rows never came and the letters stay. This owner or the next decides it from the
tables alone, so a crash at any step neither loses nor doubles a record (I1, I7).
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.table import FileScanTask

from tabletopic_kernel.formats.arrays import Positions
from tabletopic_kernel.host.maintenance.jobs import Job
from tabletopic_kernel.host.maintenance.outcomes import Outcomes
from tabletopic_kernel.host.owner import Owner
from tabletopic_kernel.host.ownership.ownership import Ownership
from tabletopic_kernel.model.columns.conditions import read_condition
from tabletopic_kernel.model.dead_letter import SCHEMA
from tabletopic_kernel.model.errors import ActionNeededError, TableTopicError
from tabletopic_kernel.model.ledger import StagedOffsets, added
from tabletopic_kernel.model.settings.sections import ReplayRequest
from tabletopic_kernel.model.steps import Step, reach
from tabletopic_kernel.pipeline.decode import LoadedPlan
from tabletopic_kernel.pipeline.plan import Needs, ReplayedBatch, StagedBatch, StagePlan, StageResult
from tabletopic_kernel.pipeline.stage import SOURCE_COLUMNS, SOURCE_HEADERS, Stage
from tabletopic_kernel.pipeline.write import Refusals

# Letters per round: a round is one commit, decoded by the coordinator's own thread between its other work.
_ROUND_LETTERS = 50_000
_TAKE_RECORDS = 10_000
Place = tuple[int, int]  # partition, offset


@dataclass(frozen=True)
class Tried:
    """The result of staging dead letters, and the positions of those that stay, by reason."""

    result: StageResult
    stayed: dict[Place, str]


def dead_letters_where(where: str | None) -> BooleanExpression:
    """The dead letters of a replay: those that match ``where``.

    Raises:
        UsageError: ``where`` is not a condition on the columns of a dead-letter table.
    """
    how = (
        "Write conditions on the dead letters' columns, for example reason = 'unknown_schema' and "
        "offset >= 100"
    )
    return read_condition(where, SCHEMA, how) or AlwaysTrue()


class Replay:
    """One replay, of the letters that exist when it begins; the coordinator's thread makes its rounds."""

    name = "a replay"

    def __init__(self, request: ReplayRequest, ownership: Ownership, outcomes: Outcomes) -> None:
        self._request, self._ownership, self._outcomes = request, ownership, outcomes
        self._owner = ownership.owner
        self._figures = outcomes.figures(request)
        self._where: BooleanExpression = AlwaysTrue()
        self._left: set[str] | None = None  # data files to try

    def run(self) -> Job:
        """Try all letters, and have each round's rows committed before the next one begins."""
        self._where = dead_letters_where(self._request.where)
        while (staged := (yield self._ownership.ask(self._stage_round))) is not None:
            rows, commit = staged
            yield commit
            self._figures["rows"] = self._figures.get("rows", 0) + rows

    def report(self, error: str | None) -> None:
        """Report the new rows, and those that stay by reason."""
        self._outcomes.replayed(self._request, error=error, **self._figures)

    def _stage_round(self, _: Owner) -> tuple[int, Future[int]] | None:
        batch = self.round()
        return None if batch is None else (batch.rows, self._ownership.stage(batch, at_once=True))

    def round(self) -> StagedBatch | None:
        """Try some dead letters; returns the rows to commit, None when no letters are left.

        Raises: as ``Owner.satisfy``, ``DeadLetters.settle`` and ``refresh``, and ``TopicTable.commit``; then
            letters stay.
        """
        # Letters of an earlier round whose rows are in the table would become rows again (I7).
        self._owner.require_settled_letters()
        self._owner.dead_letters.refresh()
        while tasks := self._next_tasks():
            batch = self._round(tasks)
            if batch is not None:
                return batch
        return None

    def _next_tasks(self) -> list[FileScanTask]:
        dead_letters = self._owner.dead_letters
        if dead_letters.table is None:
            return []
        chosen: list[FileScanTask] = []
        count, tasks = 0, dead_letters.tasks(self._where)
        if self._left is None:
            self._left = {task.file.file_path for task in tasks}
        for task in tasks:
            if task.file.file_path in self._left and count < _ROUND_LETTERS:
                chosen.append(task)
                count += task.file.record_count
        self._left -= {task.file.file_path for task in chosen}
        return chosen

    def _round(self, tasks: Sequence[FileScanTask]) -> StagedBatch | None:
        owner, began = self._owner, time.monotonic()
        every = pa.concat_tables([owner.dead_letters.read(task, AlwaysTrue()) for task in tasks])
        named = pa.concat_tables([owner.dead_letters.read(task, self._where) for task in tasks])
        reach(Step.REPLAY)
        tried = try_dead_letters(named, owner)
        self._figures["stayed"] = added(self._figures.get("stayed", {}), Counter(tried.stayed.values()))
        moved = set(_places(named)) - tried.stayed.keys()
        if not moved:
            return None
        replay_id = f"{self._request.id}/{uuid.uuid4()}"
        try:
            self._mark(tasks, every, moved, replay_id)
        except TableTopicError:
            owner.dead_letters.unsettle()
            owner.discard(tried.result.files, ())
            raise
        reach(Step.MARKED)
        nothing = StagedOffsets({}, {})
        seconds = time.monotonic() - began
        files = tuple(tried.result.files)
        result = tried.result
        return ReplayedBatch(
            nothing, files, result.rows, seconds, passed_over=result.passed_over, replay_id=replay_id
        )

    def _mark(
        self, tasks: Sequence[FileScanTask], every: pa.Table, moved: set[Place], replay_id: str
    ) -> None:
        goes = pa.array([position in moved for position in _places(every)], pa.bool_())
        at = every.schema.get_field_index("replay_id")
        kind = every.schema.field(at)
        marked = every.filter(goes)
        marked = marked.set_column(at, kind, pa.repeat(pa.scalar(replay_id, kind.type), len(marked)))
        rest = every.filter(pc.invert(goes))
        self._owner.dead_letters.replace(tasks, (marked, rest), self._owner.ledger, replay_id)


def try_dead_letters(dead_letters: pa.Table, owner: Owner) -> Tried:
    """Stage dead letters as records of the topic, with the current settings; raises as ``Owner.satisfy``."""
    # The registry may know schemas now that it did not when these became letters.
    owner.keeper.forget_unknown()
    plan = owner.satisfy(owner.plan().to_ask_again or Needs(), recheck=True)
    while True:
        tried = stage_dead_letters(dead_letters, plan)
        if tried.result.stopped is not None:
            owner.discard(tried.result.files, ())
            raise ActionNeededError(tried.result.stopped)
        needs = tried.result.needs
        if not needs:
            return tried
        owner.discard(tried.result.files, ())
        plan = owner.satisfy(needs, recheck=False)


def stage_dead_letters(dead_letters: pa.Table, plan: StagePlan, *, writes: bool = True) -> Tried:
    """Stage dead letters by a plan, in this process; without ``writes``, no files are written."""
    loaded = LoadedPlan(replace(plan.with_settings(errors="skip"), patient=True))
    stayed: dict[Place, str] = {}

    def note(batch: pa.RecordBatch, refused: Refusals) -> None:
        for index, position in enumerate(_places_at(batch, refused.positions)):
            stayed[position] = refused.reason(index)

    stage = Stage(loaded, note, writes=writes)
    for batch in source_batches(dead_letters):
        stage.take(batch)
    return Tried(stage.finish(), stayed)


def source_batches(dead_letters: pa.Table) -> Iterator[pa.RecordBatch]:
    """Dead letters as records in the source's format."""
    chosen = dead_letters.select(list(SOURCE_COLUMNS))
    at = chosen.schema.get_field_index("headers")
    target = chosen.schema.set(at, pa.field("headers", SOURCE_HEADERS))
    yield from chosen.cast(target).combine_chunks().to_batches(_TAKE_RECORDS)


def _places(dead_letters: pa.Table) -> list[Place]:
    return list(zip(dead_letters["partition"].to_pylist(), dead_letters["offset"].to_pylist(), strict=True))


def _places_at(batch: pa.RecordBatch, positions: Positions) -> list[Place]:
    partitions, offsets = (np.asarray(batch.column(name))[positions] for name in ("partition", "offset"))
    return list(zip(partitions.tolist(), offsets.tolist(), strict=True))
