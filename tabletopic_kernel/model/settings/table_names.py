"""The name of a topic's table."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tabletopic_kernel.model.settings.sections import NAME_BYTES, TopicSettings


def default_table_name(topic: str) -> str:
    """The table name of a topic: every run of characters other than letters, digits and _ becomes one _.

    A name is cut off at 200 characters, because it names a folder.

    >>> default_table_name("web.clicks-v2")
    'web_clicks_v2'
    """
    return re.sub(r"[^A-Za-z0-9_]+", "_", topic).strip("_")[:NAME_BYTES] or "topic"


def table_identifier(topic: str, settings: TopicSettings) -> tuple[str, ...]:
    """Namespace parts and table name, in PyIceberg's form."""
    return (*settings.namespace.split("."), settings.table or default_table_name(topic))


def in_sql(identifier: Sequence[str], catalog: str | None) -> str:
    """The dotted name of a table, prefixed with its catalog unless that is ``[catalog]``.

    >>> in_sql(("sales", "orders"), None), in_sql(("sales", "orders"), "prod")
    ('sales.orders', 'prod.sales.orders')
    """
    return ".".join(identifier if catalog is None else (catalog, *identifier))


def table_name(topic: str, settings: TopicSettings) -> str:
    """The dotted name of a topic's table, as in a query."""
    return in_sql(table_identifier(topic, settings), settings.catalog)
