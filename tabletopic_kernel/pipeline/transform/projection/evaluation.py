"""Where SQL over rows runs: in a child process, unless Spark restarts this one if it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pyiceberg.schema import Schema

from tabletopic_kernel.pipeline.transform.projection.child import ChildProjection

if TYPE_CHECKING:  # DuckDB, where it is needed
    from tabletopic_kernel.pipeline.transform.projection.projection import SqlProjection

Evaluation: TypeAlias = "SqlProjection | ChildProjection"


def evaluation(text: str, columns: Schema, *, is_worker: bool) -> Evaluation:
    """What evaluates a SELECT over rows with these columns; raises as ``ChildProjection``."""
    if not is_worker:
        return ChildProjection(text, columns)
    from tabletopic_kernel.pipeline.transform.projection.projection import SqlProjection  # noqa: PLC0415 - DuckDB

    return SqlProjection(text, columns)
