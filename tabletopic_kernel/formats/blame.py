"""Whose fault an exception is: of what is being decoded, or of something that may be well again later.

Whatever a record or a schema holds ends in a row or a dead letter, so an exception that nobody foresaw is
its fault, unless it says that a resource or a dependency is in trouble: that is waited out (I9).

*Why this is safe.* The list of troubles is closed, and an error that is not on it costs its own record
alone: ``pipeline/decode/narrow`` halves the batch until the record stands alone, and keeps it whole as a
dead letter; where all records fail alike, the topic stops. So trouble that is missing on the list loses
nothing either.
"""

from __future__ import annotations

import traceback
from pathlib import PurePath
from typing import Final

from tabletopic_kernel.model.errors import InternalError, TableTopicError

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
    frames = traceback.extract_tb(error.__traceback__, -1)
    return f"{line} ({PurePath(frames[0].filename).name}:{frames[0].lineno})" if frames else line


def trace_of(error: BaseException) -> str:
    """The whole trace, for a log."""
    return "".join(traceback.format_exception(error, limit=-30)).rstrip()
