"""Which settings of a topic that is switched on may change."""

from __future__ import annotations

from typing import Any

import pytest

from tabletopic_kernel.model.errors import SettingsError, UsageError
from tabletopic_kernel.model.settings.options import FIXED_SETTINGS, altered
from tabletopic_kernel.model.settings.sections import TopicSettings

NOW = TopicSettings(
    commit_interval_ms=1_000, errors="skip", table_properties={"write.a": "1", "write.b": "2"}
)


def test_what_is_not_given_stays() -> None:
    """Properties are added to those there are; texts are read as everywhere."""
    given = {"commit_interval_ms": "2s", "table_properties": {"write.b": "3"}, "partition_by": "day(at), url"}
    assert altered("clicks", NOW, given) == TopicSettings(
        commit_interval_ms=2_000,
        errors="skip",
        table_properties={"write.a": "1", "write.b": "3"},
        partition_by=("day(at)", "url"),
    )


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
    assert (
        altered("clicks", NOW, {"table_properties": {"format-version": "2"}}).table_properties["write.b"]
        == "2"
    )
