"""Expiry of old snapshots by the owner of a topic: when it is due, and its three steps.

A separate thread finds the snapshots to expire and collects their files (long, changes nothing); the
coordinator's thread removes the snapshots from the metadata (short, it alone changes the table); another
separate thread removes the files. Each thread has its own catalog. A crash in between leaves files that
nobody needs: the daily sweep removes those of finished epochs, a request to remove orphans the others.

Why this is safe: see ``TopicTable.expire`` and ``remove_expired``. The coordinator calls ``step`` only while
none of its commits is pending or unsure, and no replay is between its two commits.
"""

from __future__ import annotations

import logging
import queue
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyiceberg.table import Table

from tabletopic_kernel.clients.catalog.engine_properties import maintains_itself
from tabletopic_kernel.host.owner import Owner
from tabletopic_kernel.host.report import Reporter
from tabletopic_kernel.host.services import Services
from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.model.settings.desired import MaintenanceRequest
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table.expiry import (
    Retention,
    only_reached_by,
    reaches_back_to,
    to_expire,
)
from tabletopic_kernel.table.files.orphans import orphan_candidates
from tabletopic_kernel.table.files.own import UnreachableFiles
from tabletopic_kernel.table.sweep import (
    Removed,
    load_same,
    remove_expired,
    remove_orphans,
    sweep_finished,
)

_LOG = logging.getLogger(__name__)
_FIRST_MS = 5 * 60_000  # after the first commit of an ownership
_EVERY_MS = 60 * 60_000
EACH_COMMITS = 200  # at least this often: each snapshot slows every commit a little
_AGAIN_MS = 60_000  # after a round that could not take all
_ORPHANS_EVERY_MS = 24 * 60 * 60_000
_MOST = 2_000  # snapshots per round: it reads their manifest lists, and sends their ids in one request


@dataclass(frozen=True)
class _Part:
    """The result of an expiry for one of the two tables."""

    table: Table
    dead_letters: bool
    left: UnreachableFiles
    kept: int = 0  # snapshots that stay
    reaches_back_to_ms: int | None = None  # the earliest time that they cover
    may_go: bool = True  # whether the files may be removed
    error: str | None = None


@dataclass(frozen=True)
class _Round:
    """One expiry; ``request``: the request for it, None if it was due."""

    request: MaintenanceRequest | None
    parts: tuple[_Part, ...] = ()


