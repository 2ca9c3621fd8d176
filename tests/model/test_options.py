"""Which settings of a topic that is switched on may change."""

from __future__ import annotations

from typing import Any

import pytest

from tabletopic_kernel.model.errors import SettingsError, UsageError
from tabletopic_kernel.model.settings.options import FIXED_SETTINGS, altered, given_settings
from tabletopic_kernel.model.settings.sections import TopicSettings

NOW = TopicSettings(commit_interval_ms=1_000, errors="skip", table_properties={"a": "1", "b": "2"})


def test_what_is_not_given_stays() -> None:
    """Properties are added to those there are; texts are read as everywhere."""
    given = {"commit_interval_ms": "2s", "table_properties": {"b": "3"}, "partition_by": "day(at), url"}
    assert altered("clicks", NOW, given) == TopicSettings(
        commit_interval_ms=2_000,
        errors="skip",
        table_properties={"a": "1", "b": "3"},
        partition_by=("day(at)", "url"),
    )


OPTIONAL = {
    "value_subject": "s",
    "value_message": "m",
    "projection": "SELECT * FROM batch",
    "time_travel_ms": 60_000,
    "max_snapshots": 7,
}


@pytest.mark.parametrize("empty", ["", None])
def test_optional_settings_can_be_unset(empty: str | None) -> None:
    """All without a default, also those that define the table where they do not change; for the others an
    empty text is a value."""
    now = TopicSettings.model_validate(OPTIONAL)
    assert altered("clicks", now, dict.fromkeys(OPTIONAL, empty)) == TopicSettings()
    optional = {name for name, field in TopicSettings.model_fields.items() if field.default is None}
    assert optional - set(FIXED_SETTINGS) == set(OPTIONAL)
    assert given_settings({"projection": ""}) == {"projection": ""}
    with pytest.raises(SettingsError, match="errors"):
        altered("clicks", now, {"errors": ""})


@pytest.mark.parametrize(
    "given",
    [
        {"namespace": "other"},
        {"table": "other"},
        {"start": "latest"},
        {"value_format": "json"},
        {"key_format": "none"},
        {"transform": "none"},
        {"metadata_columns": ("key",)},
    ],
)
def test_what_a_table_is_made_of_cannot_change(given: dict[str, Any]) -> None:
    """The error names the setting and the way there is; the same value is no change."""
    (name,) = given
    assert name in FIXED_SETTINGS
    with pytest.raises(UsageError, match=rf"{name} cannot be changed.*enable clicks --table"):
        altered("clicks", NOW, given)
    assert altered("clicks", NOW, {name: getattr(NOW, name)}) == NOW


def test_wrong_values_are_named() -> None:
    """As in a settings file."""
    with pytest.raises(SettingsError, match="errors: "):
        altered("clicks", NOW, {"errors": "shout"})
    with pytest.raises(SettingsError, match=r"format-version: this program cannot write"):
        altered("clicks", NOW, {"table_properties": {"format-version": "3"}})
    assert altered("clicks", NOW, {"table_properties": {"format-version": "2"}}).table_properties["b"] == "2"
