"""The column ``_cdc``: what a change event of Debezium says of the change, beside the row.

``lsn`` orders the changes of a database: the larger is the later. Each connector has another position for
that (Debezium's documentation of each, "Change event values"): PostgreSQL's ``lsn``, which rows of an
incremental snapshot lack and ``sequence`` has; MySQL's ``pos``, which begins again in each ``file``; Oracle's
``scn``, a number as text. SQL Server's, of 80 bits, is none.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema

from tabletopic_kernel.formats.arrays import MAX_DAY, MILLIS_PER_DAY, MIN_DAY, arrow_schema_of
from tabletopic_kernel.pipeline.transform.columns import CDC_STRUCT, SOURCE, TRANSACTION, TS

_TYPE = arrow_schema_of(Schema(*CDC_STRUCT.fields))
_TEXT, _LONG = pa.large_string(), pa.int64()
_DOT = pa.scalar(".", _TEXT)
_MIN_MS, _MAX_MS = MIN_DAY * MILLIS_PER_DAY, (MAX_DAY + 1) * MILLIS_PER_DAY - 1
_WHOLE = r"^(?P<number>[0-9]{1,18})$"
_SECOND = r'^\[[^,]*, *"?(?P<number>[0-9]{1,18})"?\]$'  # of PostgreSQL's sequence
_FILE_NUMBER = r"\.(?P<number>[0-9]{1,9})$"  # of MySQL's, such as binlog.000003
_POS_BITS = 32  # of a position in MySQL's files


def cdc_column(batch: pa.RecordBatch, offsets: pa.Array, words: pa.Array) -> pa.StructArray:
    """The column for events, the ``offsets`` of their records, and the ``words`` for what they did."""
    source, transaction = _Fields(batch, SOURCE), _Fields(batch, TRANSACTION)
    db, schema, table = (source.get(name, _TEXT) for name in ("db", "schema", "table"))
    columns = {
        "op": words,
        "ts": _time(_millis(batch)),
        "offset": offsets,
        "source": pc.binary_join_element_wise(pc.coalesce(schema, db), table, _DOT),
        "source_ts": _time(source.get(TS, _LONG)),
        "lsn": _position(source),
        "tx_id": _first(
            source.get("txId", _LONG).cast(_TEXT),
            lambda: source.get("txId", _TEXT),
            lambda: transaction.get("id", _TEXT),
        ),
        "tx_order": transaction.get("total_order", _LONG),
        "snapshot": source.get("snapshot", _TEXT),
    }
    arrays = [columns[field.name].cast(field.type) for field in _TYPE]
    return pa.StructArray.from_arrays(arrays, fields=list(_TYPE))


class _Fields:
    """The fields of a struct of events, if it is one."""

    def __init__(self, batch: pa.RecordBatch, name: str) -> None:
        self._count, self._arrays = len(batch), dict[str, pa.Array]()
        if name in batch.schema.names and pa.types.is_struct(batch.schema.field(name).type):
            struct = batch.column(name)
            names = (field.name for field in struct.type)
            self._arrays = dict(zip(names, struct.flatten(), strict=True))

    def get(self, name: str, kind: pa.DataType) -> pa.Array:
        """A field; nulls if there is none of that type."""
        array = self._arrays.get(name)
        if array is not None and _is_like(array.type, kind):
            return array.cast(kind)
        return pa.nulls(self._count, kind)


def bad_times(batch: pa.RecordBatch) -> np.ndarray:
    """Which events have a time that no column can hold."""
    bad = np.zeros(len(batch), np.bool_)
    for millis in (_millis(batch), _Fields(batch, SOURCE).get(TS, _LONG)):
        ends = pc.min_max(millis)
        if ends["min"].is_valid and (ends["min"].as_py() < _MIN_MS or ends["max"].as_py() > _MAX_MS):
            numbers = pc.fill_null(millis, 0).to_numpy(zero_copy_only=False)
            bad |= (numbers < _MIN_MS) | (numbers > _MAX_MS)
    return bad


def _position(source: _Fields) -> pa.Array:
    return _first(
        source.get("lsn", _LONG),
        lambda: _number(source.get("sequence", _TEXT), _SECOND),
        lambda: _in_files(source.get("file", _TEXT), source.get("pos", _LONG)),
        lambda: _number(source.get("scn", _TEXT), _WHOLE),
        lambda: _number(source.get("change_lsn", _TEXT), _WHOLE),
    )


def _first(array: pa.Array, *others: Callable[[], pa.Array]) -> pa.Array:
    """The first value of each row; ``others`` are only computed while some are missing."""
    for other in others:
        if not array.null_count:
            break
        array = pc.coalesce(array, other())
    return array


def _number(texts: pa.Array, pattern: str) -> pa.Array:
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), _LONG)
    return pc.extract_regex(texts, pattern).flatten()[0].cast(_LONG)


def _in_files(files: pa.Array, positions: pa.Array) -> pa.Array:
    """Positions in numbered files as numbers that grow from file to file."""
    return pc.add(pc.shift_left(_number(files, _FILE_NUMBER), _POS_BITS), positions)


def _millis(batch: pa.RecordBatch) -> pa.Array:
    if TS in batch.schema.names and _is_like(batch.schema.field(TS).type, _LONG):
        return batch.column(TS).cast(_LONG)
    return pa.nulls(len(batch), _LONG)


def _is_like(kind: pa.DataType, wanted: pa.DataType) -> bool:
    return bool(kind == wanted or (pa.types.is_integer(kind) and pa.types.is_integer(wanted)))


def _time(millis: pa.Array) -> pa.Array:
    return pc.multiply(millis, 1000).cast(pa.timestamp("us", "UTC"))