class Expiries:
    """The expiries of one coordinator. Only its thread uses them; worker threads just put their answers."""

    def __init__(self, settings: TopicSettings, services: Services, report: Reporter) -> None:
        self._settings, self._services, self._report = settings, services, report
        self._retention = Retention.of(settings)
        self._asked: deque[MaintenanceRequest] = deque()
        self._answers: queue.SimpleQueue[_Round | None] = queue.SimpleQueue()  # None: files were removed
        self._at_work = False
        self._awaits_commit = False
        self._due_ms: int | None = None
        self._commits = 0  # since the last one began
        self._orphans_due_ms = 0

    def ask(self, request: MaintenanceRequest) -> None:
        """Expire as soon as there is time."""
        self._asked.append(request)

    def owned(self) -> None:
        """Record that an ownership begins."""
        now = self._services.elapsed_ms()
        self._due_ms, self._awaits_commit = now + _EVERY_MS, True
        self._orphans_due_ms = now + _FIRST_MS

    def committed(self) -> None:
        """Count a commit."""
        self._commits += 1
        if self._awaits_commit:
            self._awaits_commit = False
            self._due_ms = self._services.elapsed_ms() + _FIRST_MS
        elif self._commits == EACH_COMMITS:
            self._due_ms = self._services.elapsed_ms()

    def has_work(self, owner: Owner) -> bool:
        """Whether ``step`` has something to do now."""
        if self._at_work:
            return not self._answers.empty()
        return bool(self._asked) or (self._is_due() and self._is_on(owner))

    def _is_due(self) -> bool:
        return self._due_ms is not None and self._services.elapsed_ms() >= self._due_ms

    def _is_on(self, owner: Owner) -> bool:
        if owner.table is None or self._settings.maintenance == "off":
            return False
        properties = owner.table.table.catalog.properties
        return self._settings.maintenance == "on" or not maintains_itself(properties)

    def step(self, owner: Owner) -> None:
        """Begin or continue an expiry; never raises."""
        if not self._at_work:
            self._begin(owner)
            return
        answer = self._answers.get()
        if answer is None:
            self._at_work = False
            return
        parts = tuple(self._commit(owner, part) for part in answer.parts)
        done = replace(answer, parts=parts)
        if any(len(part.left.ids) == _MOST and part.error is None for part in parts):
            self._due_ms = self._services.elapsed_ms() + _AGAIN_MS
        orphans = self._orphans_due_ms <= self._services.elapsed_ms()
        if orphans:
            self._orphans_due_ms = self._services.elapsed_ms() + _ORPHANS_EVERY_MS
        epoch = owner.ledger.epoch
        self._services.spawn("expired files", partial(self._remove, done, epoch, sweeps=orphans))

    def _begin(self, owner: Owner) -> None:
        self._due_ms, self._commits = self._services.elapsed_ms() + _EVERY_MS, 0
        request = self._asked.popleft() if self._asked else None
        self._at_work = True
        self._services.spawn("expiry", partial(self._look, _Round(request), _tables(owner)))

    # -- in a thread of its own

    def _look(self, begun: _Round, tables: Sequence[tuple[Table, bool]]) -> None:
        parts = [self._found(table, which) for table, which in tables]
        self._answers.put(replace(begun, parts=tuple(parts)))

    def _found(self, table: Table, dead_letters: bool) -> _Part:
        """Find what expires in a table; nothing if that cannot be determined."""
        part = _Part(table, dead_letters, UnreachableFiles(frozenset()))
        try:
            fresh = load_same(table, self._services.catalog())
            ids = to_expire(fresh.metadata, self._retention, self._services.now_ms())[:_MOST]
            return replace(part, table=fresh, left=only_reached_by(fresh, ids))
        except TableTopicError as error:
            return replace(part, error=str(error))
        except Exception as error:
            _LOG.exception("%s: the files of expired snapshots were not determined", ".".join(table.name()))
            return replace(part, error=f"{type(error).__name__}: {error}")

    def _remove(self, done: _Round, epoch: int, *, sweeps: bool) -> None:
        """Remove the files of expired snapshots, then orphans if that is due or requested."""
        request_id = done.request.id if done.request else None
        try:
            for part in sorted(done.parts, key=lambda one: not one.dead_letters):
                removed, error = Removed(), part.error
                if part.left.ids and part.may_go and error is None:
                    removed, error = self._removed(part)
                if request_id is not None or part.left.ids or error is not None:
                    self._report.expired(
                        removed,
                        request_id=request_id,
                        dead_letters=part.dead_letters,
                        snapshots=len(part.left.ids),
                        kept=part.kept,
                        reaches_back_to_ms=part.reaches_back_to_ms,
                        error=error,
                    )
            if done.request is not None and not done.parts:
                self._report.expired(Removed(), request_id=request_id)
            wanted = done.request is not None and done.request.orphans
            if sweeps or wanted:
                self._remove_orphans(
                    [part.table for part in done.parts], epoch, request_id, everywhere=wanted
                )
        finally:
            self._answers.put(None)

    def _removed(self, part: _Part) -> tuple[Removed, str | None]:
        try:
            return remove_expired(part.table, part.left, catalog=self._services.catalog()), None
        except TableTopicError as error:
            return Removed(), str(error)
        except Exception as error:
            _LOG.exception("%s: files of expired snapshots stay", ".".join(part.table.name()))
            return Removed(), f"{type(error).__name__}: {error}"

    def _remove_orphans(
        self, tables: Sequence[Table], epoch: int, request_id: str | None, *, everywhere: bool
    ) -> None:
        removed, error = Removed(), None
        now_ms = self._services.now_ms()
        try:
            catalog = self._services.catalog()
            for table in tables:
                removed += sweep_finished(table, before_epoch=epoch, catalog=catalog)
                if everywhere:
                    fresh = load_same(table, catalog)
                    removed += remove_orphans(fresh, orphan_candidates(fresh, now_ms), catalog=catalog)
        except TableTopicError as found:
            error = str(found)
        except Exception as found:
            _LOG.exception("orphans stay")
            error = f"{type(found).__name__}: {found}"
        if everywhere or removed.files:
            self._report.orphans_removed(removed, request_id=request_id if everywhere else None, error=error)
        elif error is not None:
            _LOG.warning("files that no snapshot needs stay for now: %s", error)

    # -- in the coordinator's thread

    def _commit(self, owner: Owner, part: _Part) -> _Part:
        """Remove the snapshots from the metadata, if they should still expire."""
        table = owner.dead_letters.table if part.dead_letters else owner.table
        planned = owner.dead_letters.ledger if part.dead_letters else owner.ledger
        if part.error is not None or table is None or not part.left.ids:
            return replace(part, **_kept(part.table))
        if planned is None:
            return _failed(part, "the dead letters are not settled; the next expiry covers their snapshots")
        now = self._services.now_ms()
        try:
            gone, may_go = table.expire(
                planned,
                lambda metadata: [
                    one for one in to_expire(metadata, self._retention, now) if one in part.left.ids
                ],
            )
        except TableTopicError as error:
            return _failed(part, str(error))
        doubt = (
            "a branch or tag may have been created from a snapshot while it expired, so no file was removed"
        )
        return replace(
            part,
            left=replace(part.left, ids=gone),
            **_kept(table.table),
            may_go=may_go,
            error=None if may_go else doubt,
        )


def _failed(part: _Part, error: str) -> _Part:
    return replace(part, left=UnreachableFiles(frozenset()), error=error, **_kept(part.table))


def _kept(table: Table) -> dict[str, Any]:
    """The fields of a part that describe what the table keeps."""
    metadata = table.metadata
    return {"kept": len(metadata.snapshots), "reaches_back_to_ms": reaches_back_to(metadata)}


def _tables(owner: Owner) -> list[tuple[Table, bool]]:
    """The topic's table (False) and its dead-letter table (True), as far as they exist."""
    found = ((owner.table, False), (owner.dead_letters.table, True))
    return [(one.table, which) for one, which in found if one is not None]
