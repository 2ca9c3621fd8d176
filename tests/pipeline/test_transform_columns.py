"""Columns of the table for decoded columns, and back."""

from __future__ import annotations

from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField

from tabletopic_kernel.model.columns.evolution import VALUE, evolve
from tabletopic_kernel.model.columns.table_columns import table_schema
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.transform.columns import decoded_columns, value_columns


def _schema(**types: IntegerType | LongType) -> Schema:
    return Schema(
        *(NestedField(at, name, kind, required=True) for at, (name, kind) in enumerate(types.items(), 1))
    )


def test_the_whole_value_in_one_column() -> None:
    """With transform none, evolution goes on inside _kafka_value."""
    table = table_schema(value_columns(_schema(a=IntegerType()), "none"), TopicSettings())
    assert table.find_field(f"{VALUE}.a")
    outcome = evolve(table, value_columns(_schema(a=LongType()), "none"), table.highest_field_id)
    assert [str(change) for change in outcome.changes] == [f"widen {VALUE}.a int → long"]
    assert [field.name for field in decoded_columns(table, "none", Schema()).fields] == ["a"]
