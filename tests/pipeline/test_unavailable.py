"""Debezium's placeholders are found in every type that has one, and nothing else is."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pytest

from tabletopic_kernel.pipeline.transform.unavailable import columns_with_unavailable, unavailable

TEXT = "__debezium_unavailable_value"
BYTES = TEXT.encode()
UUID = uuid.UUID("b68a35a7-17ad-35b3-af2a-ae46edb4545a").bytes


@pytest.mark.parametrize(
    ("kind", "placeholder", "others"),
    [
        (pa.large_string(), TEXT, ["", "x" * 28, None]),
        (pa.string(), f'{{"{TEXT}":"{TEXT}"}}', [f'{{"{TEXT}":"y{TEXT[1:]}"}}']),
        (pa.string(), "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==", ["=" * 40]),
        (pa.large_binary(), BYTES, [b"x" * 28, None]),
        (pa.list_(pa.large_string()), [TEXT], [[], None, [TEXT, TEXT], ["x"], [None]]),
        (pa.list_(pa.int64()), list(BYTES), [list(BYTES[1:]), list(range(28)), None, [None]]),
        (pa.list_(pa.date32()), list(BYTES), [list(range(28))]),
        (pa.large_list(pa.binary(16)), [UUID], [[UUID[::-1]], [None], None]),
        (pa.map_(pa.string(), pa.string()), [(TEXT, TEXT)], [[("a", TEXT)], [], None]),
    ],
)
def test_a_placeholder_is_found(kind: pa.DataType, placeholder: Any, others: list[Any]) -> None:
    """Alone, also in a part of an array."""
    values = pa.array([*others, placeholder, *others, placeholder], kind)
    expected = [False] * len(others) + [True]
    assert unavailable(values).tolist() == expected * 2
    assert unavailable(values[len(expected) :]).tolist() == expected
    assert not unavailable(pa.array(others, kind)).any()


def test_columns_are_known_by_field_id() -> None:
    """Those with a placeholder; numbers have none."""
    fields = [
        pa.field(name, kind, metadata={"PARQUET:field_id": str(at)})
        for at, (name, kind) in enumerate((("n", pa.int64()), ("t", pa.string()), ("u", pa.string())), 7)
    ]
    rows = pa.record_batch([[1, 2], ["a", TEXT], ["a", "b"]], schema=pa.schema(fields))
    assert columns_with_unavailable(rows) == {8}
