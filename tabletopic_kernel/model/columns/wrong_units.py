"""Times that are probably in another unit than their column says."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_US = 86_400_000_000
# The first is what this century's milliseconds and seconds become if read as microseconds or milliseconds.
_DOUBTFUL = (
    (0, 31 * _DAY_US, "in January 1970: milliseconds read as microseconds, or seconds as milliseconds?"),
    (365 * 1_000 * _DAY_US, 2**63, "beyond the year 2969: microseconds read as milliseconds?"),
)
_SHARE = 0.99


def wrong_unit(column: str, times: Iterable[tuple[int, int]]) -> str | None:
    """Why nearly all of a column's times are doubtful; None if they are not, or if they are all 0.

    ``times``: microseconds since 1970, and how many records have them.

    >>> wrong_unit("event_time", [(1_700_000_000_000, 299), (1_700_000_000_000_000, 1)])
    '99 % of event_time lies in January 1970: milliseconds read as microseconds, or seconds as milliseconds?'
    >>> wrong_unit("event_time", [(0, 5)])
    """
    counted = [(time, count) for time, count in times if time]
    total = sum(count for _, count in counted)
    for begin, end, words in _DOUBTFUL:
        among = sum(count for time, count in counted if begin <= time < end)
        if total and among >= _SHARE * total:
            return f"{100 * among // total} % of {column} lies {words}"
    return None


def times_of(values: Iterable[object]) -> list[tuple[int, int]]:
    """Values of a column as ``wrong_unit`` takes them, without those that are no times."""
    times = [value.replace(tzinfo=value.tzinfo or UTC) for value in values if isinstance(value, datetime)]
    return [((time - _EPOCH) // timedelta(microseconds=1), 1) for time in times]
