"""The named steps of the protocol, at which a drill or a simulation may inject faults.

The code that keeps the invariants calls ``reach`` between any two things that another process could see.
Without a handler, as in all normal use, that does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class Step(StrEnum):
    """A step at which a process may die, freeze or be rejected, in the order of a record's path."""

    TAKE_OVER = "take_over"  # a host was assigned the topic and has read nothing yet
    CLAIM = "claim"  # ledger and topic were compared, the higher epoch is not in the table yet
    CLAIMED = "claimed"  # it is in the table; the dead letters still have the former one
    OWNED = "owned"  # both have it, the worker has not started
    STAGE = "stage"  # on an executor: records are read, no file is written
    STAGED = "staged"  # on an executor: files are written, the driver does not know of them
    BATCH = "batch"  # the driver knows of them, the coordinator does not
    EVOLVE = "evolve"  # a schema change is planned but not sent
    EVOLVED = "evolved"  # it is in the table, the worker does not know
    COMMIT = "commit"  # a commit is planned, nothing of it has been sent
    LETTERS = "letters"  # its dead letters are in their table, its rows are not
    MANIFEST = "manifest"  # its manifests are written, the tag has not moved
    TAGGED = "tagged"  # the transaction is complete, the catalog does not know of it
    SENT = "sent"  # the catalog has it, its answer has not arrived
    SETTLE = "settle"  # the outcome of a commit is unknown, and is looked up next
    REPLAY = "replay"  # dead letters are read to be retried
    MARKED = "marked"  # those that are rows now are marked, the rows are not committed
    REPLAYED = "replayed"  # the rows are committed, their dead letters are still there
    COMPACT = "compact"  # small files are chosen for merging, none has been read
    COMPACTED = "compacted"  # their rows are in new files, the coordinator does not know of them
    DISCARD = "discard"  # staged files that no commit will take are about to be deleted
    SWEEP = "sweep"  # files of finished epochs are about to be listed
    DELETE = "delete"  # one of several files has been deleted
    SWEPT = "swept"  # they are deleted, nobody has recorded it
    EXPIRE = "expire"  # snapshots to expire are chosen, nothing has been sent
    EXPIRED = "expired"  # they are removed from the metadata, their files still exist
    DRAIN = "drain"  # the worker is told to stop


Handler = Callable[[Step], None]
_handlers: list[Handler] = []


def reach(step: Step) -> None:
    """Report that this process has reached ``step``; raises whatever a handler raises."""
    for handler in _handlers:
        handler(step)


def install(handler: Handler) -> Callable[[], None]:
    """Call ``handler`` at every step of this process from now on; returns the function that stops it."""
    _handlers.append(handler)
    return lambda: _handlers.remove(handler)
