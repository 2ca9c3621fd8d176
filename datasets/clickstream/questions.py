"""Five questions about the clickstream table, in SQL, with the answers known from the generator.

The SQL is DuckDB's. It works before and after version 2 of the schema has reached the table, and the order of
every result is unique: the last ORDER BY term breaks ties.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from tabletopic_kernel._datasets.clickstream.shop import STEPS
from tabletopic_kernel._datasets.clickstream.tallies import Tallies

Row = tuple[Any, ...]
_TOP: Final = 10


@dataclass(frozen=True)
class Question:
    """One question: SQL with a ``{table}`` placeholder, its columns, and the expected rows.

    ``expected`` returns Python values like DuckDB's ``fetchall``: int, str, Decimal, naive UTC datetime.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    sql: str
    expected: Callable[[Tallies], list[Row]]

    def on(self, table: str) -> str:
        """The SQL on one relation; ``table`` is inserted unchanged, so quote what needs quoting."""
        return self.sql.format(table=table)


def _top_pages(tallies: Tallies) -> list[Row]:
    # DuckDB compares text by its UTF-8 bytes; for these paths (ASCII) that is Python's order too.
    ranked = sorted(tallies.views_by_url.items(), key=lambda page: (-page[1], page[0]))
    return list(ranked[:_TOP])


def _funnel(tallies: Tallies) -> list[Row]:
    reached = tallies.sessions_by_step
    return [(step, reached[step]) for step in STEPS if reached[step]]


def _revenue(tallies: Tallies) -> list[Row]:
    return [
        (datetime.fromisoformat(hour).replace(tzinfo=None), Decimal(cents).scaleb(-2))
        for hour, cents in sorted(tallies.revenue_cents_by_hour.items())
    ]


def _devices(tallies: Tallies) -> list[Row]:
    rows = [(kind, count.events, count.users) for kind, count in tallies.devices.items() if count.events]
    return sorted(rows, key=lambda row: (-row[1], row[0]))


def _versions(tallies: Tallies) -> list[Row]:
    return sorted((version, count) for version, count in tallies.events_by_version.items() if count)


QUESTIONS: Final = (
    Question(
        "top_pages",
        "Which pages are opened most?",
        ("url", "views"),
        """\
SELECT url, count(*) AS views
FROM {table}
GROUP BY url
ORDER BY views DESC, url
LIMIT 10""",
        _top_pages,
    ),
    Question(
        "funnel",
        "How many sessions reach each step to a purchase?",
        ("step", "sessions"),
        """\
SELECT event_type AS step, count(DISTINCT session_id) AS sessions
FROM {table}
GROUP BY step
ORDER BY list_position(['home', 'category', 'product', 'cart', 'checkout', 'purchase'], step)""",
        _funnel,
    ),
    Question(
        "revenue_by_hour",
        "What is sold in each hour, in EUR?",
        ("hour_utc", "revenue_eur"),
        """\
SELECT date_trunc('hour', event_time AT TIME ZONE 'UTC') AS hour_utc, sum(price * quantity) AS revenue_eur
FROM {table}
WHERE event_type = 'purchase'
GROUP BY hour_utc
ORDER BY hour_utc""",
        _revenue,
    ),
    Question(
        "devices",
        "What do visitors browse with?",
        ("device_type", "events", "users"),
        """\
SELECT device.type AS device_type, count(*) AS events, count(DISTINCT user_id) AS users
FROM {table}
GROUP BY device_type
ORDER BY events DESC, device_type""",
        _devices,
    ),
    Question(
        "schema_versions",
        "How many events came with each version of the schema?",
        ("schema_version", "events"),
        # Every event of version 2 has a viewport. to_json: before the first one, the table has no such field,
        # and device.viewport would not bind.
        """\
SELECT CASE WHEN to_json(device)->>'viewport' IS NULL THEN 'v1' ELSE 'v2' END AS schema_version,
       count(*) AS events
FROM {table}
GROUP BY schema_version
ORDER BY schema_version""",
        _versions,
    ),
)
