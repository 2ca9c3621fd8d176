"""All formats: both engines, PyIceberg and DuckDB agree about the same records.

Schemas and values are generated (``*_cases.py``), from the specifications and without the package. The fast
engine's rows and the exact one's are compared with the specification's, then both are written to a data file
as if staged, and what PyIceberg and DuckDB read from there is compared again.

For a night: ``TABLETOPIC_FUZZ=50 pytest tests/formats/test_conformance.py``.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema

from tabletopic_kernel.formats.avro.decoder import AvroDecoder
from tabletopic_kernel.formats.decoder import Decoder
from tabletopic_kernel.formats.json.decoder import JsonSchemaDecoder
from tabletopic_kernel.formats.json.types import REST
from tabletopic_kernel.formats.protobuf.decoder import ProtobufDecoder
from tabletopic_kernel.formats.rejection import NotRows
from tests.formats import avro_cases, json_cases, protobuf_cases, test_decode_avro, test_decode_json
from tests.formats import test_decode_protobuf as of_protobuf
from tests.formats.avro_cases import plain_rows
from tests.formats.damage import SCALE
from tests.formats.lake import as_pyiceberg_reads, duckdb_rows, written
from tests.formats.test_infer_json import RECORDS, settled, texts

Row = dict[str, Any]


@dataclass(frozen=True)
class Sample:
    """Records of one schema.

    Args:
        decoder: of their schema.
        values: as in Kafka.
        wanted: the rows according to the specification, in the form of ``plain_rows``.
        exact: the exact engine's rows.
        fast: the fast engine's rows by position, those that it vouches for.
    """

    decoder: Decoder
    values: pa.Array
    wanted: list[Row]
    exact: pa.RecordBatch
    fast: dict[int, Row]


def _by_position(batch: pa.RecordBatch) -> dict[int, Row]:
    batch.validate(full=True)
    return dict(enumerate(plain_rows(batch)))


@st.composite
def _avro(draw: st.DrawFn) -> Sample:
    case, pairs = draw(avro_cases.rows(max_records=8))
    decoder = AvroDecoder(json.dumps(case.schema))
    values = avro_cases.framed(*(raw for raw, _ in pairs))
    fast: dict[int, Row] = {}
    if decoder.fast_refusal is None:
        fast = _by_position(test_decode_avro.fast_batch(decoder, values))
        assert len(fast) == len(values)
    else:
        assert "take no bytes" in decoder.fast_refusal or "contains itself" in decoder.fast_refusal
    exact = test_decode_avro.exact_batch(decoder, values)
    return Sample(decoder, values, [value for _, value in pairs], exact, fast)


@st.composite
def _protobuf(draw: st.DrawFn) -> Sample:
    file, wires = draw(protobuf_cases.records())
    decoder = ProtobufDecoder(protobuf_cases.encoded(file))
    assert decoder.fast_refusal is None
    values = protobuf_cases.framed(*(wire.body for wire in wires))
    fast = _by_position(of_protobuf.fast_batch(decoder, values))
    exact = of_protobuf.exact_batch(decoder, values)
    return Sample(decoder, values, [wire.row for wire in wires], exact, fast)


def _vouched(decoder: Any, values: pa.Array) -> dict[int, Row]:
    """The fast JSON engine's rows; it leaves some to the exact one, such as 1.0 among decimals."""
    if decoder.fast is None:
        return {}
    with contextlib.suppress(NotRows):
        found = test_decode_json.fast_rows(decoder, values)
        assert found.suspects is not None
        sure = np.flatnonzero(~found.suspects).tolist()
        return {at: plain_rows(found.batch.slice(at, 1))[0] for at in sure}
    return {}


@st.composite
def _json_schema(draw: st.DrawFn) -> Sample:
    schema, drawn = draw(json_cases.rows())
    decoder = JsonSchemaDecoder(json.dumps(schema))
    values = json_cases.framed(*(value.text for value in drawn))
    rest = json_cases.may_leave(schema)
    assert (REST in decoder.arrow_schema.names) == rest
    wanted = [value.plain | ({REST: value.left} if rest else {}) for value in drawn]
    exact = test_decode_json.exact_batch(decoder, values)
    return Sample(decoder, values, wanted, exact, _vouched(decoder, values))


@st.composite
def _json(draw: st.DrawFn) -> Sample:
    """What the rows shall be is told by ``test_rows_and_rest_together_are_the_records``."""
    values = texts(*map(json.dumps, [*draw(RECORDS), {"always": 1}]))
    decoder, _ = settled(Schema(), values)
    exact = test_decode_json.exact_batch(decoder, values)
    wanted = [_told(row) for row in plain_rows(exact)]
    return Sample(decoder, values, wanted, exact, _vouched(decoder, values))


FORMATS: dict[str, Callable[[], st.SearchStrategy[Sample]]] = {
    "avro": _avro,
    "protobuf": _protobuf,
    "json_schema": _json_schema,
    "json": _json,
}


def _told(row: Row) -> Row:
    """A row with the rest of a JSON record parsed: its spelling is not the specification's."""
    return {k: json.loads(v) if k == REST and v is not None else v for k, v in row.items()}


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    """DuckDB, in UTC."""
    made = duckdb.connect()
    made.execute("SET TimeZone = 'UTC'")
    return made


@settings(
    max_examples=30 * SCALE,
    report_multiple_bugs=False,
)
@given(data=st.data())
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.timeout(300 * SCALE)
def test_engines_and_readers_say_the_same(
    name: str, connection: duckdb.DuckDBPyConnection, data: st.DataObject
) -> None:
    """Whatever the schema and the values: fast = exact = specification = PyIceberg = DuckDB."""
    sample = data.draw(FORMATS[name]())
    decoder, wanted = sample.decoder, sample.wanted
    schema = decoder.iceberg_schema
    for at, row in sample.fast.items():
        assert _told(row) == wanted[at]
    times = 50 // len(wanted) + 1  # so that the fast engine is asked
    chosen, refused = decoder.decode(pa.concat_arrays([sample.values] * times))
    assert refused == []
    for rows, expected in ((sample.exact, wanted), (chosen, wanted * times)):
        rows.validate(full=True)
        assert rows.schema.equals(decoder.arrow_schema, check_metadata=True)
        assert [_told(row) for row in plain_rows(rows)] == expected
        with written(schema, rows) as file:
            by_pyiceberg = [_told(row) for row in plain_rows(file.by_pyiceberg())]
            by_duckdb = [_told(row) for row in duckdb_rows(file.by_duckdb(connection), schema)]
        assert by_duckdb == expected
        assert by_pyiceberg == as_pyiceberg_reads(expected, schema)
