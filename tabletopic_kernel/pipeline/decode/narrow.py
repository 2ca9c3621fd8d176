"""Narrows an exception down to the records that cause it, for every format and step alike.

A step works on a range of records. Where it raises what nobody foresaw, the range is halved until the
records stand alone: what a record holds ends in a row or a dead letter. Where nothing else went wrong this
costs nothing. Trouble of memory, storage or a dependency is no record's fault and comes through (I9).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from tabletopic_kernel.formats.blame import is_trouble, last_line, trace_of

R = TypeVar("R")
# So many records that stand alone and fail alike, before any other one has gone through, may be all of them.
MIN_ALIKE: Final = 20
# Then as many others, from anywhere, are tried before the rest is left alone.
_PROBES: Final = 20


@dataclass(frozen=True)
class Failure:
    """A record by its index, and what it led to: the exception's class, its last line, the whole trace."""

    index: int
    kind: str
    line: str
    trace: str


@dataclass
class Narrowed(Generic[R]):
    """What came of a range: results of its parts in order, and the records that failed alone.

    ``alike``: every record that was tried fails alike, and the others were not tried.
    """

    made: list[R] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    alike: Failure | None = None


def narrowed(work: Callable[[int, int], R], count: int, *, patient: bool = False) -> Narrowed[R]:
    """Do ``work`` (start, stop) for the records 0 to ``count``, in as few parts as its exceptions allow.

    Args:
        work: must not keep anything of a part before it returns.
        patient: try every record, also where all of them may fail alike.

    Raises:
        Whatever ``is_trouble``.
    """
    found: Narrowed[R] = Narrowed()
    todo = [(0, count)]
    while todo:
        start, stop = todo.pop()
        try:
            found.made.append(work(start, stop))
            continue
        except BaseException as error:  # panics of native code are no Exceptions
            if is_trouble(error):
                raise
            failure = None if stop - start > 1 else _failure(start, error)
        if failure is None:
            middle = (start + stop) // 2
            todo += [(middle, stop), (start, middle)]
            continue
        found.failures.append(failure)
        if not patient and len(found.failures) == MIN_ALIKE and not found.made:
            if _all_alike(work, found.failures, stop, count):
                found.alike = found.failures[0]
                found.failures = []
                return found
            patient = True
    return found


def _failure(index: int, error: BaseException) -> Failure:
    return Failure(index, type(error).__name__, last_line(error), trace_of(error))


def _all_alike(work: Callable[[int, int], object], failures: list[Failure], start: int, count: int) -> bool:
    """Whether the failures have one class, and so have those of records between ``start`` and ``count``."""
    kinds = {failure.kind for failure in failures}
    for at in range(start, count, max(1, (count - start) // _PROBES)):
        if len(kinds) > 1:
            return False
        try:
            work(at, at + 1)
        except BaseException as error:
            if is_trouble(error):
                raise
            kinds.add(type(error).__name__)
        else:
            return False
    return len(kinds) == 1
