"""Between a worker's threads and its coordinator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from pyiceberg.manifest import DataFile

from tabletopic_kernel.ingest.plan import Needs, StagePlan
from tabletopic_kernel.ingest.worker import StagedBatch, Worker


class Hearer(Protocol):
    """The coordinator, as a worker's listener sees it."""

    def take_batch(self, batch: StagedBatch, stopping: Callable[[], bool]) -> None:
        """Queue a staged batch; waits while too much is uncommitted."""

    def ask_plan(self, needs: Needs, *, recheck: bool) -> StagePlan:
        """A plan that meets ``needs``."""
        ...

    def discard(self, files: Sequence[DataFile], letters: Sequence[DataFile]) -> None:
        """Delete files that no commit will take."""

    def worker_ended(self, error: Exception | None) -> None:
        """The query is over by itself."""


class WorkerListener:
    """Passes a worker's reports on as long as it is the coordinator's current one."""

    def __init__(self, coordinator: Hearer) -> None:
        self._coordinator = coordinator
        self.worker: Worker | None = None

    def _stopping(self) -> bool:
        return self.worker is None or self.worker.stopping

    def staged(self, batch: StagedBatch) -> None:
        """See ``Listener``."""
        self._coordinator.take_batch(batch, self._stopping)

    def plan_for(self, needs: Needs, *, recheck: bool = False) -> StagePlan:
        """See ``Listener``."""
        return self._coordinator.ask_plan(needs, recheck=recheck)

    def discard(self, files: Sequence[DataFile], letters: Sequence[DataFile]) -> None:
        """See ``Listener``."""
        self._coordinator.discard(files, letters)

    def ended(self, error: Exception | None) -> None:
        """See ``Listener``."""
        if not self._stopping():
            self._coordinator.worker_ended(error)
