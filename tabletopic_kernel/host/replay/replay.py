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
from collections import deque
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import FileScanTask

from tabletopic_kernel.host.owner import Owner
from tabletopic_kernel.host.replay.letters import LetterSource, Tried, dead_letters_where, stage_dead_letters
from tabletopic_kernel.model.errors import ActionNeededError, TableTopicError
from tabletopic_kernel.model.ledger import StagedOffsets, added
from tabletopic_kernel.model.settings.desired import ReplayRequest
from tabletopic_kernel.model.steps import Step, reach
from tabletopic_kernel.pipeline.plan import Needs, ReplayedBatch, StagedBatch
from tabletopic_kernel.pipeline.sinks import Place, places_of
from tabletopic_kernel.pipeline.source import Limits

# Letters per round: a round is one commit, decoded by the coordinator's own thread between its other work.
_ROUND_LETTERS = 50_000


class Replay:
    """One replay, of the letters that exist when it begins; used only by the coordinator's thread."""

    def __init__(self, request: ReplayRequest, owner: Owner) -> None:
        self.request = request
        self.rows = 0
        self.stayed: dict[str, int] = {}
        self._owner = owner
        self._where = dead_letters_where(request.where)
        self._left: frozenset[str] | None = None  # data files to try

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
        every = pa.concat_tables([owner.dead_letters.read(task, AlwaysTrue()) for task in tasks])
        named = pa.concat_tables([owner.dead_letters.read(task, self._where) for task in tasks])
        reach(Step.REPLAY)
        tried = try_dead_letters(named, owner)
        for reason in tried.stayed.values():
            self.stayed = added(self.stayed, {reason: 1})
        moved = set(places_of(named)) - tried.stayed.keys()
        if not moved:
            return None
        replay_id = f"{self.request.id}/{uuid.uuid4()}"
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
        goes = pa.array([place in moved for place in places_of(every)], pa.bool_())
        at = every.schema.get_field_index("replay_id")
        kind = every.schema.field(at)
        marked = every.filter(goes)
        marked = marked.set_column(at, kind, pa.repeat(pa.scalar(replay_id, kind.type), len(marked)))
        rest = every.filter(pc.invert(goes))
        self._owner.dead_letters.replace(tasks, (marked, rest), self._owner.ledger, replay_id)


class Replays:
    """The requested replays of a coordinator, one after the other; used only by its thread."""

    def __init__(self, report: Callable[[ReplayRequest, int, dict[str, int], str | None], None]) -> None:
        self._report = report  # request, new rows, those that stay by reason, error
        self._asked: deque[ReplayRequest] = deque()
        self._current: Replay | None = None
        self._staged: StagedBatch | None = None  # of a round not committed yet

    def ask(self, request: ReplayRequest) -> None:
        """Replay when there is time."""
        self._asked.append(request)

    @property
    def has_work(self) -> bool:
        """Whether a round can be made now."""
        return self._staged is None and bool(self._asked or self._current)

    @property
    def is_under_way(self) -> bool:
        """Whether a replay, which chooses letters by their files, runs or waits for its turn."""
        return bool(self._asked or self._current)

    @property
    def is_in_round(self) -> bool:
        """Whether dead letters are marked but their rows not committed yet."""
        return self._staged is not None

    def step(self, owner: Owner) -> StagedBatch | None:
        """Run one round; returns rows to stage, or None when the replay is over."""
        request = self._current.request if self._current else self._asked.popleft()
        try:
            self._current = self._current or Replay(request, owner)
            batch = self._current.round()
        except TableTopicError as error:
            self._end(str(error), request)
            return None
        if batch is None:
            self._end(None, request)
        else:
            self._staged = batch
        return batch

    def committed(self) -> None:
        """Note that the round's rows are in the table."""
        if self._current is not None and self._staged is not None:
            self._current.rows += self._staged.rows
        self._staged = None

    def interrupt(self, error: str) -> None:
        """End the current replay early, if there is one; ``error`` is the reason."""
        if self._current is not None:
            self._end(error, self._current.request)

    def _end(self, error: str | None, request: ReplayRequest) -> None:
        current, self._current, self._staged = self._current, None, None
        self._report(request, current.rows if current else 0, current.stayed if current else {}, error)


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
