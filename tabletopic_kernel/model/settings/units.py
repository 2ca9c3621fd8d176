"""Durations, sizes and times as people write them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

# 15 digits: more exceed every limit, and 400 do not fit a float.
_DURATION = re.compile(r"^\s*(\d{1,15}(?:\.\d+)?)\s*(ms|s|m|min|h|d)?\s*$")
_DURATION_MS = {"ms": 1, "s": 1000, None: 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZE = re.compile(r"^\s*(\d{1,15}(?:\.\d+)?)\s*([kmgt]i?b?|b)?\s*$", re.IGNORECASE)
_SIZE_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_LAST_START_MS = 253_402_300_799_999  # the end of the year 9999


def parse_duration_ms(value: object) -> object:
    """Milliseconds of ``"500ms"``, ``"5s"``, ``"1.5 min"``; a bare number in text is seconds."""
    if not isinstance(value, str):
        return value
    match = _DURATION.match(value)
    if match is None:
        raise ValueError(f"{value!r} is not a duration; use a value such as 500ms, 5s, 2m or 1h")
    return round(float(match[1]) * _DURATION_MS[match[2]])


def parse_size_bytes(value: object) -> object:
    """Bytes of ``"128MB"`` or ``"64 MiB"`` (both powers of 1024); a bare number is bytes."""
    if not isinstance(value, str):
        return value
    match = _SIZE.match(value)
    if match is None:
        raise ValueError(f"{value!r} is not a size; use a value such as 64MB or 1GB")
    unit = (match[2] or "").lower().rstrip("b").rstrip("i")
    return round(float(match[1]) * 1024 ** _SIZE_POWER[unit])


def parse_start(value: object) -> object:
    """``earliest``, ``latest``, epoch milliseconds or an ISO 8601 time (UTC if it has no zone)."""
    if isinstance(value, date):  # TOML has its own times; a datetime is a date
        value = value.isoformat()
    if isinstance(value, str):
        value = _start_of_text(value.strip())
    if value in ("earliest", "latest") or (type(value) is int and 0 <= value <= _LAST_START_MS):
        return value
    raise ValueError(
        f"{value!r} is not a start; use earliest, latest, or a time such as 2026-01-31T12:00:00Z"
    )


def _start_of_text(text: str) -> str | int:
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
