"""Settings of an enabled topic: what may change, and what may not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tabletopic_kernel.model.errors import SettingsError, UsageError
from tabletopic_kernel.model.settings.sections import TopicSettings

# What a table is made of, or where it began: another value is another table.
FIXED_SETTINGS = (
    "namespace",
    "table",
    "start",
    "value_format",
    "key_format",
    "transform",
    "metadata_columns",
)


def validated(settings: Mapping[str, Any]) -> TopicSettings:
    """The settings; raises SettingsError, which names the keys that are wrong."""
    try:
        return TopicSettings.model_validate(settings)
    except ValidationError as error:
        raise SettingsError("; ".join(map(_message, error.errors()))) from None


def _message(problem: ErrorDetails) -> str:
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "literal_error":
        message = f"{problem['input']!r} is none of {problem['ctx']['expected']}"
    return f"{'.'.join(map(str, problem['loc']))}: {message}"


def altered(topic: str, now: TopicSettings, given: Mapping[str, Any]) -> TopicSettings:
    """The settings of now with those given on top; raises UsageError for one that cannot change."""
    properties = {**now.table_properties, **given.get("table_properties", {})}
    settings = validated({**now.model_dump(), **given, "table_properties": properties})
    fixed = [name for name in FIXED_SETTINGS if getattr(settings, name) != getattr(now, name)]
    if fixed:
        raise UsageError(
            f"{', '.join(fixed)} cannot change: the table is made with it. Fill another table with "
            f"`tabletopic enable {topic} --table OTHER` and the new settings"
        )
    return settings
