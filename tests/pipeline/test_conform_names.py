"""Fields under other names, at every depth, without a change of value."""

from __future__ import annotations

import pyarrow as pa

from tabletopic_kernel.pipeline.conform import rename

INNER = pa.struct([("x", pa.int32()), ("y", pa.large_string())])
COLUMNS = {
    "a": pa.array([1, None, 3], pa.int32()),
    "s": pa.array([{"x": 1, "y": "p"}, None, {"x": None, "y": "q"}], INNER),
    "l": pa.array([[{"x": 1, "y": "p"}, None], None, []], pa.large_list(INNER)),
    "m": pa.array([[("k", {"x": 1, "y": "p"})], None, []], pa.map_(pa.large_string(), INNER)),
}


def test_names_change_and_values_stay() -> None:
    """Columns, fields of structs, of list elements and of map values get their new names."""
    renames = {"a": "a_int", "s.x": "x_int", "l.element.x": "x_int", "m.value.y": "y_string"}
    found = rename(COLUMNS, renames)
    assert found["a_int"].equals(COLUMNS["a"])
    assert found["s"].to_pylist() == [{"x_int": 1, "y": "p"}, None, {"x_int": None, "y": "q"}]
    assert found["l"].to_pylist() == [[{"x_int": 1, "y": "p"}, None], None, []]
    assert found["m"].to_pylist() == [[("k", {"x": 1, "y_string": "p"})], None, []]


def test_slices_keep_their_rows() -> None:
    """Arrays that begin in the middle of their buffers are no exception."""
    sliced = {name: array.slice(2, 1) for name, array in COLUMNS.items()}
    found = rename(sliced, {"s.x": "x_int", "l.element.x": "x_int"})
    assert found["s"].to_pylist() == [{"x_int": None, "y": "q"}]
    assert found["l"].to_pylist() == [[]]


def test_without_renames_nothing_is_touched() -> None:
    """The same arrays come back."""
    assert all(rename(COLUMNS, {})[name] is array for name, array in COLUMNS.items())
