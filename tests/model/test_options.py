"""Which settings of a topic that is switched on may change."""

from __future__ import annotations

from typing import Any

import pytest

from tabletopic_kernel.model.errors import SettingsError, UsageError
from tabletopic_kernel.model.settings.options import (
    FIXED_SETTINGS,
    altered,
    given_settings,
    limits_of,
    setting_options,
)
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


OPTIONAL = {
    "value_subject": "s", "value_message": "m", "projection": "SELECT * FROM batch", "time_travel_ms": 60_000,
    "max_snapshots": 7, "keep_ms": 3_600_000, "keep_by": "at",
}  # fmt: skip


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
        {"namespace": "other"}, {"table": "other"}, {"start": "latest"}, {"value_format": "json"},
        {"key_format": "none"}, {"transform": "none"}, {"metadata_columns": ("key",)}, {"mode": "upsert"},
    ],
)  # fmt: skip
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
    with pytest.raises(SettingsError, match="table_properties: must be a valid dictionary"):
        altered("clicks", NOW, {"table_properties": None})
    with pytest.raises(SettingsError, match=r"format-version: this program cannot write"):
        altered("clicks", NOW, {"table_properties": {"format-version": "3"}})
    kept = altered("clicks", NOW, {"table_properties": {"format-version": "2"}}).table_properties
    assert kept["write.b"] == "2"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"commit_interval_ms": "10ms"}, "--commit-interval 10ms: allowed: 100ms to 1h, for example 5s"),
        ({"commit_interval_ms": "soon"}, "--commit-interval soon: allowed: 100ms to 1h, for example 5s"),
        ({"max_snapshots": "x"}, "--max-snapshots x: allowed: 0 to 1000000, for example 500"),
        ({"commit_bytes": "1"}, "--commit-bytes 1: allowed: 1MB to 16GB, for example 256MB"),
        ({"time_travel_ms": "1s"}, "--time-travel 1s: allowed: 1m to 3650d, for example 5d"),
        ({"max_refused_share": "2"}, "--max-refused-share 2: allowed: 0 to 1, for example 0.5"),
        ({"errors": "shout"}, "--errors shout: allowed: 'dead_letter', 'skip' or 'stop'"),
        (
            {"metadata_columns": ["key", "keys"]},
            "--metadata-columns key,keys: allowed: 'key', 'header' or 'metadata'",
        ),
        ({"table_properties": ["a=b", "comment=c"]}, "--table-property a=b,comment=c: 'a' is not a property"),
        ({"catalog": "", "keep_snapshots": "0"}, "--keep-snapshots 0: allowed: 1 to 100000, for example 20"),
    ],
)
def test_wrong_options_are_named_as_typed(options: dict[str, Any], message: str) -> None:
    """With what is allowed, in units as typed, and an example."""
    with pytest.raises(UsageError) as raised:
        given_settings(options)
    assert message in str(raised.value)


def test_every_setting_with_limits_names_them_and_an_example() -> None:
    """The example is allowed; anything else gets an error that names both."""
    limited = {option: limits for option in setting_options() if (limits := limits_of(option.field))}
    assert len(limited) >= 7
    for option, allowed in limited.items():
        assert given_settings({option.field: allowed.rpartition(" ")[2]})
        with pytest.raises(UsageError) as raised:
            given_settings({option.field: "?"})
        assert str(raised.value) == f"{option.name} '?': allowed: {allowed}"
