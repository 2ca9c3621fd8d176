"""The step between decode and conform: decoded rows become the value's columns of the table.

What it does to columns, without rows, is ``pipeline/transform/columns.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
from pyiceberg.schema import Schema

from tabletopic_kernel.model.columns.evolution import VALUE
from tabletopic_kernel.pipeline.plan import Projection
from tabletopic_kernel.pipeline.projection.child import ChildProjection
from tabletopic_kernel.pipeline.transform.columns import Transform
from tabletopic_kernel.pipeline.transform.debezium import Unwrap
from tabletopic_kernel.pipeline.transform.rows import Rows, every

if TYPE_CHECKING:
    from tabletopic_kernel.pipeline.projection.projection import SqlProjection


class Step(Protocol):
    """One transform."""

    def rows(self, batch: pa.RecordBatch, offsets: pa.Array) -> Rows:
        """What becomes of decoded rows; ``offsets``: of their records."""
        ...


def make_step(transform: Transform, decoded: Schema) -> Step:
    """The step of a transform, for rows of these columns."""
    match transform:
        case "flatten":
            return Flatten()
        case "none":
            return WholeValue()
        case "flatten_debezium":
            return Unwrap(decoded)


def make_projection(plan: Projection, *, is_worker: bool) -> SqlProjection | ChildProjection:
    """The projection of a plan: in this process, which Spark starts anew when it ends, or in a child."""
    if not is_worker:
        return ChildProjection(plan.text, plan.columns)
    from tabletopic_kernel.pipeline.projection import projection as sql_projection  # noqa: PLC0415 - DuckDB, where it is needed

    return sql_projection.SqlProjection(plan.text, plan.columns)


class Flatten:
    """Each field of the value is a column."""

    def rows(self, batch: pa.RecordBatch, offsets: pa.Array) -> Rows:
        """See ``Step``."""
        return Rows(dict(zip(batch.schema.names, batch.columns, strict=True)), every(len(batch)))


class WholeValue:
    """All fields are in one column."""

    def rows(self, batch: pa.RecordBatch, offsets: pa.Array) -> Rows:
        """See ``Step``."""
        if batch.schema.names == [VALUE]:  # a value that is no record is in that column already
            return Flatten().rows(batch, offsets)
        return Rows({VALUE: batch.to_struct_array()}, every(len(batch)))
