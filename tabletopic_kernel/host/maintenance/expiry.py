"""Expiry of old snapshots by the owner of a topic: when it is due, and its three steps.

The host's thread of maintenance finds the snapshots to expire and collects their files (long, changes
nothing); the coordinator's thread removes the snapshots from the metadata (short, it alone changes the
table); then the files are removed. A crash in between leaves orphans: the daily sweep removes those of
finished epochs, a request to remove orphans the others.

Why this is safe: see ``TopicTable.expire`` and ``remove_expired``. The coordinator answers only while none of
its commits is pending or unsure, and no other work of the topic runs meanwhile.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from tabletopic_kernel.host.maintenance.jobs import Job, once_more
from tabletopic_kernel.host.maintenance.outcomes import Outcomes
from tabletopic_kernel.host.owner import Owner
from tabletopic_kernel.host.ownership.ownership import Ownership
from tabletopic_kernel.host.services import Services
from tabletopic_kernel.model.errors import MissingFilesError, RetryableError, TableTopicError, error_of
from tabletopic_kernel.model.progress.events import Expired, OrphansRemoved
from tabletopic_kernel.model.settings.desired import MaintenanceRequest
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table.changes.way_back import missing_files
from tabletopic_kernel.table.expiry import Retention, only_reached_by, reaches_back_to, to_expire
from tabletopic_kernel.table.files.orphans import orphan_candidates
from tabletopic_kernel.table.files.own import UnreachableFiles
from tabletopic_kernel.table.health import idle_because
from tabletopic_kernel.table.sweep import Removed, load_same, remove_expired, remove_orphans, sweep_finished

_LOG = logging.getLogger(__name__)
_FIRST_MS = 5 * 60_000  # after the first commit of an ownership
_EVERY_MS = 60 * 60_000
EACH_COMMITS: Final = 200  # and at least after this many: each snapshot slows every commit a little
_AGAIN_MS: Final = 60_000  # after a round that left some
_ORPHANS_EVERY_MS: Final = 24 * 60 * 60_000
_MOST: Final = 2_000  # snapshots per round: their manifest lists are read, their ids sent in one request;
# and data files of the head that must be there before older snapshots go


class ExpirySchedule:
    """When a topic's snapshots expire by themselves; for the coordinator's thread."""

    def __init__(self, settings: TopicSettings, services: Services) -> None:
        self._settings, self._services = settings, services
        self.retention = Retention.of(settings)
        self._awaits_commit = False
        self._due_ms: int | None = None
        self._commits = 0  # since the last expiry began
        self._orphans_due_ms = 0

    def owned(self) -> None:
        now = self._services.elapsed_ms()
        self._due_ms, self._awaits_commit = now + _EVERY_MS, True
        self._orphans_due_ms = now + _FIRST_MS

    def committed(self) -> None:
        self._commits += 1
        if self._awaits_commit:
            self._awaits_commit = False
            self._due_ms = self._services.elapsed_ms() + _FIRST_MS
        elif self._commits == EACH_COMMITS:
            self._due_ms = self._services.elapsed_ms()

    def is_due(self, owner: Owner) -> bool:
        if self._due_ms is None or self._services.elapsed_ms() < self._due_ms:
            return False
        if owner.table is None:
            return False
        return idle_because(owner.table.table, self._settings, "expire", self._services.now_ms()) is None

    def begin(self) -> bool:
        """Note that an expiry begins; returns whether the daily sweep of finished epochs is due, too."""
        now = self._services.elapsed_ms()
        self._due_ms, self._commits = now + _EVERY_MS, 0
        sweeps = self._orphans_due_ms <= now
        if sweeps:
            self._orphans_due_ms = now + _ORPHANS_EVERY_MS
        return sweeps

    def again(self) -> None:
        """Note that a round left some snapshots."""
        self._due_ms = self._services.elapsed_ms() + _AGAIN_MS


_NOTHING: Final = UnreachableFiles(frozenset())
_DOUBT: Final = (
    "a branch or tag may have been created from a snapshot while it expired, so no file was removed"
)


@dataclass(frozen=True)
class _Expired:
    """The result of an expiry for one table."""

    table: Table
    left: UnreachableFiles = _NOTHING
    may_go: bool = True  # whether the files may be removed
    error: TableTopicError | None = None
    after: TableMetadata | None = None  # the table's metadata after the expiry

    @property
    def figures(self) -> dict[str, Any]:
        """Fields of the event."""
        metadata = self.after or self.table.metadata
        return {
            "snapshots": len(self.left.ids),
            "kept": len(metadata.snapshots),
            "reaches_back_to_ms": reaches_back_to(metadata),
        }


class Expiry:
    """An expiry of a topic's tables for one ownership; ``request``: None if it was due."""

    name = "an expiry"

    def __init__(
        self,
        schedule: ExpirySchedule,
        services: Services,
        ownership: Ownership,
        outcomes: Outcomes,
        request: MaintenanceRequest | None,
        retention: Retention | None = None,
    ) -> None:
        self._schedule, self._services, self._ownership = schedule, services, ownership
        self._retention = retention or schedule.retention
        self.removed, self.errors = Removed(), list[TableTopicError]()
        self._outcomes, self._request = outcomes, request
        self._request_id = request.id if request else None
        owner = ownership.owner
        self._epoch = owner.ledger.epoch
        tables = ((True, owner.dead_letters.table), (False, owner.table))
        self._tables = [(letters, owned.table) for letters, owned in tables if owned is not None]
        # An erasure that was interrupted may have left files of an epoch that is over.
        self._sweeps = schedule.begin() or retention is not None

    def run(self) -> Job:
        """Expire the dead letters' snapshots, then the table's, then remove orphans if due or requested."""
        for dead_letters, table in self._tables:
            expired = self._find(table)
            if expired.left.ids:
                commit = partial(self._commit, expired, dead_letters)
                expired = yield self._ownership.ask(commit)
            self._remove(expired, dead_letters)
        if self._request is not None and not self._tables:
            self._outcomes.report(Expired, None, request_id=self._request_id)
        everywhere = self._request is not None and self._request.orphans
        if self._sweeps or everywhere:
            self._remove_orphans(everywhere=everywhere)

    def report(self, error: TableTopicError | None) -> None:
        """Report an early end; the end of each part has been reported."""
        if error is not None and self._request is not None:
            self._outcomes.ended(self._request, error)

    def _find(self, table: Table) -> _Expired:
        """Find what expires in a table; on an error, nothing."""
        try:
            fresh = load_same(table, self._services.catalog())
            if faults := missing_files(fresh, _MOST):
                name = ".".join(table.name())
                lacks = f"{name} lacks files, so its snapshots stay: {faults[0]}"
                return _Expired(fresh, error=MissingFilesError(lacks))
            ids = to_expire(fresh.metadata, self._retention, self._services.now_ms())[:_MOST]
            return _Expired(fresh, only_reached_by(fresh, ids))
        except Exception as error:
            what = f"{'.'.join(table.name())}: the files of expired snapshots were not determined"
            return _Expired(table, error=_logged(error, what))

    def _commit(self, expired: _Expired, dead_letters: bool, owner: Owner) -> _Expired:
        """In the coordinator's thread: remove the snapshots from the metadata, if they still should go."""
        table = owner.dead_letters.table if dead_letters else owner.table
        planned = owner.dead_letters.ledger if dead_letters else owner.ledger
        if table is None or planned is None:
            reason = "the dead letters are not resolved; the next expiry covers their snapshots"
            return _Expired(expired.table, error=RetryableError(reason))
        now = self._services.now_ms()

        def choose(metadata: TableMetadata) -> list[int]:
            ids = to_expire(metadata, self._retention, now)
            return [snapshot_id for snapshot_id in ids if snapshot_id in expired.left.ids]

        try:
            ids, may_go = once_more(lambda: table.expire(planned, choose))
        except TableTopicError as error:
            return _Expired(expired.table, error=error)
        if len(expired.left.ids) == _MOST:
            self._schedule.again()
        doubt = None if may_go else TableTopicError(_DOUBT)
        left = replace(expired.left, ids=ids)
        return _Expired(expired.table, left, may_go, doubt, table.table.metadata)

    def _remove(self, expired: _Expired, dead_letters: bool) -> None:
        removed, error = Removed(), expired.error
        if expired.left.ids and expired.may_go and error is None:
            try:
                removed = remove_expired(expired.table, expired.left, catalog=self._services.catalog())
            except Exception as trouble:
                what = f"{'.'.join(expired.table.name())}: files of expired snapshots stay"
                error = _logged(trouble, what)
        self.removed += removed
        self.errors += [error] if error is not None else []
        if self._request is not None or expired.left.ids or error is not None:
            about = {"request_id": self._request_id, "dead_letters": dead_letters}
            self._outcomes.report(Expired, error, **about, **vars(removed), **expired.figures)

    def _remove_orphans(self, *, everywhere: bool) -> None:
        removed, error = Removed(), None
        now_ms = self._services.now_ms()
        try:
            catalog = self._services.catalog()
            for _, table in self._tables:
                removed += sweep_finished(table, before_epoch=self._epoch, catalog=catalog)
                if everywhere:
                    fresh = load_same(table, catalog)
                    removed += remove_orphans(fresh, orphan_candidates(fresh, now_ms), catalog=catalog)
        except Exception as trouble:
            error = _logged(trouble, "orphans stay")
            self.errors.append(error)
        if everywhere or removed.files:
            request_id = self._request_id if everywhere else None
            self._outcomes.report(OrphansRemoved, error, request_id=request_id, **vars(removed))
        elif error is not None:
            _LOG.warning("files that no snapshot needs stay for now: %s", error)


def _logged(error: Exception, event: str) -> TableTopicError:
    """The error as a value; logged, if it is a bug."""
    if not isinstance(error, TableTopicError):
        _LOG.error(event, exc_info=error)
    return error_of(error)
