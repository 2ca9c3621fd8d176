"""What enable would do, over a small catalog; broker and registry answer from memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema

from tabletopic_kernel.adapters.catalog import open_catalog
from tabletopic_kernel.adapters.kafka import Broker, TopicFacts
from tabletopic_kernel.adapters.registry import RegisteredSchema, Registry
from tabletopic_kernel.commit.check import Plan, check_before_enable, plan_enable
from tabletopic_kernel.commit.snapshot import TopicTable
from tabletopic_kernel.core.errors import UsageError
from tabletopic_kernel.core.evolution import table_schema
from tabletopic_kernel.core.partitions import partition_spec
from tabletopic_kernel.core.settings import TopicSettings
from tabletopic_kernel.core.types import iceberg_struct_of_avro

V1 = '{"type":"record","name":"C","fields":[{"name":"id","type":"int"},{"name":"url","type":"string"}]}'
V2 = (
    '{"type":"record","name":"C","fields":[{"name":"id","type":"long"},'
    '{"name":"url","type":["null","string"]},{"name":"at","type":"long"}]}'
)
BAD = '{"type":"record","name":"C","fields":[{"name":"id","type":"string"},{"name":"url","type":"string"}]}'


class Answers:
    """A broker with one topic of 10 records, and a registry with one schema or none."""

    def __init__(self, text: str | None) -> None:
        self.text = text

    def facts(self, topic: str) -> TopicFacts:
        """As the broker."""
        return TopicFacts(topic, "cluster", "topic-id", {0: 0}, {0: 10})

    def latest(self, subject: str) -> RegisteredSchema | None:
        """As the registry."""
        return None if self.text is None else RegisteredSchema(7, "AVRO", self.text, (), subject, 2)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """An empty catalog."""
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    return open_catalog({"name": "lake", **properties})


def columns_of(text: str) -> Schema:
    """A value's columns and the metadata columns."""
    return table_schema(iceberg_struct_of_avro(text, {}), TopicSettings())


def planned(catalog: Catalog, text: str | None, **settings: Any) -> Plan:
    """The plan of the topic ``clicks``."""
    answers = Answers(text)
    made = TopicSettings(**settings)
    return plan_enable("clicks", made, cast(Broker, answers), cast(Registry, answers), catalog)


def make_table(catalog: Catalog, by: tuple[str, ...] = ()) -> None:
    """A table of V1, as a coordinator makes it."""
    schema = columns_of(V1)
    spec = partition_spec(by, schema)
    TopicTable.create(catalog, ("default", "clicks"), schema, spec, "clicks", TopicSettings())


def test_a_new_table_has_new_columns(catalog: Catalog) -> None:
    """The plan names the table, its columns and how far the topic reaches; nothing is made."""
    plan = planned(catalog, V1, partition_by=("bucket(4, url)",))
    assert plan.creates
    assert plan.table == "default.clicks"
    assert [(one.name, one.type, one.required, one.change) for one in plan.columns][:2] == [
        ("id", "int", True, "new"),
        ("url", "string", True, "new"),
    ]
    assert plan.partition_by == ["bucket(4, url)"]
    assert not plan.refused
    assert any("10 records" in note for note in plan.notes)
    assert catalog.list_namespaces() == []


def test_without_a_schema_there_are_no_columns_yet(catalog: Catalog) -> None:
    """Columns come with the first record; that is a note, no refusal."""
    plan = planned(catalog, None)
    assert plan.columns == []
    assert any("clicks-value" in note for note in plan.notes)
    assert not plan.refused


def test_a_table_that_is_there_says_what_changes(catalog: Catalog) -> None:
    """Widened, relaxed, new and kept columns are told apart."""
    make_table(catalog)
    plan = planned(catalog, V2)
    changes = {one.name: (one.type, one.change) for one in plan.columns}
    assert not plan.creates
    assert changes["id"] == ("long", "widened")
    assert changes["url"] == ("string", "relaxed")
    assert changes["at"] == ("long", "new")
    assert changes["_kafka_key"] == ("binary", "kept")


@pytest.mark.parametrize(
    ("text", "settings", "reason"),
    [
        (V1, {"partition_by": ("hour(url)",)}, "cannot take url"),
        (V1, {"partition_by": ("day_of(url)",)}, "is not understood"),
        ('{"type":"nonsense"}', {}, "nonsense"),
        (BAD, {"on_incompatible": "stop", "table": None}, ""),
    ],
)
def test_reasons_against_it_are_in_the_plan_and_end_enable(
    catalog: Catalog, text: str, settings: dict[str, Any], reason: str
) -> None:
    """A plan always comes; enable raises the same reasons."""
    if text == BAD:
        make_table(catalog)
        reason = "does not fit the table"
    plan = planned(catalog, text, **settings)
    assert reason in "; ".join(plan.refused)
    answers = Answers(text)
    with pytest.raises(UsageError, match=reason):
        check_before_enable(
            "clicks", TopicSettings(**settings), cast(Broker, answers), cast(Registry, answers), catalog
        )


def test_another_partitioning_of_a_table_is_refused(catalog: Catalog) -> None:
    """A table topic does not change the partitions of a table that is there."""
    make_table(catalog, ("url",))
    assert "partitioned by identity(url);" in planned(catalog, V1, partition_by=("id",)).refused[0]
    assert planned(catalog, V1).partition_by == ["identity(url)"]


def test_the_type_of_keys_is_planned(catalog: Catalog) -> None:
    """Keys that name their schema have its type; a table whose keys are something else is left alone."""
    typed = planned(catalog, V1, key_format="by_schema_id")
    (key,) = [one for one in typed.columns if one.name == "_kafka_key"]
    assert (key.type, key.change) == ("struct<id: int, url: string>", "new")
    nothing = planned(catalog, None, key_format="by_schema_id")
    assert any("clicks-key" in note for note in nothing.notes)
    make_table(catalog)
    (reason,) = planned(catalog, V1, key_format="by_schema_id").refused
    assert "_kafka_key is binary in the table" in reason


def test_a_plan_is_plain_json(catalog: Catalog) -> None:
    """Programs get dictionaries and lists."""
    plain = planned(catalog, V1).to_json()
    assert plain["columns"][0] == {
        "name": "id",
        "type": "int",
        "required": True,
        "doc": None,
        "change": "new",
    }


def test_a_schema_that_does_not_fit_is_a_note_where_its_records_may_be_refused(catalog: Catalog) -> None:
    """Unless the topic is to stop, the table is still there for all other records."""
    make_table(catalog)
    plan = planned(catalog, BAD, on_incompatible="dead_letter")
    assert not plan.refused
    assert any("does not fit the table" in note for note in plan.notes)
    plan = planned(catalog, BAD, on_incompatible="new_column")
    assert {"id", "id_string"} <= {one.name for one in plan.columns}
