"""Values as people, CSV and JSON write them."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, tzinfo
from typing import Any

import pyarrow as pa
import pytest

from tabletopic_kernel.render import words
from tabletopic_kernel.render.values import csv_text, json_text, text
from tabletopic_kernel.render.words import clock, clock_today

_span = pa.MonthDayNano


@pytest.mark.parametrize(
    ("value", "people", "iso"),
    [
        (_span([14, 3, 14_706_500_000_000]), "1 year 2 months 3 days 04:05:06.5", "P14M3DT14706.5S"),
        (_span([0, 1, 0]), "1 day", "P1D"),
        (_span([-1, 0, -1]), "-1 month -00:00:00.000000001", "P-1MT-0.000000001S"),
        (_span([0, 0, 0]), "00:00:00", "PT0S"),
        (timedelta(days=2, seconds=3), "2 days 00:00:03", "PT172803S"),
        (timedelta(seconds=-90), "-00:01:30", "PT-90S"),
    ],
)  # fmt: skip
def test_spans_of_time(value: Any, people: str, iso: str) -> None:
    """Units in words for people, ISO 8601 for programs."""
    assert text(value) == people
    assert csv_text(value) == iso
    assert json_text(value) == f'"{iso}"'


class _That(datetime):
    """A clock on the day of the test's moment."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> _That:
        """Within that day, in local time."""
        return cls.fromtimestamp(1_700_000_000, tz)


def test_a_moment_names_its_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Local time means nothing to who reads it elsewhere; of today the time alone is shown."""
    assert clock(1_700_000_000_000).split(" ")[2] == text_of_zone(1_700_000_000)
    assert clock_today(1_700_000_000_000) == clock(1_700_000_000_000).rpartition(" ")[0]
    monkeypatch.setattr(words, "datetime", _That)
    assert clock_today(1_700_000_000_000) == clock(1_700_000_000_000).split(" ")[1]


@pytest.mark.parametrize("moment_ms", [1_750_000_000_000_000_000, 2**63 - 1, -(2**63)])
def test_a_time_of_no_calendar_stays_a_number(moment_ms: int) -> None:
    """A record may have any number for its timestamp, and is to be looked at all the same."""
    assert clock(moment_ms) == f"{moment_ms} ms"


def text_of_zone(moment_s: int) -> str:
    """The local zone's name then."""
    return time.strftime("%Z", time.localtime(moment_s))
