"""How a new owner repairs tables whose newest files others deleted: it goes back, and records are read again.

Why this is safe: a table goes back only over snapshots of ours, to a ledger from which the topic still has
all records, and never over a replay, whose letters are gone. So whatever is lost comes from records that are
read again (I1, I6). The claim that follows ends all epochs before (I5). The table of rows goes back first:
letters above its ledger are as good as gone (I7), so a crash in between loses none.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tabletopic_kernel.clients.kafka.broker import TopicFacts
from tabletopic_kernel.host.resume_point import check_topic
from tabletopic_kernel.model.errors import ActionNeededError, TableTopicError
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.table.changes.way_back import WayBack, way_back
from tabletopic_kernel.table.topic_table import TopicTable

_LOG = logging.getLogger(__name__)


def mend(table: TopicTable, letters: TopicTable | None, facts: TopicFacts) -> Sequence[WayBack]:
    """Roll back the tables if their newest files are gone; returns what was done, nothing as a rule.

    Raises ActionNeededError if something would be lost, HeadMovedError if another writer was first.
    """
    letters_back = way_back(letters) if letters else None
    # Dead letters that are lost come again only if the rows of their time do.
    table_back = way_back(table, letters_back.ledger if letters_back else None)
    ways = [way for way in (table_back, letters_back) if way is not None]
    for way in reversed(ways):
        if (obstacle := way.obstacle or _unread(way.ledger, facts)) is not None:
            raise (letters_back or way).error(obstacle)
    for way in ways:
        way.go()
    return ways


def _unread(ledger: Ledger | None, facts: TopicFacts) -> str | None:
    """Why the topic no longer has all records from the ledger on; None if it does."""
    try:
        if ledger is not None:
            check_topic(ledger, facts)
    except ActionNeededError as error:
        return str(error)
    return None


def conclude(ways: Sequence[WayBack], owned: Ledger, of_letters: Ledger | None) -> str | None:
    """Remove what cannot be read from the tables' history, or leave it to age; returns what was repaired."""
    for way in ways:
        try:
            if (planned := of_letters if way.has_letters else owned) is not None:
                way.forget(planned)
        except TableTopicError as error:
            _LOG.warning("%s: snapshots without files stay for now: %s", way.table.identifier, error)
    what = next((str(way) for way in ways if way.faults), None)
    offsets = dict(owned.next_offsets)
    return f"{what}; it was rolled back, and records are read again from offsets {offsets}" if what else None
