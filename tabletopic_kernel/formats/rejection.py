"""Rejected records: the engines' reasons, and what an exception is due to.

Whatever a record or a schema contains ends as a row or a dead letter, so an unexpected exception is due to
the record, unless it shows that a resource or a dependency is failing: that is waited out (I9). ``narrowed``
repeats a step with smaller and smaller parts of its records until those that cause an exception are alone,
for all formats and steps alike. Without exceptions, this costs nothing.

*Why this is safe.* The list of such failures is closed, and an error that is not on it costs only its own
record, which is kept whole as a dead letter; if all records fail alike, the topic stops. So a failure missing
from the list loses nothing either.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final, Generic, TypeVar

from tabletopic_kernel.model.errors import InternalError, TableTopicError, TooMuchAtOnceError


@dataclass(frozen=True)
class Refused:
    """One record that cannot become a row."""

    index: int  # position in the array given to decode()
    reason: str  # short class, e.g. "avro_trailing_bytes"
    message: str  # what is wrong, for people


class Refusal(Exception):  # noqa: N818 - a verdict on a record, not an error of ours
    """A record does not match its schema; ``reason`` is a short class, ``path`` outermost last."""

    def __init__(self, reason: str, message: str, *path: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.path = list(path)

    def text(self) -> str:
        """The message with the path to the error."""
        where = ".".join(reversed(self.path))
        return f"{where}: {self.message}" if where else self.message


class NotRows(Exception):  # noqa: N818 - a verdict on a group, not an error of ours
    """The fast engine does not vouch for a record in the group; ``row`` is that record, if known."""

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


@contextmanager
def native_reader(*kinds: type[Exception]) -> Iterator[None]:
    """Turns what a native reader raises, exceptions of ``kinds`` and panics, into NotRows."""
    try:
        yield
    except kinds as error:
        raise NotRows(str(error)) from error
    except BaseException as error:
        # A panic of native code becomes pyo3's PanicException, which is not an Exception.
        if type(error).__name__ != "PanicException":
            raise
        raise NotRows(f"native panic: {error}") from error


class UnsupportedError(Exception):
    """The fast engine cannot decode this schema; the exact one can."""


_MAX_CHARS: Final = 500  # characters of a message
# Memory and storage (also Arrow's errors), and exceptions that end a program or a thread.
_TROUBLE: Final = (MemoryError, OSError, KeyboardInterrupt, SystemExit, GeneratorExit)
# The same from DuckDB, by name: it is imported only if there is a projection.
_TROUBLE_OF_DUCKDB: Final = frozenset(
    {"IOException", "HTTPException", "InterruptException", "ConnectionException", "PermissionException"}
)


def is_trouble(error: BaseException) -> bool:
    """Whether the error has nothing to do with the record: memory, storage, a dependency, an order to end."""
    if isinstance(error, TableTopicError):
        return not isinstance(error, InternalError)
    kind = type(error)
    return isinstance(error, _TROUBLE) or (
        kind.__module__.partition(".")[0] in ("duckdb", "_duckdb") and kind.__name__ in _TROUBLE_OF_DUCKDB
    )


def last_line(error: BaseException) -> str:
    """The last line of the error's trace, with its origin."""
    line = traceback.format_exception_only(error)[-1].strip()[:_MAX_CHARS]
    step = error.__traceback__  # walked by hand: traceback looks up the columns of every frame, per record
    if step is None:
        return line
    while step.tb_next is not None:
        step = step.tb_next
    return f"{line} ({PurePath(step.tb_frame.f_code.co_filename).name}:{step.tb_lineno})"


def trace_of(error: BaseException) -> str:
    """The whole trace, for a log."""
    return "".join(traceback.format_exception(error, limit=-30)).rstrip()


P = TypeVar("P")
R = TypeVar("R")


def narrowed(work: Callable[[P], R], whole: P, cut: Callable[[P, BaseException], Sequence[P]]) -> list[R]:
    """The results of ``work``, in order, for ``whole`` or for the parts that its exceptions lead to.

    ``work`` must not keep anything of a part before it returns. ``cut``: the smaller parts, in order, that
    replace a part for which it raised, none if its records are done; or raises what is not due to records.
    """
    results, todo = [], [whole]
    while todo:
        part = todo.pop()
        try:
            results.append(work(part))
        except BaseException as error:  # panics of native code are not Exceptions
            todo += reversed(cut(part, error))
    return results


def halves(part: range) -> tuple[range, range]:
    middle = len(part) // 2
    return part[:middle], part[middle:]


# If this many isolated records fail alike before any record succeeds, all may fail.
MIN_ALIKE: Final = 20
# Then this many others, from anywhere, are tried before the rest is given up.
_PROBES: Final = 20


@dataclass(frozen=True)
class Failure:
    """A record's index, and its exception: the class, the last line, the whole trace."""

    index: int
    kind: str
    line: str
    trace: str


@dataclass
class Isolated(Generic[R]):
    """Results of a range's parts in order, and the records that failed alone; or how all seem to fail."""

    results: list[R] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    alike: Failure | None = None


class _AlikeError(Exception):
    """All records seem to fail alike."""


def isolated(work: Callable[[range], R], count: int, *, patient: bool = False) -> Isolated[R]:
    """Do ``work``, which keeps nothing of parts that fail, for records 0 to ``count``, in few parts.

    ``patient``: try every record, even if all of them may fail alike. Raises any error that ``is_trouble``.
    """
    outcome: Isolated[R] = Isolated()
    failures, judges = outcome.failures, not patient

    def keep(part: range) -> None:
        outcome.results.append(work(part))

    def cut(part: range, error: BaseException) -> Sequence[range]:
        nonlocal judges
        is_divisible = len(part) > 1
        if is_trouble(error) and not (is_divisible and isinstance(error, TooMuchAtOnceError)):
            raise error
        if is_divisible:
            return halves(part)
        failures.append(Failure(part.start, type(error).__name__, last_line(error), trace_of(error)))
        if judges and len(failures) == MIN_ALIKE and not outcome.results:
            judges = False
            if _all_alike(work, failures, range(part.stop, count)):
                raise _AlikeError
        return ()

    try:
        narrowed(keep, range(count), cut)
    except _AlikeError:
        outcome.alike, outcome.failures = failures[0], []
    return outcome


def _all_alike(work: Callable[[range], object], failures: Sequence[Failure], others: range) -> bool:
    """Whether the failures, and those of some other records, have one class."""
    kinds = {failure.kind for failure in failures}
    for index in others[:: max(1, len(others) // _PROBES)]:
        if len(kinds) > 1:
            return False
        try:
            work(range(index, index + 1))
        except BaseException as error:
            if is_trouble(error):
                raise
            kinds.add(type(error).__name__)
        else:
            return False
    return len(kinds) == 1
