"""Rejected records: the engines' reasons, and whose fault an exception is.

Whatever a record or a schema holds ends in a row or a dead letter, so an exception that nobody foresaw is its
fault, unless it says that a resource or a dependency is in trouble: that is waited out (I9). A step works on
a range of records; where it raises such an exception, the range is halved until the records that cause it
stand alone, for every format and step alike. Where nothing went wrong this costs nothing.

*Why this is safe.* The list of troubles is closed, and an error that is not on it costs its own record alone,
which is kept whole as a dead letter; where all records fail alike, the topic stops. So trouble that is
missing on the list loses nothing either.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final, Generic, TypeVar

from tabletopic_kernel.model.errors import InternalError, TableTopicError


@dataclass(frozen=True)
class Refused:
    """One record that cannot become a row."""

    index: int  # position in the array given to decode()
    reason: str  # short class, e.g. "avro_trailing_bytes"
    message: str  # what is wrong, for a person


class Refusal(Exception):  # noqa: N818 - a verdict on a record, not an error of ours
    """A record that is not what its schema says; ``reason`` is a short class, ``path`` outermost last."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.path: list[str] = []

    def text(self) -> str:
        """The message with the path to the place."""
        where = ".".join(reversed(self.path))
        return f"{where}: {self.message}" if where else self.message


class NotRows(Exception):  # noqa: N818 - a verdict on a group, not an error of ours
    """The group holds a record that the fast engine does not vouch for; ``row`` is it, where known."""

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


class UnsupportedError(Exception):
    """The fast engine cannot take this schema; the exact one can."""


_MOST: Final = 500  # characters of a message
# Memory and storage, and what ends a program or a thread. Arrow's errors of memory and files are among them.
_TROUBLE: Final = (MemoryError, OSError, KeyboardInterrupt, SystemExit, GeneratorExit)
# The same from DuckDB, by name: it is loaded only where there is a projection.
_TROUBLE_OF_DUCKDB: Final = frozenset(
    {"IOException", "HTTPException", "InterruptException", "ConnectionException", "PermissionException"}
)


def is_trouble(error: BaseException) -> bool:
    """Whether the error says nothing of what was decoded: memory, storage, a dependency, an order to end."""
    if isinstance(error, TableTopicError):
        return not isinstance(error, InternalError)
    kind = type(error)
    return isinstance(error, _TROUBLE) or (
        kind.__module__.partition(".")[0] in ("duckdb", "_duckdb") and kind.__name__ in _TROUBLE_OF_DUCKDB
    )


def last_line(error: BaseException) -> str:
    """The last line of the error's trace, with the place it came from."""
    line = traceback.format_exception_only(error)[-1].strip()[:_MOST]
    step = error.__traceback__  # walked by hand: traceback looks up the columns of every frame, per record
    if step is None:
        return line
    while step.tb_next is not None:
        step = step.tb_next
    return f"{line} ({PurePath(step.tb_frame.f_code.co_filename).name}:{step.tb_lineno})"


def trace_of(error: BaseException) -> str:
    """The whole trace, for a log."""
    return "".join(traceback.format_exception(error, limit=-30)).rstrip()


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
