"""The walk over all records at once: it suspects truncated or shifted ones, and no valid ones."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tabletopic_kernel.formats.arrays import Bodies
from tabletopic_kernel.formats.avro.decoder import AvroDecoder
from tabletopic_kernel.formats.avro.prefilter import Prefilter
from tabletopic_kernel.formats.avro.schema import parse
from tabletopic_kernel.formats.wire import PREFIX_BYTES
from tests.formats.avro_cases import framed, plain_rows, row_schema, rows, zigzag

CALM = settings(max_examples=60)


def suspects(schema: Any, values: pa.Array) -> list[bool] | None:
    """The prefilter's result for each value."""
    found = Prefilter(parse(json.dumps(schema))).suspects(Bodies(values, PREFIX_BYTES))
    return None if found is None else found.tolist()


@CALM
@given(rows(), st.data())
def test_valid_records_are_no_suspects_and_cut_ones_are(drawn: Any, data: st.DataObject) -> None:
    """A record that lacks bytes ends elsewhere, whatever its schema; its neighbours are not suspected."""
    case, pairs = drawn
    bodies = [body for body, _ in pairs]
    found = suspects(case.schema, framed(*bodies))
    assert found in (None, [False] * len(bodies))
    assume(found and any(bodies))
    at = data.draw(st.sampled_from([index for index, body in enumerate(bodies) if body]))
    bodies[at] = bodies[at][:-1]
    assert suspects(case.schema, framed(*bodies)) == [index == at for index in range(len(bodies))]


@CALM
@given(rows(), st.lists(st.binary(max_size=30), min_size=1, max_size=20))
def test_it_survives_any_bytes(drawn: Any, bodies: list[bytes]) -> None:
    """Whatever the bytes are, there is an answer for each record."""
    found = suspects(drawn[0].schema, framed(*bodies))
    assert found is None or len(found) == len(bodies)


def test_long_lists_are_left_to_others() -> None:
    """A walk takes a step for each item, so it is not worth it for long lists, nor for counts that lie."""
    schema = json.loads(row_schema({"type": "array", "items": "null"}))
    assert suspects(schema, framed(zigzag(2**40) + b"\x00")) is None
    assert suspects(schema, framed(zigzag(3) + b"\x00")) == [False]


@pytest.mark.parametrize("share", [2, 7, 100])
def test_bad_records_in_a_large_group(monkeypatch: pytest.MonkeyPatch, share: int) -> None:
    """The rows are in the order of the values; suspects that the exact engine takes are in their places."""
    schema = row_schema("string", "int")
    values = [zigzag(3) + b"abc" + zigzag(at) for at in range(1_000)]
    bad = [value[:-1] if at % share == 0 else value for at, value in enumerate(values)]
    batch, refused = AvroDecoder(schema).decode(framed(*bad))
    kept = [at for at in range(1_000) if at % share]
    assert [row["f1"] for row in plain_rows(batch)] == kept
    assert sorted(one.index for one in refused) == [at for at in range(1_000) if at % share == 0]

    def too_strict(*_: Any) -> np.ndarray:
        return np.arange(1_000) % 3 == 0

    monkeypatch.setattr(Prefilter, "suspects", too_strict)
    batch, refused = AvroDecoder(schema).decode(framed(*bad))
    assert [row["f1"] for row in plain_rows(batch)] == kept
    assert len(refused) == 1_000 - len(kept)
