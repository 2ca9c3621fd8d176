"""Erasure: rows and dead letters that match go, and then each snapshot and file that still has them.

Each step finds by itself what is left to do, so after an interruption another request finishes it. Snapshots
that somebody's branch or tag names stay, and the event says which of them have such rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyiceberg.expressions import BooleanExpression
from pyiceberg.table import Table

from tabletopic_kernel.clients.catalog.catalog import lends_keys, reachable
from tabletopic_kernel.clients.storage.locations import file_name
from tabletopic_kernel.host.maintenance.expiry import Expiry
from tabletopic_kernel.host.maintenance.jobs import Job
from tabletopic_kernel.host.maintenance.outcomes import Outcomes
from tabletopic_kernel.host.maintenance.row_deletes import Deletion
from tabletopic_kernel.host.ownership.ownership import Ownership
from tabletopic_kernel.host.replay.drop import LetterDrop
from tabletopic_kernel.host.replay.letters import dead_letters_where
from tabletopic_kernel.host.services import Services
from tabletopic_kernel.model.errors import ActionNeededError, TableTopicError
from tabletopic_kernel.model.settings.desired import MaintenanceRequest
from tabletopic_kernel.table.changes.row_deletes import holding
from tabletopic_kernel.table.compaction.plan import rows_where
from tabletopic_kernel.table.sweep import load_same

MOST_NAMES: Final = 100  # of files in the event


class Erasure:
    """One erasure, also of what comes meanwhile; ``expiry``: of all snapshots without a name."""

    name = "an erasure"

    def __init__(
        self,
        request: MaintenanceRequest,
        services: Services,
        ownership: Ownership,
        outcomes: Outcomes,
        expiry: Expiry,
    ) -> None:
        self._request, self._services, self._ownership = request, services, ownership
        self._outcomes, self._expiry = outcomes, expiry
        self._figures = outcomes.figures(request)

    def run(self) -> Job:
        """Delete letters and rows, expire, remove files, and look at what is left."""
        owner, catalog = self._ownership.owner, self._services.catalog
        if owner.table is None:
            raise ActionNeededError("there is no table yet: the first records create it")
        if (letters := self._request.letters) is not None:
            drop = self._request.model_copy(update={"where": letters})
            yield from LetterDrop(drop, self._ownership, self._outcomes).run()
        table = load_same(owner.table.table, catalog())
        where = rows_where(self._request.where, table.schema())
        assert where is not None
        deletion, others = Deletion(self._ownership, self._services, table), set[str]()
        try:
            yield from deletion.run(where, others)
        finally:
            self._figures.update(deletion.done)
        yield from self._expiry.run()
        erased = sorted(set(self._expiry.removed.paths) & deletion.held)
        self._figures["gone"] = [file_name(path) for path in erased[:MOST_NAMES]]
        left = [*map(str, self._expiry.errors), *having(load_same(table, catalog()), where, others)]
        if letters is not None and owner.dead_letters.table is not None:
            letter_table = load_same(owner.dead_letters.table.table, catalog())
            left += having(letter_table, dead_letters_where(letters), set())
        self._figures["left"] = left

    def report(self, error: TableTopicError | None) -> None:
        self._outcomes.ended(self._request, error, **self._figures)


def having(
    table: Table, where: BooleanExpression, others: set[str], snapshots: set[int] | None = None
) -> Iterator[str]:
    """The branches, tags and other snapshots whose files have rows ``where``, in words.

    ``others``: files that have none. ``snapshots``: only these.
    """
    name, metadata = ".".join(table.name()), table.metadata
    for snapshot in metadata.snapshots:
        if snapshots is not None and snapshot.snapshot_id not in snapshots:
            continue
        of = [ref for ref, at in metadata.refs.items() if at.snapshot_id == snapshot.snapshot_id]
        with reachable("the storage", lent=lends_keys(table)):
            try:
                tasks = list(table.scan(row_filter=where, snapshot_id=snapshot.snapshot_id).plan_files())
            except ValueError as error:
                yield f"snapshot {snapshot.snapshot_id} of {name} cannot be read: {error}"
                continue
        if files := list(holding((task.file for task in tasks), table, where, others)):
            names = f" ({', '.join(sorted(of))})" if of else ""
            yield f"snapshot {snapshot.snapshot_id}{names} of {name} has {len(files):,} files with such rows"
