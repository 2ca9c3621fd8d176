"""The models' own rules: units, lists, starts, names."""

import contextlib
import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tabletopic_kernel.model.settings.desired import DesiredTopic
from tabletopic_kernel.model.settings.names import flatten_properties
from tabletopic_kernel.model.settings.options import altered
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.table_names import default_table_name, table_identifier
from tabletopic_kernel.model.settings.units import parse_duration_ms, parse_size_bytes, parse_start


@pytest.mark.parametrize(
    ("text", "ms"),
    [("500ms", 500), ("5s", 5_000), ("5", 5_000), ("1.5 min", 90_000), ("2m", 120_000), ("1h", 3_600_000)],
)
def test_durations(text: str, ms: int) -> None:
    """Text with a unit; without one, seconds."""
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("1k", 1024), ("128MB", 128 * 1024**2), ("64 MiB", 64 * 1024**2), ("1.5gb", 1536 * 1024**2)],
)
def test_sizes(text: str, size: int) -> None:
    """MB and MiB are both powers of 1024."""
    assert parse_size_bytes(text) == size


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ({}, 500),
        ({"time_travel_ms": "5d"}, None),
        ({"time_travel_ms": "7d"}, None),
        ({"time_travel_ms": "1h"}, None),
        ({"max_snapshots": 50}, 50),
        ({"max_snapshots": "0"}, None),
        ({"max_snapshots": 50, "time_travel_ms": "7d"}, 50),
    ],
)
def test_who_says_how_far_time_travel_reaches(given: dict[str, object], limit: int | None) -> None:
    """The limit where it is set, else the time; also as a host reads it."""
    settings = TopicSettings.model_validate(given)
    assert settings.snapshot_limit == limit
    read = DesiredTopic.from_json(DesiredTopic(topic="clicks", settings=settings).to_json())
    assert read.settings.snapshot_limit == limit


@given(st.text() | st.text("0123456789.msMGiBb -"))
def test_odd_durations_sizes_and_starts_are_value_errors(text: str) -> None:
    """Whatever is written, the answer is a number or a ValueError, which pydantic can report."""
    for parse in (parse_duration_ms, parse_size_bytes, parse_start):
        with contextlib.suppress(ValueError):
            value = parse(text)
            assert isinstance(value, int) or value in ("earliest", "latest")


@pytest.mark.parametrize(
    ("given", "start"),
    [
        ("latest", "latest"),
        (1_769_860_800_000, 1_769_860_800_000),
        ("1769860800000", 1_769_860_800_000),
        ("2026-01-31T12:00:00", 1_769_860_800_000),
        ("2026-01-31T13:00:00+01:00", 1_769_860_800_000),
        ("2026-01-31", 1_769_817_600_000),
    ],
)
def test_starts(given: str | int, start: str | int) -> None:
    """A time without a zone is UTC."""
    assert TopicSettings(start=given).start == start


@pytest.mark.parametrize("given", [True, -1, 1.5, None, "yesterday", "1900-01-01"])
def test_wrong_starts(given: object) -> None:
    """What is no time of a record is refused."""
    with pytest.raises(ValidationError):
        TopicSettings(start=given)


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("", ()),
        ("hour(ts)", ("hour(ts)",)),
        ("bucket(16, id), country", ("bucket(16, id)", "country")),
        ("truncate(4, a),truncate(4, b),", ("truncate(4, a)", "truncate(4, b)")),
    ],
)
def test_lists_in_text(text: str, items: tuple[str, ...]) -> None:
    """Commas separate, except those of a transform's arguments."""
    assert TopicSettings(partition_by=text).partition_by == items


@given(st.dictionaries(st.text("abc._-", min_size=1), st.text(), max_size=3))
def test_flat_properties_stay_as_they_are(properties: dict[str, str]) -> None:
    """Only nesting is taken out."""
    assert flatten_properties(properties) == properties


@pytest.mark.parametrize(
    ("topic", "table"),
    [("web.clicks-v2", "web_clicks_v2"), ("...", "topic"), ("Orders", "Orders"), ("x" * 249, "x" * 200)],
)
def test_table_names(topic: str, table: str) -> None:
    """Letters keep their case; what Iceberg names cannot hold is _."""
    assert default_table_name(topic) == table
    assert table_identifier(topic, TopicSettings(namespace="a.b")) == ("a", "b", table)


@pytest.mark.parametrize("name", ["", "a/b", "..", "a\\b", " a", "a\n", "ä" * 101])
def test_names_that_no_table_can_have(name: str) -> None:
    """Tables and namespaces are folders and words of SQL; what cannot be both is refused at once."""
    with pytest.raises(ValidationError):
        TopicSettings(table=name)
    with pytest.raises(ValidationError):
        TopicSettings(namespace=f"a.{name}")
    assert TopicSettings(namespace="a.b", table="wéb clicks").table == "wéb clicks"


def test_what_is_not_set_is_not_in_the_message() -> None:
    """Hosts of the version before read it: a setting that they do not know is there only if it is used."""
    plain = DesiredTopic(topic="clicks", settings=TopicSettings())
    assert json.loads(plain.to_json()) == {"topic": "clicks", "settings": {}}
    used = DesiredTopic(topic="clicks", settings=TopicSettings(errors="dead_letter", table=None))
    changed = altered("clicks", used.settings, {"commit_interval_ms": "2s"})
    message = json.loads(used.model_copy(update={"settings": changed, "run": "on"}).to_json())
    # A default that was chosen stays what it is in a version with another default.
    kept = {"errors": "dead_letter", "commit_interval_ms": 2_000}
    assert message == {"topic": "clicks", "run": "on", "settings": kept}
    # The versions before wrote every default.
    assert DesiredTopic.from_json(plain.model_dump_json(exclude_none=True).encode()) == plain
    assert DesiredTopic.from_json(plain.to_json()) == plain
    # Else a message without it would mean something else.
    for model in (DesiredTopic, TopicSettings):
        for name, field in model.model_fields.items():
            if type(None) in get_args(field.annotation):
                assert field.get_default(call_default_factory=True) is None, name
