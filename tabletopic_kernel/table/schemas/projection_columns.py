"""What fitting a value's columns does to a table that a projection fills.

A projection reads the ``batch``: the columns that records have had so far, of all schemas together, evolved
by the same rules as a table's, but for aliases: a statement names columns, so these keep their names. So it
is one statement over one set of columns, whatever schema a record has. The table keeps them as a property,
for a new host must know them (I6).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from pyiceberg.schema import Schema

from tabletopic_kernel.model.columns.evolution import HEADER, KEY, METADATA, Evolution, evolve
from tabletopic_kernel.model.columns.table_columns import clashing_names
from tabletopic_kernel.model.errors import ProjectionError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.projection.child import planned_columns
from tabletopic_kernel.table.snapshot import TopicTable


@dataclass(frozen=True)
class Fitting(Evolution):
    """The outcome for the table; ``batch``: the columns that the projection reads, if they change."""

    batch: Schema | None = None

    @property
    def is_needed(self) -> bool:
        """Whether the table must change."""
        return bool(self.changes) or self.batch is not None

    @property
    def new_schema(self) -> Schema | None:
        """The table's schema if it changes."""
        return self.schema if self.changes else None

    @classmethod
    def of(cls, outcome: Evolution, batch: Schema | None = None) -> Fitting:
        """An evolution of the table, and what becomes of the batch beside it."""
        return cls(**{one.name: getattr(outcome, one.name) for one in fields(Evolution)}, batch=batch)


def batch_columns(table: TopicTable) -> Schema:
    """The columns that a projection reads: if it is the first, those that the table has."""
    noted = table.batch_columns
    if noted is not None:
        return noted
    own = (KEY, HEADER, METADATA)
    return Schema(*(column for column in table.table.schema().fields if column.name not in own))


def first_fitting(columns: Schema, settings: TopicSettings) -> tuple[Schema, Evolution]:
    """The value's columns of a new table, and what makes a batch of the writer's.

    Raises:
        ProjectionError: the projection and the columns do not go together.
    """
    wider = evolve(Schema(), columns, 0)
    return _projected(wider.schema, settings), wider


def fitting(
    table: TopicTable, columns: Schema, settings: TopicSettings, *, by_value: bool = False
) -> Fitting:
    """What fitting ``columns``, of the value after the transform, would do to a table.

    ``by_value``: as ``writers.WriterColumns``.

    Raises:
        ProjectionError: as ``first_fitting``.
    """
    metadata, batch = table.table.metadata, batch_columns(table)
    beside = settings.on_incompatible == "new_column"
    by_value = by_value and settings.on_incompatible == "dead_letter"
    wider = evolve(batch, columns, batch.highest_field_id, new_columns=beside, by_value=by_value)
    if wider.refused:
        return Fitting.of(wider)
    outcome = evolve(
        metadata.schema(),
        _projected(wider.schema, settings),
        metadata.last_column_id,
        former=table.former_names(),
        partition_names={one.name: one.source_id for spec in metadata.partition_specs for one in spec.fields},
    )
    is_new = bool(wider.changes) or table.batch_columns is None
    fitting = Fitting.of(outcome, wider.schema if is_new else None)
    # Rows are fitted to the batch by the writer's names, and to the table by those of the outputs.
    return replace(fitting, renames=wider.renames, partly=wider.partly)


def _projected(batch: Schema, settings: TopicSettings) -> Schema:
    columns = planned_columns(settings.projection or "", batch)
    if clash := clashing_names(columns, settings):
        raise ProjectionError(
            f"{clash[0]} is the name of a metadata column; give the output another, with AS"
        )
    return columns
