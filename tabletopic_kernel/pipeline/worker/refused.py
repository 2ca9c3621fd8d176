"""Refused records: how many are too many, and what a topic says about them.

A wrong setting must not pour a whole topic into dead letters.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

from tabletopic_kernel.model.errors import RECORDS, BadRecordError, RetryableError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.plan import StagePlan, StageResult

_LOG = logging.getLogger(__name__)
# Fewer say nothing about a topic: dead letters are for a handful of bad records in a row.
MIN_RECORDS: Final = 1_000
# Unless none of the records since the start became a row: that is not bad luck.
MIN_IF_ALL: Final = 100


class RefusedShare:
    """Watches the newest batches that together have at least ``MIN_RECORDS`` records.

    Before that, ``MIN_IF_ALL`` are enough if all of them were refused.

    >>> watch = RefusedShare(limit=0.5)
    >>> watch.is_over(records=900, refused=850)
    False
    >>> watch.is_over(records=100, refused=0), watch.share
    (True, 0.85)
    >>> RefusedShare(limit=0.5).is_over(records=100, refused=100)
    True
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._batches: deque[tuple[int, int]] = deque()

    @property
    def records(self) -> int:
        """The number of records watched now."""
        return sum(records for records, _ in self._batches)

    @property
    def share(self) -> float:
        """The share of them that was refused, 0 to 1."""
        return sum(refused for _, refused in self._batches) / max(1, self.records)

    def is_over(self, records: int, refused: int) -> bool:
        """Add a batch; returns whether more than ``limit`` of the newest records were refused."""
        self._batches.append((records, refused))
        while self.records - self._batches[0][0] >= MIN_RECORDS:
            self._batches.popleft()
        enough = MIN_IF_ALL if self.share == 1 else MIN_RECORDS
        return self.records >= enough and self.share > self._limit


def explain_refused(topic: str, result: StageResult) -> str:
    """The first refused record, and how many more there are."""
    first = min(result.samples, key=lambda bad: (bad.partition, bad.offset))
    others = f" (and {result.refused_count - 1} more in this batch)" if result.refused_count > 1 else ""
    schema = f", schema id {first.schema_id}" if first.schema_id is not None else ""
    return (
        f"{topic} partition {first.partition} offset {first.offset}{schema}: "
        f"{first.reason}: {first.message}{others}"
    )


def explain_alike(topic: str, result: StageResult) -> str:
    """Why a batch was not staged whose records all caused the same exception."""
    count = sum(result.failed.values())
    lines = "; ".join(result.traces) or ", ".join(result.failed)
    return (
        f"all {count:,} records of a batch of {topic} fail alike, which points to a bug or a wrong "
        f"setting; the batch was not staged: {lines}. The log has the full trace. Correct the setting or "
        "update the program and resume the topic, or accept such records with max_refused_share = 1"
    )


def explain_no_table(topic: str, result: StageResult) -> str:
    """Why these records did not create a table, and what would."""
    passed = sum(result.passed_over.values())
    without = result.records - result.refused_count - passed
    parts = [f"{without:,} without a field (no value, or an empty object)"] if without else []
    if passed:
        parts.append(f"{passed:,} that were skipped ({', '.join(sorted(result.passed_over))})")
    if result.refused_count:
        why = f": {explain_refused(topic, result)}" if result.samples else ""
        parts.append(f"{result.refused_count:,} that cannot be rows{why}")
    if not parts:
        return (
            f"{topic} has no table yet, since its offsets so far hold no records, only those of aborted "
            "transactions or removed by log compaction. The first record with a field creates the table"
        )
    return (
        f"{topic} has no table yet, since its first {result.records:,} records define no columns: "
        f"{'; '.join(parts)}. They wait; the first record with a field creates the table"
    )


class Checks:
    """What must hold before a topic's batch may be staged; each raises if it does not."""

    def __init__(self, topic: str, settings: TopicSettings) -> None:
        self._topic, self._settings = topic, settings
        self._share = RefusedShare(settings.max_refused_share)

    def before_staging(self, result: StageResult, plan: StagePlan) -> None:
        """Check a batch that could be committed."""
        if result.all_fail_alike and self._settings.max_refused_share < 1:
            raise BadRecordError(explain_alike(self._topic, result), system=RECORDS)
        if result.refused_count and self._settings.errors == "stop":
            raise BadRecordError(explain_refused(self._topic, result))
        self._check_share(self._share, result)
        self._check_table(result, plan)

    def before_dead_letters(self, result: StageResult, plan: StagePlan) -> None:
        """The last checks before a dead-letter table is created."""
        self._check_share(RefusedShare(self._settings.max_refused_share), result)
        self._check_table(result, plan)

    def log_failed(self, result: StageResult) -> None:
        """Log records that became dead letters because of a bug in this program."""
        if count := sum(result.failed.values()):
            traces = "\n".join(result.traces.values())
            _LOG.error("%s: %d records led to internal errors:\n%s", self._topic, count, traces)

    def _check_table(self, result: StageResult, plan: StagePlan) -> None:
        """Let rejected records wait while there is no table: the first row determines its columns."""
        if plan.table is None:
            raise RetryableError(explain_no_table(self._topic, result))

    def _check_share(self, watch: RefusedShare, result: StageResult) -> None:
        if not watch.is_over(result.records, result.refused_count):
            return
        newest = f"the newest {watch.records:,} records of {self._topic}"
        share = f"more than {self._settings.max_refused_share:.0%} of {newest} cannot become rows"
        if watch.share == 1:
            share = f"none of {newest} can become a row"
        raise BadRecordError(
            f"{share}, so a setting is probably wrong; the batch was not staged. "
            f"{explain_refused(self._topic, result)}. "
            "Correct the setting, or accept it with max_refused_share = 1",
            system=RECORDS,
        )
