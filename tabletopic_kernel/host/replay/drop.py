"""Drops dead letters for good, in one commit of their table; the event keeps who asked for it, and why."""

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
from tabletopic_kernel.host.replay.letters import dead_letters_where
from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.model.settings.desired import MaintenanceRequest
from tabletopic_kernel.pipeline.sinks import places_of


class LetterDrop:
    """One drop, of the letters that match when it begins."""

    name = "a drop of dead letters"

    def __init__(self, request: MaintenanceRequest, ownership: Ownership, outcomes: Outcomes) -> None:
        self._request, self._ownership, self._outcomes = request, ownership, outcomes
        self._figures = outcomes.figures(request)

    def run(self) -> Job:
        """Drop them, in the coordinator's thread."""
        yield self._ownership.ask(lambda owner: once_more(partial(self._drop, owner)))

    def report(self, error: TableTopicError | None) -> None:
        """Report what was dropped, by reason."""
        self._outcomes.letters_dropped(self._request, error=error, **self._figures)

    def _drop(self, owner: Owner) -> None:
        where = dead_letters_where(self._request.where)
        owner.settle_letters()  # a letter whose row is in the table is none any more (I7)
        letters = owner.dead_letters
        letters.refresh()
        read: list[FileScanTask] = []
        kept: list[pa.Table] = []
        counts = Counter[str]()
        for task in letters.tasks(where) if letters.table is not None else ():
            chosen = letters.read(task, where)
            if len(chosen):
                places, every = set(places_of(chosen)), letters.read(task, AlwaysTrue())
                read.append(task)
                kept.append(every.filter(pa.array([place not in places for place in places_of(every)])))
                counts.update(chosen["reason"].to_pylist())
        if read:
            self._figures["letters"] = dict(counts)  # now: a second try may find that the first succeeded
            try:
                letters.replace(read, kept, owner.ledger, None)
            except TableTopicError:
                letters.unsettle()
                raise
