"""Rows that a topic keeps no longer: ``keep_ms`` by the time column ``keep_by``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from pyiceberg.expressions import BooleanExpression, LessThan
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import TimeTransform
from pyiceberg.types import DateType, NestedField, TimestampType, TimestamptzType

from tabletopic_kernel.clients.catalog.catalog import lends_keys, reachable
from tabletopic_kernel.model.columns.evolution import METADATA
from tabletopic_kernel.model.errors import ActionNeededError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table.compaction.deleted_rows import Head

_DAY_MS: Final = 86_400_000
_HOUR_MS: Final = 3_600_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIMES: Final = (TimestampType, TimestamptzType, DateType)
_RECORD_TIME: Final = f"{METADATA}.timestamp"


@dataclass(frozen=True)
class OldRows:
    """Rows with a time in ``column`` before ``before_ms``. No time, or one in the future, is never before."""

    column: str
    field_id: int
    is_date: bool
    has_zone: bool
    before_ms: int

    @property
    def where(self) -> BooleanExpression:
        """The condition on a row."""
        moment = _EPOCH + timedelta(milliseconds=self.before_ms)
        text = moment.date().isoformat() if self.is_date else moment.replace(tzinfo=None).isoformat()
        return LessThan(term=self.column, value=f"{text}+00:00" if self.has_zone else text)

    def is_whole(self, file: DataFile) -> bool:
        """Whether a file has no other rows, by its metadata."""
        has_nulls = (file.null_value_counts or {}).get(self.field_id) != 0
        return not has_nulls and self._is_before((file.upper_bounds or {}).get(self.field_id))

    def may_be_in(self, file: DataFile) -> bool:
        """Whether a file may have such rows, by its metadata."""
        lower = (file.lower_bounds or {}).get(self.field_id)
        return lower is None or self._is_before(lower)

    def _is_before(self, bound: bytes | None) -> bool:
        if bound is None:
            return False
        value = int.from_bytes(bound, "little", signed=True)  # days, or µs
        return value < (self.before_ms // _DAY_MS if self.is_date else self.before_ms * 1000)

    def text(self, table: Table) -> tuple[bool, str]:
        """Whether a table may have such rows, and how many, by its metadata."""
        with reachable("the storage", lent=lends_keys(table)):
            files = [entry.data_file for entry in Head(table).data if self.may_be_in(entry.data_file)]
        whole = [file for file in files if self.is_whole(file)]
        rows = sum(file.record_count for file in whole)
        day = (_EPOCH + timedelta(milliseconds=self.before_ms)).strftime("%Y-%m-%d %H:%M UTC")
        old = f"whole files: {len(whole):,}, with {rows:,} rows; others: {len(files) - len(whole):,}"
        return bool(files), f"{self.column} before {day}: {old if files else 'none'}"


def old_rows(settings: TopicSettings, schema: Schema, spec: PartitionSpec, now_ms: int) -> OldRows | None:
    """What the settings keep no longer; None: they keep all. Raises ActionNeededError without such a column.

    The bound is the start of a day, or with less than two days of an hour: so a file is written anew at most
    once in that time.
    """
    if settings.keep_ms is None:
        return None
    column = _column(settings, schema, spec)
    is_date = isinstance(column.field_type, DateType)
    step = _DAY_MS if is_date or settings.keep_ms >= 2 * _DAY_MS else _HOUR_MS
    before_ms = (now_ms - settings.keep_ms) // step * step
    name, has_zone = schema.find_column_name(column.field_id), isinstance(column.field_type, TimestamptzType)
    assert name is not None
    return OldRows(name, column.field_id, is_date, has_zone, before_ms)


def _column(settings: TopicSettings, schema: Schema, spec: PartitionSpec) -> NestedField:
    """``keep_by``; else the first column that partitions by time, else the record's timestamp."""
    wanted = settings.keep_by
    if wanted is None:
        times = (field.source_id for field in spec.fields if isinstance(field.transform, TimeTransform))
        wanted = next(filter(None, map(schema.find_column_name, times)), _RECORD_TIME)
    try:
        column = schema.find_field(wanted)
    except ValueError:
        why = (
            "keep_by names no column of the table" if settings.keep_by else "no column says how old a row is"
        )
    else:
        if isinstance(column.field_type, _TIMES):
            return column
        why = f"keep_by must be a timestamp or a date, and is {column.field_type}"
    raise ActionNeededError(
        f"rows cannot be kept for a time: {why} ({wanted}); set another with `tabletopic alter TOPIC "
        "--keep-by COLUMN`"
    )
