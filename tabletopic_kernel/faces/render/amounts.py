"""Counts, sizes, spans of time and moments as people read them."""

from __future__ import annotations

import time
from datetime import datetime


def number(value: float | None) -> str:
    """A count with commas; an unknown one is a dash."""
    if value is None:
        return "-"
    return f"{value:,.0f}"


def size(count: float) -> str:
    """Bytes as people read them.

    >>> size(512), size(131072)
    ('512 B', '128.0 KiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def seconds(value: float | None) -> str:
    """A span of time.

    >>> seconds(0.25), seconds(75), seconds(7300), seconds(None)
    ('0.2 s', '1 m 15 s', '2 h 1 m', '-')
    """
    if value is None:
        return "-"
    if value < 60:
        return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"
    whole = int(value)
    for unit, next_unit, length, part in (("m", "s", 60, 1), ("h", "m", 3600, 60), ("d", "h", 86400, 3600)):
        if whole < length * (60 if unit == "m" else 24 if unit == "h" else 10**9):
            return f"{whole // length} {unit} {whole % length // part} {next_unit}"
    return str(value)


def interval(milliseconds: float) -> str:
    """A span that somebody has set, as short as it can be told.

    >>> interval(500), interval(5_000), interval(90_000)
    ('0.5 s', '5 s', '1 m 30 s')
    """
    return f"{milliseconds / 1000:g} s" if milliseconds < 60_000 else seconds(milliseconds / 1000)


def age(moment_ms: int | None) -> str:
    """How long ago a moment was, in its largest unit."""
    if moment_ms is None:
        return "-"
    span = seconds(max(0.0, time.time() - moment_ms / 1000)).split()
    return f"{' '.join(span[:2])} ago"


def clock(moment_ms: int) -> str:
    """A moment in local time with its zone, to the millisecond."""
    local = datetime.fromtimestamp(moment_ms / 1000).astimezone()
    return f"{local.strftime('%Y-%m-%d %H:%M:%S.%f')[:-3]} {local.strftime('%Z')}"


def clock_today(moment_ms: int) -> str:
    """As ``clock``, without the zone; of today the time alone."""
    text = clock(moment_ms).rpartition(" ")[0]
    return text.removeprefix(datetime.now().strftime("%Y-%m-%d ")) if moment_ms else text
