"""Statistics of data files from their Parquet footers, the same as PyIceberg's, for a third of the CPU time.

PyIceberg looks up modes and converters for each column of each file, which takes as long as to write a file
of some rows. To be needless, PyIceberg would have to do that once per schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import MetricModeTypes, StatisticsCollector
from pyiceberg.types import BinaryType, DecimalType, FixedType, PrimitiveType, StringType, UUIDType
from pyiceberg.utils.decimal import unscaled_to_decimal
from pyiceberg.utils.truncate import truncate_upper_bound_binary_string, truncate_upper_bound_text_string

_TRUNCATED: Final[dict[type[PrimitiveType], Callable[[Any, int | None], Any]]] = {
    StringType: truncate_upper_bound_text_string,
    BinaryType: truncate_upper_bound_binary_string,
}


class Footers:
    """Reads footers of files of one schema; ``metrics`` by field id, field ids by ``paths`` in Parquet."""

    def __init__(self, metrics: Mapping[int, StatisticsCollector], paths: Mapping[str, int]) -> None:
        self._columns = {path: _Column(metrics[field_id]) for path, field_id in paths.items()}

    def statistics(self, footer: pq.FileMetaData) -> dict[str, Any]:
        """Arguments of a ``DataFile``."""
        sizes: dict[int, int] = {}
        values: dict[int, int] = {}
        nulls: dict[int, int] = {}
        bounds: dict[int, tuple[_Column, Any, Any]] = {}
        unknown: set[int] = set()
        for group in map(footer.row_group, range(footer.num_row_groups)):
            for chunk in map(group.column, range(group.num_columns)):
                column = self._columns[chunk.path_in_schema]
                key = column.field_id
                sizes[key] = sizes.get(key, 0) + chunk.total_compressed_size
                if not column.counts:
                    continue
                values[key] = values.get(key, 0) + chunk.num_values
                if not chunk.is_stats_set:
                    unknown.add(key)
                    continue
                statistics = chunk.statistics
                if statistics.has_null_count:
                    nulls[key] = nulls.get(key, 0) + statistics.null_count
                if not column.bounds or not statistics.has_min_max:
                    continue
                try:
                    low, high = column.ends(statistics)
                except pa.ArrowNotImplementedError:
                    unknown.add(key)
                    continue
                _, lowest, highest = bounds.get(key, (column, low, high))
                bounds[key] = column, min(low, lowest), max(high, highest)
        known = [(key, bound) for key, bound in bounds.items() if key not in unknown]
        uppers = ((key, column.upper(high)) for key, (column, _, high) in known)
        return {
            "record_count": footer.num_rows,
            "column_sizes": sizes,
            "value_counts": values,
            "null_value_counts": {key: count for key, count in nulls.items() if key not in unknown},
            "nan_value_counts": {},
            "lower_bounds": {key: column.lower(low) for key, (column, low, _) in known},
            "upper_bounds": {key: upper for key, upper in uppers if upper is not None},
            "split_offsets": sorted(map(_begin, map(footer.row_group, range(footer.num_row_groups)))),
        }


def _begin(group: pq.RowGroupMetaData) -> int:
    first = group.column(0)
    data: int = first.data_page_offset
    return min(data, first.dictionary_page_offset) if first.has_dictionary_page else data


class _Column:
    def __init__(self, collector: StatisticsCollector) -> None:
        kind, mode = collector.iceberg_type, collector.mode
        self.field_id = collector.field_id
        self.counts = mode.type is not MetricModeTypes.NONE
        self.bounds = mode.type in (MetricModeTypes.TRUNCATE, MetricModeTypes.FULL)
        self._scale = kind.scale if isinstance(kind, DecimalType) else 0
        self._is_decimal = isinstance(kind, DecimalType)
        # The rest are numbers, in Parquet as in Iceberg's bounds.
        self._is_bytes = isinstance(kind, StringType | BinaryType | FixedType | UUIDType)
        self._packed: Callable[[Any], bytes] = partial(to_bytes.dispatch(type(kind)), kind)
        self._length = mode.length
        self._truncated = _TRUNCATED.get(type(kind))

    def ends(self, statistics: pq.Statistics) -> tuple[Any, Any]:
        """The least and the greatest value of a column chunk."""
        if self._is_bytes or (self._is_decimal and statistics.physical_type == "FIXED_LEN_BYTE_ARRAY"):
            return statistics.min, statistics.max
        if self._is_decimal:
            return unscaled_to_decimal(statistics.min_raw, self._scale), unscaled_to_decimal(
                statistics.max_raw, self._scale
            )
        return statistics.min_raw, statistics.max_raw

    def lower(self, value: Any) -> bytes:
        """The lower bound in a manifest."""
        return self._packed(value if self._length is None else value[: self._length])

    def upper(self, value: Any) -> bytes | None:
        """The upper bound in a manifest; None: no short one exists."""
        if self._truncated is not None:
            value = self._truncated(value, self._length)
        return None if value is None else self._packed(value)
