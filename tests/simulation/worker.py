"""The worker as a model: reads the topic, stages with the product's own ``stage``, notifies the listener.

It does what ``pipeline/worker/worker.py`` does around a batch, without Spark and threads: while the real one
waits for a plan, this one has a turn that does nothing.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from tabletopic_kernel.host.ownership.ownership import Ownership
from tabletopic_kernel.model.errors import RetryableError, TableTopicError
from tabletopic_kernel.model.ledger import StagedOffsets
from tabletopic_kernel.model.steps import Step, reach
from tabletopic_kernel.pipeline.plan import Needs, StagedBatch, StagePlan
from tabletopic_kernel.pipeline.source import SourceSpec
from tabletopic_kernel.pipeline.stage import stage_files
from tabletopic_kernel.pipeline.worker.loaded_plans import load_plan

if TYPE_CHECKING:
    from tests.simulation.process import Process

_ROOM = 60  # batches: the real listener would wait beyond that, and one thread cannot


class ModelWorker:
    """Stands in for ``Worker``: ``start``, ``read_up_to``, ``stop`` as there, and ``turn``."""

    def __init__(self, process: Process, spec: SourceSpec, plan: StagePlan, listener: Ownership) -> None:
        self._process = process
        self._listener = listener
        self._plan = plan
        self._rechecked_ms = process.world.now_ms
        self._position = dict(spec.start)
        self._end: dict[int, int] | None = None  # of the batch under way
        self._request: Future[StagePlan] | None = None
        self._ended = False
        self.stopping = False
        self.waits_s: float | None = None  # there is one topic, which waits for no turn
        self.cluster_waits: str | None = None  # nor for executors
        self.staging_records = 0  # nor is staging seen

    def start(self) -> None:
        """Begin to read."""
        self._process.world.outside.call("spark", lambda: None)
        self._process.workers.append(self)

    def rest(self, seconds: float) -> None:
        """The simulation chooses when batches begin."""

    def read_up_to(self, ends: Mapping[int, int]) -> None:
        """The real one ends its query early; here, turns come when they come."""

    def wind_down(self) -> None:
        """As the real one: no more batches begin."""
        self.stopping = True

    def stop(self) -> None:
        """No more batches; the one under way was thrown away or staged before."""
        self.stopping = True

    @property
    def is_over(self) -> bool:
        """Whether it will never do anything again."""
        return self._ended or self.stopping

    def turn(self, dice: random.Random) -> None:
        """One piece of work: begin a batch, or continue the one that waited for a plan."""
        if self.is_over or (self._request is not None and not self._request.done()):
            return
        try:
            if self._request is not None:
                request, self._request = self._request, None
                self._plan = request.result()
            elif self._end is None:
                self._begin(dice)
            if self._end is not None:
                self._stage()
        except TableTopicError as error:
            self._finish(error)
        except Exception as error:  # of storage: the task fails, and the query with it
            self._finish(RetryableError(str(error)))

    def _begin(self, dice: random.Random) -> None:
        topic = self._process.world.topic
        gone = {p for p, first in topic.first.items() if first > self._position.get(p, 0)}
        short = {p for p, o in self._position.items() if o > topic.end().get(p, 0)}
        if gone or short:
            raise RetryableError("the source lost records")  # auto.offset.reset = error
        most = 12 if self._process.role in ("A", "B") else 1_000
        end = {p: min(o, self._position.get(p, 0) + dice.randint(1, most)) for p, o in topic.end().items()}
        if len(self._listener.batches) > _ROOM or all(self._position.get(p, 0) >= o for p, o in end.items()):
            return
        self._end = end
        since_ms = self._process.world.now_ms - self._rechecked_ms
        if (asked := self._plan.to_ask_again(since_ms / 1000)) is not None:
            self._rechecked_ms = self._process.world.now_ms
            self._ask(asked, recheck=True)

    def _ask(self, needs: Needs, *, recheck: bool = False) -> None:
        """As ``Ownership.plan_for``, whose answer is fetched at a later turn."""
        self._request = self._listener.ask(lambda owner: owner.satisfy(needs, recheck=recheck))

    def _stage(self) -> None:
        if self._request is not None:
            return
        end = self._end
        assert end is not None
        start = {partition: self._position.get(partition, 0) for partition in end}
        reach(Step.STAGE)
        loaded = load_plan(self._plan.topic, pickle.dumps(self._plan))
        result = stage_files(loaded, [self._process.world.topic.batch(start, end)])
        reach(Step.STAGED)
        if result.needs:
            self._listener.discard(result.own_files, result.dead_letters)
            self._ask(result.needs)
            return
        if self._plan.table is None:
            self._listener.discard(result.own_files, result.dead_letters)
            raise RetryableError("there is no table yet")
        self._position.update(end)
        reach(Step.BATCH)
        self._end = None
        told: dict[str, Any] = {"dead_letters": tuple(result.dead_letters), "refused": result.refused}
        told["deletes"] = tuple(result.deletes)
        offsets = StagedOffsets(start, end, result.newest_ms, last_records=result.last_records)
        self._listener.staged(StagedBatch(offsets, tuple(result.files), result.rows, 0.1, **told))

    def _finish(self, error: Exception) -> None:
        self._ended = True
        self._listener.ended(error)
