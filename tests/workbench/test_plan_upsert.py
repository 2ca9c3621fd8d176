"""What a table that is kept by key needs, said before it is enabled."""

from __future__ import annotations

import re
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import ListType, LongType, NestedField, StringType, TimestamptzType

from tabletopic_kernel.clients.registry.registry import RegisteredSchema
from tabletopic_kernel.model.columns.table_columns import metadata_columns
from tabletopic_kernel.model.errors import SettingsError, UsageError
from tabletopic_kernel.model.settings.options import validated
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.transform.columns import CDC_STRUCT
from tabletopic_kernel.workbench.peek import PeekedRecord
from tabletopic_kernel.workbench.topics.upserts import check_upsert_topic
from tests.workbench.test_plan import V1, catalog, make_table, newest, planned, values  # noqa: F401

FLOAT = (
    '{"type":"record","name":"C","fields":[{"name":"id","type":"double"},'
    '{"name":"tags","type":{"type":"array","items":"string"}}]}'
)


def _record(key: bytes | None) -> PeekedRecord:
    return PeekedRecord(0, 0, 0, key, None, None, None, b"x")


def test_a_key_of_columns_is_enough(catalog: Catalog) -> None:  # noqa: F811
    """A note says which readers refuse the table."""
    plan = planned(catalog, V1, mode="upsert", key=("id",), order_by="url")
    assert plan.refused == []
    assert any("Spark streaming" in note for note in plan.notes)


def test_values_that_an_update_would_lose_are_said() -> None:
    """PostgreSQL's large lists of some types, of change events alone."""
    fields = [
        NestedField(at, name, ListType(at + 10, kind, element_required=False), required=False)
        for at, (name, kind) in enumerate((("times", TimestamptzType()), ("texts", StringType())), 1)
    ]
    schema = Schema(*fields, NestedField(9, "id", LongType()), NestedField(8, "_cdc", CDC_STRUCT))
    schema = assign_fresh_schema_ids(Schema(*schema.fields, *metadata_columns(TopicSettings())))
    for transform, expected in (("flatten_debezium", 1), ("flatten", 0)):
        settings = TopicSettings(mode="upsert", key=("id",), transform=transform)
        nothing: Any = None
        servers: Any = nothing, nothing, SimpleNamespace(properties={})
        notes = check_upsert_topic("t", settings, *servers, schema, {})
        assert sum("REPLICA IDENTITY FULL" in note and "times:" in note for note in notes) == expected


@pytest.mark.parametrize(
    ("text", "settings", "why"),
    [
        (V1, {"key": ("nr",)}, "no column 'nr'"),
        (V1, {"key": ("id",), "order_by": "nr"}, "order_by 'nr': there is no column"),
        (V1, {"key": ("id",), "order_by": "_kafka_metadata"}, "one value"),
        (FLOAT, {"key": ("id",)}, "id is double, which cannot be a key"),
        (FLOAT, {"key": ("tags",)}, "which cannot be a key"),
        (V1, {}, "name a schema.*--key-format by_schema_id"),
        (V1, {"key_format": "none"}, "needs a key"),
        (V1, {"metadata_columns": ("metadata",)}, "needs a key"),
        (V1, {"key": ("id",), "metadata_columns": ("key",)}, "metadata_columns"),
        (V1, {"key": ("id",), "on_truncation": "rewind"}, "on_truncation"),
        (V1, {"key": ("id",), "on_truncation": "mark"}, "rows of lost records would win.*order_by"),
        (V1, {"key": ("id",), "projection": "SELECT * FROM batch WHERE id > 1"}, "WHERE"),
    ],
)
def test_what_cannot_be_kept_by_key(
    catalog: Catalog,  # noqa: F811
    text: str,
    settings: dict[str, Any],
    why: str,
) -> None:
    """Each reason names the way out."""
    (refused,) = planned(catalog, text, mode="upsert", **settings).refused
    assert re.search(why, refused), refused


@pytest.mark.parametrize("key_format", ["raw", "by_schema_id"])
@pytest.mark.parametrize(
    ("key", "why"), [(None, "have no keys"), (b'{"schema":{}}', "JSON with their schema")]
)
def test_keys_of_the_newest_records(
    catalog: Catalog,  # noqa: F811
    newest: list[PeekedRecord],  # noqa: F811
    key: bytes | None,
    why: str,
    key_format: str,
) -> None:
    """Without keys, or with keys whose schema comes after the table, there is none by default."""
    settings: dict[str, Any] = {"mode": "upsert", "value_format": "string", "key_format": key_format}
    newest.append(_record(b"k"))
    assert planned(catalog, None, **settings).refused == []
    newest[:] = [_record(key)]
    (refused,) = planned(catalog, None, **settings).refused
    assert why in refused


@pytest.mark.parametrize(
    ("key_type", "key", "before", "is_refused"),
    [
        ('"int"', {"g": 5}, None, False),
        ('["null", "int"]', {"g": 5}, {"g": 4}, False),
        ('["null", "int"]', {"g": 5}, None, True),
        ('"int"', {"g": None}, None, True),
        ('["null", "int"]', {"g": None}, {"g": 4}, False),
    ],
    ids=[
        "primary key",
        "whole rows",
        "a column that may be null",
        "a key that is null",
        "null in whole rows",
    ],
)
def test_change_events_that_do_not_name_their_row(
    newest: list[PeekedRecord],  # noqa: F811
    key_type: str,
    key: dict[str, int | None],
    before: dict[str, int] | None,
    is_refused: bool,
) -> None:
    """PostgreSQL sends the old key alone with REPLICA IDENTITY FULL."""
    event = {"op": "u", "before": before, "after": {"g": 5}}
    newest.append(PeekedRecord(0, 0, 0, b"k", None, event, None, b"x", key_value=key))
    text = f'{{"type": "record", "name": "K", "fields": [{{"name": "g", "type": {key_type}}}]}}'
    registry: Any = SimpleNamespace(latest=lambda _: RegisteredSchema(1, "AVRO", text, (), "t-key", 1))
    settings = TopicSettings(mode="upsert", transform="flatten_debezium", key_format="by_schema_id")
    broker: Any = None
    foreign: Any = SimpleNamespace(properties={})
    with pytest.raises(UsageError, match=r"g may be null.*FULL") if is_refused else nullcontext():
        check_upsert_topic("t", settings, broker, registry, foreign, None, {})


def test_a_table_keeps_its_mode(catalog: Catalog) -> None:  # noqa: F811
    """Whose rows are all records cannot have only the newest ones."""
    make_table(catalog)
    (refused,) = planned(catalog, V1, mode="upsert", key=("id",)).refused
    assert "was created in mode append" in refused
    assert planned(catalog, V1).refused == []


def test_a_key_needs_the_mode() -> None:
    """Or somebody would believe that an appended table has one row for each."""
    with pytest.raises(SettingsError, match="mode = upsert"):
        validated({"key": "id"})
