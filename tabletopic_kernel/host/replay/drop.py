"""Drops dead letters for good; the event keeps who asked for it, and why.

A round drops the letters of some files in one commit: letters that stay in them are in memory meanwhile.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import FileScanTask

from tabletopic_kernel.host.maintenance.jobs import Job, once_more
from tabletopic_kernel.host.maintenance.outcomes import Outcomes
from tabletopic_kernel.host.owner import Owner
from tabletopic_kernel.host.ownership.ownership import Ownership
from tabletopic_kernel.host.replay.letters import LetterSource, dead_letters_where
from tabletopic_kernel.model.errors import OutcomeUnknownError, TableTopicError
from tabletopic_kernel.model.settings.desired import MaintenanceRequest
from tabletopic_kernel.pipeline.sinks import places_of
from tabletopic_kernel.pipeline.source import Limits

_ROUND_LETTERS = 50_000  # of whole files, so a round has those of one file at least


class LetterDrop:
    """One drop, of the letters that match when it begins."""

    name = "a drop of dead letters"

    def __init__(self, request: MaintenanceRequest, ownership: Ownership, outcomes: Outcomes) -> None:
        self._request, self._ownership, self._outcomes = request, ownership, outcomes
        self._figures = outcomes.figures(request)
        self._left: frozenset[str] | None = None  # data files to read; None before the first round
        self._dropped: dict[str, Counter[str]] = {}  # by data file

    def run(self) -> Job:
        """Drop them, in the coordinator's thread."""
        while (yield self._ownership.ask(lambda owner: once_more(partial(self._round, owner)))):
            pass

    def report(self, error: TableTopicError | None) -> None:
        self._outcomes.ended(self._request, error, **self._figures)

    def _round(self, owner: Owner) -> bool:
        """Drop the letters of some files; returns whether there may be more."""
        where, letters = dead_letters_where(self._request.where), owner.dead_letters
        owner.settle_letters()  # a letter whose row is in the table is none any more (I7)
        letters.refresh()
        if letters.table is None:
            return False
        source = LetterSource(letters, where)
        if self._left is None:
            self._left = source.files()
        tasks = source.next(self._left, Limits({}, _ROUND_LETTERS)) or ()
        read: list[FileScanTask] = []
        kept: list[pa.Table] = []
        for task in tasks:
            chosen = letters.read(task, where)
            if len(chosen):
                places, every = set(places_of(chosen)), letters.read(task, AlwaysTrue())
                read.append(task)
                kept.append(every.filter(pa.array([place not in places for place in places_of(every)])))
                self._dropped[task.file.file_path] = Counter(chosen["reason"].to_pylist())
        if read:
            # Now: a second try may find that the first succeeded.
            self._figures["letters"] = self._counts()
            try:
                letters.replace(read, kept, owner.ledger, None)
            except TableTopicError as error:
                letters.unsettle()
                if not isinstance(error, OutcomeUnknownError):
                    for task in read:
                        del self._dropped[task.file.file_path]
                    self._figures["letters"] = self._counts()
                raise
        self._left -= {task.file.file_path for task in tasks}
        return bool(tasks)

    def _counts(self) -> dict[str, int]:
        return dict(sum(self._dropped.values(), Counter[str]()))
