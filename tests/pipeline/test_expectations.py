"""Expectations: what becomes of rows that fail a rule, by its action."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from tabletopic_kernel.clients.catalog.catalog import create_table
from tabletopic_kernel.formats.decoder import make_decoder
from tabletopic_kernel.model.columns.table_columns import table_schema
from tabletopic_kernel.model.errors import ExpectationError, SettingsError
from tabletopic_kernel.model.settings.options import validated
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.decode import LoadedPlan
from tabletopic_kernel.pipeline.plan import SchemaPlan, StagePlan, StageResult, TablePlan
from tabletopic_kernel.pipeline.sinks import Memory
from tabletopic_kernel.pipeline.stage import stage
from tabletopic_kernel.pipeline.transform.expectations import check_rules
from tests.pipeline.test_stage import WRITER, batch, good
from tests.table.samples import sqlite_catalog

COLUMNS = Schema(NestedField(1, "id", LongType()), NestedField(2, "text", StringType()))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> TablePlan:
    """A table for the records of ``good``."""
    root = tmp_path_factory.mktemp("rules")
    catalog = sqlite_catalog(root)
    value = make_decoder(7, WRITER).iceberg_schema
    schema = table_schema(value, TopicSettings())
    table = create_table(catalog, ("default", "rules"), schema, UNPARTITIONED_PARTITION_SPEC, {})
    return TablePlan(table.metadata.model_dump_json(), dict(catalog.properties))


def staged(
    table: TablePlan,
    *rules: str,
    is_worker: bool = True,
    patient: bool = False,
) -> tuple[Memory, StageResult]:
    """What becomes of records with these ids."""
    settings = TopicSettings(expectations=rules)
    plan = StagePlan("clicks", table, None, 1, SchemaPlan({7: WRITER}), True, settings, patient=patient)
    plan = replace(plan, dead_letters=table)
    memory = Memory()
    result = stage(LoadedPlan(plan, is_worker=is_worker), [batch(*map(good, range(6)))], memory)
    return memory, result


def ids(memory: Memory) -> list[int]:
    """The ids of the rows."""
    return [row["id"] for part in memory.staged for row in part.rows.to_pylist()]


def test_a_warning_counts_and_keeps(table: TablePlan) -> None:
    """A rule with ``warn`` counts the rows that fail it, and lets them pass."""
    memory, result = staged(table, "small: id < 4: warn", "known: text IN ('t0', 't1'): warn")
    assert ids(memory) == [0, 1, 2, 3, 4, 5]
    assert result.expectation_failures == {"small": 2, "known": 4}
    assert (result.refused, result.error) == ({}, None)


@pytest.mark.parametrize("is_worker", [True, False])
def test_failing_rows_are_refused(table: TablePlan, is_worker: bool) -> None:
    """``dead_letter`` refuses the rows that fail, each with the names of its rules, here as in a child."""
    rules = ("small: id < 4: dead_letter", "even: id % 2 = 0: dead_letter", "one: id = 1: warn")
    memory, result = staged(table, *rules, is_worker=is_worker)
    assert ids(memory) == [0, 2]
    assert result.refused == {"expectation": 4}
    assert result.expectation_failures == {"small": 2, "even": 3, "one": 5}
    (refused,) = memory.refused
    assert refused.positions.tolist() == [1, 3, 4, 5]
    assert refused.message(3) == "small: id < 4 is false; even: id % 2 = 0 is false"


def test_null_does_not_fail_and_an_error_does(table: TablePlan) -> None:
    """As with SQL's CHECK, NULL passes; a rule that cannot be computed for a row fails."""
    memory, _ = staged(table, "n: CASE WHEN id = 1 THEN NULL ELSE id > 1 END: dead_letter")
    assert ids(memory) == [1, 2, 3, 4, 5]
    memory, _ = staged(table, "n: CAST(CASE id WHEN 3 THEN 'x' ELSE '1' END AS INT) = 1: dead_letter")
    assert ids(memory) == [0, 1, 2, 4, 5]
    assert memory.refused[0].message(0).endswith("cannot be computed for this row")


def test_a_rule_stops_the_topic(table: TablePlan) -> None:
    """``stop`` names the rule, the first record's place and what to do; nothing is refused."""
    _, result = staged(table, "a: id >= 0: warn", "small: id < 4 -- of few\n: stop")
    assert str(result.error) == (
        "clicks partition 2 offset 104 fails the expectation small (id < 4 -- of few), which "
        "stops the topic; to refuse such records instead, "
        "`tabletopic alter clicks --expect 'a: id >= 0: warn' "
        "--expect 'small: id < 4 -- of few: dead_letter'`"
    )
    assert result.refused == {}


def test_a_replay_is_not_stopped(table: TablePlan) -> None:
    """Where each record is tried, in a replay, a rule with ``stop`` refuses its record alone."""
    memory, result = staged(table, "small: id < 4: stop", patient=True)
    assert result.error is None
    assert ids(memory) == [0, 1, 2, 3]
    assert result.refused == {"expectation": 2}


def test_metadata_and_nested_columns(table: TablePlan) -> None:
    """Rules see the table's columns: those of Kafka, lists, and names in another case."""
    memory, _ = staged(table, "m: _kafka_metadata.offset > 101 AND len(SIZES) = 3: dead_letter")
    assert ids(memory) == [2, 3, 4, 5]


def test_an_unusable_rule_stops_the_topic(table: TablePlan) -> None:
    """A rule on a column that the table lacks is the topic's error, and says which rule."""
    _, result = staged(table, "a: id >= 0: warn", "b: amount > 0: warn")
    assert str(result.error).startswith("the expectation b cannot be used: ")
    assert "amount" in str(result.error)


@pytest.mark.parametrize(
    "sql",
    [
        "amount > 0",
        "count(*) > 1",
        "id > (SELECT 1)",
        "random() > 0.5",
        'true) AS BOOLEAN) IS DISTINCT FROM false AS TINYINT)) AS "x", TRY(CAST(CAST((true',
        "true /*",
        "*",
        "id >",
    ],
)
def test_what_is_no_condition(sql: str) -> None:
    """A rule is one condition on one row; another text is refused with the rule's name."""
    with pytest.raises(ExpectationError, match="the expectation bad cannot be used"):
        check_rules([f"bad: {sql}: warn"], COLUMNS)


def test_usable_rules() -> None:
    """Casts have colons, and conditions have several lines."""
    check_rules(["a: id::text = '1':warn", " b :\n id > 0\n AND text <> ':' : stop "], COLUMNS)


@pytest.mark.parametrize("text", ["id > 0", "a: id > 0", "a b: id: warn", "a: id > 0: drop", "a: : warn"])
def test_another_form_is_refused(text: str) -> None:
    """A rule has a name, a condition and one of three actions."""
    with pytest.raises(SettingsError, match="NAME: CONDITION: warn"):
        validated({"expectations": [text]})


def test_names_are_unique() -> None:
    """Two rules with one name would be counted as one."""
    with pytest.raises(SettingsError, match="two expectations have the name a"):
        validated({"expectations": ["a: id > 0: warn", "A: id > 1: warn"]})
