"""Fitting decoded columns to a table's schema."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tabletopic_kernel.model.ledger import CLOCK_TOLERANCE_MS, Outliers
from tabletopic_kernel.pipeline.conform import conform, fitted, note_newest

INNER = pa.struct([pa.field("x", pa.int32(), nullable=False), pa.field("u", pa.binary(16), nullable=False)])
INNER_WIDE = pa.struct(
    [
        pa.field("x", pa.int64(), nullable=False),
        pa.field("u", pa.binary(16), nullable=False),
        pa.field("new", pa.float64()),
    ]
)
U = b"0123456789abcdef"


def _conform(values: list[Any], kind: pa.DataType, target: pa.DataType, *, skip: int = 0) -> list[Any]:
    array = pa.array(values, kind)[skip:]
    schema = pa.schema([pa.field("c", target)])
    batch = conform({"c": array}, len(array), schema)
    batch.validate(full=True)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_batches([batch]), sink)  # Parquet has opinions on required fields
    read = pq.read_table(pa.BufferReader(sink.getvalue()))["c"].to_pylist()
    assert read == batch["c"].to_pylist()
    return read


@pytest.mark.parametrize("skip", [0, 1, 3])
@pytest.mark.parametrize(
    ("values", "kind", "target"),
    [
        ([1, None, 3, 4], pa.int32(), pa.int64()),
        ([1.5, None, 2.5, 0.0], pa.float32(), pa.float64()),
        ([{"x": 1, "u": U}, None, {"x": 2, "u": U}, None], INNER, INNER_WIDE),
        (
            [[{"x": 1, "u": U}], None, [], [{"x": 2, "u": U}, None]],
            pa.large_list(INNER),
            pa.large_list(INNER_WIDE),
        ),
        (
            [[("k", {"x": 1, "u": U})], None, [], [("a", None), ("b", {"x": 3, "u": U})]],
            pa.map_(pa.large_string(), INNER),
            pa.map_(pa.large_string(), INNER_WIDE),
        ),
    ],
)
def test_widening_and_missing_fields_at_every_depth(
    values: list[Any], kind: pa.DataType, target: pa.DataType, skip: int
) -> None:
    """Types widen, missing fields become null, nulls stay nulls and empty stays empty, also in slices."""
    found = _conform(values, kind, target, skip=skip)

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            kept = {k: plain(v) for k, v in value.items() if k != "new"}
            assert value.get("new") is None
            return kept
        if isinstance(value, list | tuple):
            return type(value)(plain(one) for one in value)
        return value.bytes if hasattr(value, "bytes") else value

    assert plain(found) == values[skip:]


def test_a_missing_struct_with_required_fields() -> None:
    """A column of structs that a writer lacks is null although its fields are required."""
    schema = pa.schema([pa.field("a", pa.int64()), pa.field("c", INNER_WIDE)])
    batch = conform({"a": pa.array([1, 2])}, 2, schema)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_batches([batch]), sink)
    assert pq.read_table(pa.BufferReader(sink.getvalue()))["c"].to_pylist() == [None, None]


def test_a_required_field_that_is_null_is_refused() -> None:
    """A real violation is an error, never a silent zero."""
    array = pa.StructArray.from_arrays([pa.array([1, None])], names=["x"])
    target = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    with pytest.raises(pa.ArrowInvalid, match="required"):
        conform({"c": array}, 2, pa.schema([pa.field("c", target)]))


@pytest.mark.parametrize(("value", "target"), [(2**40, pa.int32()), (1.5, pa.int64())])
def test_lossy_casts_are_refused(value: Any, target: pa.DataType) -> None:
    """Nothing is cut off or rounded."""
    with pytest.raises(pa.ArrowInvalid):
        conform({"c": pa.array([value])}, 1, pa.schema([pa.field("c", target)]))


def test_unknown_columns_are_an_error() -> None:
    """A column that the table has not would vanish."""
    with pytest.raises(ValueError, match="no columns"):
        conform({"d": pa.array([1])}, 1, pa.schema([pa.field("c", pa.int64())]))


def test_a_required_uuid_below_a_missing_struct() -> None:
    """Extension types are rebuilt by their storage."""
    kind = pa.struct([pa.field("u", pa.uuid(), nullable=False)])
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([U, None], pa.binary(16)))
    array = pa.StructArray.from_arrays([uuids], names=["u"], mask=pa.array([False, True]))
    batch = conform({"c": array}, 2, pa.schema([pa.field("c", kind)]))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_batches([batch]), sink)
    assert batch["c"].is_null().to_pylist() == [False, True]


def test_a_part_has_nothing_of_the_others() -> None:
    """What does not fit in a list or map of one row is no reason to refuse its neighbours."""
    lists = pa.array([[1.0], [2.5], [3.0]], pa.large_list(pa.float64()))
    maps = pa.array([[("a", 1.0)], [("a", 2.5)], [("a", 3.0)]], pa.map_(pa.string(), pa.float64()))
    target = pa.schema([("l", pa.large_list(pa.int64())), ("m", pa.map_(pa.string(), pa.int64()))])
    columns = {"l": lists, "m": maps}
    with pytest.raises(pa.ArrowInvalid):
        conform(columns, 3, target)
    parts, refused = fitted(columns, 3, target)
    assert [(list(part), rows.to_pylist()) for part, rows in parts] == [
        ([at], [{"l": [value], "m": [("a", value)]}]) for at, value in ((0, 1), (2, 3))
    ]
    assert [(one.index, one.reason) for one in refused] == [(1, "does_not_fit")]


def test_records_of_the_future_are_counted_and_not_the_newest() -> None:
    """The newest record is the newest that our clock believes; the last of the others is named."""
    now = 1_700_000_000_000
    ahead = now + CLOCK_TOLERANCE_MS + 1
    stamps = [now - 5, ahead, now + CLOCK_TOLERANCE_MS, ahead + 1, 1]
    columns = {
        "partition": pa.array([0, 0, 1, 0, 2], pa.int32()),
        "offset": pa.array([1, 2, 3, 4, 5]),
        "timestamp": pa.array([1_000 * stamp for stamp in stamps], pa.timestamp("us", "UTC")),
    }
    batch = pa.RecordBatch.from_pydict(columns)
    newest: dict[int, int] = {2: 9}
    outliers: dict[int, Outliers] = {0: Outliers(1, 0, ahead)}
    note_newest(batch, now, newest, outliers)
    assert newest == {0: now - 5, 1: now + CLOCK_TOLERANCE_MS, 2: 9}
    assert outliers == {0: Outliers(3, 4, ahead + 1)}
