"""Expectations: rules in SQL on rows of the table's columns, evaluated as projections are.

A rule is about a row that would be written: of a table kept by key, deletes are none. NULL does not fail a
rule, as in SQL's CHECK. A rule that cannot be computed for a row, such as a cast of other text, fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from shlex import quote
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema

from tabletopic_kernel.model.dead_letter import EXPECTATION
from tabletopic_kernel.model.errors import ActionNeededError, ExpectationError, ProjectionError, Trouble
from tabletopic_kernel.model.ledger import added
from tabletopic_kernel.model.settings.values import Expectation
from tabletopic_kernel.pipeline.plan import StagePlan, StageResult
from tabletopic_kernel.pipeline.sinks import Rejections, StagedRows, places_of
from tabletopic_kernel.pipeline.split_by_schema import NO_REJECTIONS
from tabletopic_kernel.pipeline.transform.columns import Rows
from tabletopic_kernel.pipeline.transform.projection.child import planned_columns
from tabletopic_kernel.pipeline.transform.projection.evaluation import Evaluation, evaluation

_NO_CONDITION: Final = "it must be one condition in SQL"


def check_rules(spelled: Sequence[str], columns: Schema) -> None:
    """Check rules on rows with these columns; ExpectationError names the first that cannot be used."""
    for rule in map(Expectation.of, spelled):
        try:
            names = [field.name for field in planned_columns(_select([rule]), columns).fields]
        except ProjectionError as error:
            raise ExpectationError(rule.name, error.why) from error
        if names != [rule.name]:
            raise ExpectationError(rule.name, _NO_CONDITION)


class Rules:
    """The rules of a plan, for rows of a table with this schema."""

    def __init__(self, plan: StagePlan, schema: Schema, *, is_worker: bool = False) -> None:
        self._rules = [Expectation.of(text) for text in plan.settings.expectations]
        self._topic, self._stops, self._is_worker = plan.topic, not plan.patient, is_worker
        self._text, self._schema = _select(self._rules), schema
        words = self._text.lower()
        used = [column for column in schema.fields if column.name.replace('"', '""').lower() in words]
        self._columns, self._names = Schema(*used), [field.name for field in used]

    @cached_property
    def _evaluation(self) -> Evaluation:
        try:
            chosen = evaluation(self._text, self._columns, is_worker=self._is_worker)
        except ProjectionError:
            check_rules([str(rule) for rule in self._rules], self._schema)  # which names the rule
            raise
        if [field.name for field in chosen.iceberg_schema.fields] != [rule.name for rule in self._rules]:
            raise ExpectationError(self._rules[0].name, _NO_CONDITION)
        return chosen

    def judged(
        self, batch: pa.RecordBatch, rows: StagedRows, result: StageResult
    ) -> tuple[StagedRows, Rejections]:
        """The rows that no rule keeps out, and those refused; failures are counted in ``result``.

        If a rule stops the topic, or cannot be used, that is the result's ``error``.
        """
        columns = {name: rows.rows.column(name) for name in self._names}
        try:
            outcome = self._evaluation.rows(columns, len(rows))
        except ProjectionError as error:
            result.error = ActionNeededError(f"{error}. Change it with {self._alter()}")
            return rows, NO_REJECTIONS
        reasons: dict[int, list[str]] = {bad.index: [bad.message] for bad in outcome.refused}
        for rule, failing, faults in self._failing(outcome):
            counts = {rule.name: len(failing)}
            result.expectation_failures = added(result.expectation_failures, counts)
            if rule.action == "stop" and self._stops:
                result.error = result.error or self._stop(rule, batch, rows.positions[failing[0]])
            elif rule.action != "warn":
                for index in failing.tolist():
                    why = "cannot be computed for this row" if index in faults else "is false"
                    reasons.setdefault(index, []).append(f"{rule.name}: {rule.sql} {why}")
        if not reasons:
            return rows, NO_REJECTIONS
        refused = np.array(sorted(reasons))
        messages = ["; ".join(reasons[index]) for index in refused.tolist()]
        kept = np.delete(np.arange(len(rows)), refused)
        passing = StagedRows(rows.positions[kept], rows.schema_id, rows.rows.take(pa.array(kept)))
        return passing, Rejections(rows.positions[refused], rows.schema_id, EXPECTATION, messages)

    def _failing(self, outcome: Rows) -> Iterator[tuple[Expectation, np.ndarray, frozenset[int]]]:
        """The rules that rows fail, their indexes, and those for which the rule cannot be computed."""
        for rule in self._rules:
            if (passes := outcome.columns.get(rule.name)) is None:  # every row took too much
                continue
            fails = pc.equal(pc.fill_null(passes, 0), 0).to_numpy(zero_copy_only=False)
            if fails.any():
                faults = outcome.kept[pc.is_null(passes).to_numpy(zero_copy_only=False)]
                yield rule, outcome.kept[fails], frozenset(faults.tolist())

    def _stop(self, rule: Expectation, batch: pa.RecordBatch, position: int) -> ActionNeededError:
        ((partition, offset),) = places_of(batch, np.array([position]))
        trouble = Trouble(
            cause=f"fails the expectation {rule.name} ({rule.sql}), which stops the topic",
            remedy=f"to refuse such records instead, {self._alter(rule.name)}",
            system=f"{self._topic} partition {partition} offset {offset}",
        )
        return ActionNeededError(trouble)

    def _alter(self, name: str | None = None) -> str:
        """The command with all rules, of which this one gets another action."""
        rules = [
            Expectation(rule.name, rule.sql, "dead_letter") if rule.name == name else rule
            for rule in self._rules
        ]
        return (
            f"`tabletopic alter {self._topic} {' '.join(f'--expect {quote(str(rule))}' for rule in rules)}`"
        )


def _select(rules: Sequence[Expectation]) -> str:
    """A projection with a column for each rule: 1, 0 for rows that fail it, null where it fails itself."""
    parts = [
        f'TRY(CAST(CAST(({rule.sql}\n) AS BOOLEAN) IS DISTINCT FROM false AS TINYINT)) AS "{rule.name}"'
        for rule in rules
    ]
    return f"SELECT {', '.join(parts)} FROM batch"
