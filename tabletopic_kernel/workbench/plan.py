"""What enabling a topic would do, as a value: faces show it, and programs get it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.workbench.topics.backlog import Backlog

ColumnChange = Literal["new", "kept", "relaxed", "widened", "renamed"]


@dataclass(frozen=True)
class PlanColumn:
    """A column that the table will have, and its ``change``."""

    name: str
    type: str
    required: bool
    doc: str | None
    change: ColumnChange


@dataclass
class Plan:
    """What ``enable`` would do with a topic. It would fail if ``refused`` contains a reason.

    ``creates``: the table does not exist yet. ``columns`` is empty while no schema is registered. ``start``
    is the setting; an existing table resumes from its ledger instead, as one of the ``notes`` says.
    ``warnings`` are those of the notes that say why records may not become rows.
    ``partition_by_before`` has an existing table's partitions, ``sort_by_before`` its order.

    For an unregistered schema: ``changes`` of the table in words, ``incompatible`` with the reason for each
    column that does not fit, and ``registry``, whether the registry would accept it. ``backlog`` is of a new
    table with partitions.
    """

    topic: str
    table: str
    creates: bool
    columns: list[PlanColumn] = field(default_factory=list)
    partition_by: list[str] = field(default_factory=list)
    partition_by_before: list[str] = field(default_factory=list)
    sort_by: list[str] = field(default_factory=list)
    sort_by_before: list[str] = field(default_factory=list)
    start: str | int = "earliest"
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    incompatible: dict[str, str] = field(default_factory=dict)
    registry: str | None = None
    backlog: Backlog | None = None

    def check(self) -> None:
        """Raise UsageError with the reasons, if there are any."""
        if self.refused:
            raise UsageError("; ".join(self.refused))
