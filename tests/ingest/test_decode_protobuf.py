"""Protobuf values to Arrow rows: both engines on good records, and the choice between them."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings

from tabletopic_kernel.ingest.decode_protobuf import ProtobufDecoder
from tests.ingest.avro_cases import plain_rows
from tests.ingest.protobuf_cases import (
    SCHEMA_ID,
    encoded,
    framed,
    records,
)

SCALE = int(os.environ.get("TABLETOPIC_FUZZ", "1"))  # more of the same, for nights
CALM = settings(
    deadline=None, derandomize=SCALE == 1, max_examples=100 * SCALE, suppress_health_check=list(HealthCheck)
)


def fast_batch(decoder: ProtobufDecoder, values: pa.Array) -> pa.RecordBatch:
    """The fast engine's rows of all values, all of them proved; raises NotRows."""
    assert decoder._fast is not None
    batch, unproved, odd = decoder._fast.decode(values, 1)
    assert not unproved.any()
    assert not odd.any()
    return batch


def exact_batch(decoder: ProtobufDecoder, values: pa.Array) -> pa.RecordBatch:
    """The exact engine's rows of all values; raises Refusal."""
    return decoder._exact.batch([decoder._exact.row(value[6:]) for value in values.to_pylist()])


@CALM
@given(records())
def test_both_engines_give_the_rows_of_the_specification(drawn: Any) -> None:
    """Whatever the schema, the fast engine, the exact engine and the specification say the same."""
    file, wires = drawn
    decoder = ProtobufDecoder(SCHEMA_ID, encoded(file))
    assert decoder.fast_refusal is None
    values = framed(*(wire.body for wire in wires))
    for batch in (fast_batch(decoder, values), exact_batch(decoder, values)):
        batch.validate(full=True)
        assert batch.schema.equals(decoder.arrow_schema, check_metadata=True)
        assert plain_rows(batch) == [wire.row for wire in wires]
