"""Deletion of rows by a topic's owner: what matches a condition, and what is older than ``keep_ms``.

The host's thread of maintenance reads which files have such rows (long, changes nothing). The coordinator's
thread then commits their deletion between two appends, like a compaction.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Final

from pyiceberg.expressions import BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from tabletopic_kernel.host.maintenance.jobs import Job
from tabletopic_kernel.host.maintenance.outcomes import Outcomes
from tabletopic_kernel.host.owner import Owner
from tabletopic_kernel.host.ownership.ownership import Ownership
from tabletopic_kernel.host.services import Services
from tabletopic_kernel.model.errors import OutdatedError, TableTopicError
from tabletopic_kernel.model.ledger import StagedOffsets
from tabletopic_kernel.model.progress.events import RowsDeleted
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table.changes.old_rows import old_rows
from tabletopic_kernel.table.changes.row_deletes import DeletingBatch, Holder, holders, in_rounds
from tabletopic_kernel.table.sweep import load_same

_LOG = logging.getLogger(__name__)
_FIRST_MS: Final = 5 * 60_000  # after an ownership begins
_EVERY_MS: Final = 60 * 60_000
_TRIES: Final = 5  # to find no such rows any more, while others write


class Deletion:
    """The rows of a table that match; ``done`` counts ``rows``, ``files`` and files ``rewritten``."""

    def __init__(self, ownership: Ownership, services: Services, table: Table) -> None:
        self._ownership, self._services, self._table = ownership, services, table
        self.done: Counter[str] = Counter()
        self.held: set[str] = set()  # files that had such rows

    def run(
        self,
        where: BooleanExpression,
        others: set[str],
        is_whole: Callable[[DataFile], bool] = lambda _: False,
    ) -> Job:
        """Delete them; ``others`` as in ``holders``. Raises OutdatedError if others bring ever more."""
        for _ in range(_TRIES):
            fresh = load_same(self._table, self._services.catalog())
            matching = holders(fresh, where, others, is_whole)
            if not matching:
                return
            self.held.update(holder.file.file_path for holder in matching)
            try:
                for part in in_rounds(matching):
                    yield from self._delete(part, where)
            except OutdatedError as error:
                trouble: TableTopicError = error
            else:
                trouble = OutdatedError("other programs add such rows all the time; try again")
        raise trouble

    def _delete(self, part: list[Holder], where: BooleanExpression) -> Job:
        by_file = {holder.file.file_path: holder.whole for holder in part}
        batch = DeletingBatch(StagedOffsets({}, {}), (), 0, 0.0, where=where, holders=by_file)
        commit = yield self._ownership.ask(lambda _: self._ownership.stage(batch, at_once=True))
        yield commit
        self.done.update(batch.done)


class OldRowsSchedule:
    """When rows that are too old are looked for; for the coordinator's thread."""

    def __init__(self, settings: TopicSettings, services: Services) -> None:
        self.settings, self._services = settings, services
        self._due_ms: int | None = None
        self._looked: tuple[int, set[str]] = 0, set()

    def owned(self) -> None:
        self._due_ms = self._services.elapsed_ms() + _FIRST_MS

    def is_due(self, owner: Owner) -> bool:
        if self.settings.keep_ms is None or owner.table is None or self._due_ms is None:
            return False
        return self._services.elapsed_ms() >= self._due_ms

    def begin(self) -> None:
        self._due_ms = self._services.elapsed_ms() + _EVERY_MS

    def others(self, before_ms: int) -> set[str]:
        """The files that had no older rows, when they were read; for the thread of maintenance."""
        if self._looked[0] != before_ms:
            self._looked = before_ms, set()
        return self._looked[1]


class OldRowsDeletion:
    """The deletion of rows that the settings keep no longer, for one ownership."""

    name = "a deletion of old rows"

    def __init__(
        self, schedule: OldRowsSchedule, services: Services, ownership: Ownership, outcomes: Outcomes
    ) -> None:
        table = ownership.owner.table
        assert table is not None
        self._schedule, self._services, self._outcomes = schedule, services, outcomes
        self._table = table.table
        self._deletion = Deletion(ownership, services, table.table)
        self._about: dict[str, object] = {}
        schedule.begin()

    def run(self) -> Job:
        fresh = load_same(self._table, self._services.catalog())
        old = old_rows(self._schedule.settings, fresh.schema(), fresh.spec(), self._services.now_ms())
        assert old is not None
        self._about = {"column": old.column, "before_ms": old.before_ms}
        yield from self._deletion.run(old.where, self._schedule.others(old.before_ms), old.is_whole)

    def report(self, error: TableTopicError | None) -> None:
        if self._deletion.done or error is not None:
            self._outcomes.report(RowsDeleted, error, **self._about, **self._deletion.done)
