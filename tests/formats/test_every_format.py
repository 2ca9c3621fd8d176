"""What holds for the decoders of all formats: slices, any number of records, bad ones among good ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from tabletopic_kernel.formats import driver
from tabletopic_kernel.formats.avro.decoder import AvroDecoder
from tabletopic_kernel.formats.json.decoder import JsonSchemaDecoder
from tabletopic_kernel.formats.protobuf.decoder import ProtobufDecoder
from tests.formats import avro_cases, json_cases, protobuf_cases, test_decode_avro, test_decode_json
from tests.formats import test_decode_protobuf as of_protobuf
from tests.formats.avro_cases import plain_rows, zigzag
from tests.formats.protobuf_cases import VARINT, moment, tag, text, varint


@dataclass(frozen=True)
class Form:
    """A format, with ``good`` records and their rows, and what makes a record bad, by reason.

    ``hopeless``: a bad record by its number, which the fast engine cannot tell from good ones beforehand.
    """

    decoder: Callable[[], Any]
    framed: Callable[..., pa.Array]
    good: Callable[[int], list[Any]]
    expected: Callable[[int], list[dict[str, Any]]]
    damages: dict[str, Callable[[Any], Any]]
    hopeless: list[Callable[[int], Any]]


def _with(tail: bytes) -> Callable[[bytes], bytes]:
    return lambda body: body + tail


def _always(body: str) -> Callable[[Any], str]:
    return lambda _: body


FORMS = {
    "avro": Form(
        lambda: AvroDecoder(test_decode_avro.STRING_AND_INT),
        avro_cases.framed,
        test_decode_avro.good,
        test_decode_avro.expected,
        {"avro_trailing_bytes": _with(b"!")},
        [lambda at: zigzag(1) + b"\xff" + zigzag(at)],
    ),
    "json": Form(
        lambda: JsonSchemaDecoder(test_decode_json.STRING_AND_INT),
        json_cases.framed,
        test_decode_json.good,
        test_decode_json.expected,
        {
            "json_syntax": _always('{"s": "x", "n": '),
            "json_type": _always('{"s": "x", "n": "1"}'),
            "json_out_of_range": _always('{"s": "x", "n": 1.5}'),
            "json_missing": _always('{"n": 1}'),
            "json_unknown_field": _always('{"s": "x", "more": 1}'),
            "json_duplicate_key": _always('{"s": "x", "n": 1, "s": "x"}'),
        },
        [*map(_always, ('{"s": 1}', '{"s": "a", "n": 1.5}', '{"s": "a"', '{"s": "a", "x": 1}'))],
    ),
    "protobuf": Form(
        lambda: ProtobufDecoder(of_protobuf.CLICK),
        protobuf_cases.framed,
        of_protobuf.good,
        of_protobuf.expected,
        {
            "protobuf_truncated": _with(b"\x0a\x05ab"),
            "protobuf_wire_type": _with(text(2, "1")),
            "protobuf_utf8": _with(text(1, b"\xff")),
            "protobuf_out_of_range": _with(text(4, moment(2**40, 0))),
            "protobuf_sub_micros": _with(text(4, moment(0, 1))),
            "protobuf_varint": _with(tag(2, VARINT) + b"\xff" * 11),
            "protobuf_tag": _with(b"\x07"),
        },
        [lambda at: text(1, b"\xff") + tag(2, VARINT) + varint(at)],
    ),
}
REASONS = [(name, reason) for name, form in FORMS.items() for reason in form.damages]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
@pytest.mark.parametrize("name", FORMS)
def test_slices_are_read_from_their_offset(name: str, kind: pa.DataType) -> None:
    """A slice of an array gives the rows of the slice, whatever the offsets' width."""
    form, decoder = FORMS[name], FORMS[name].decoder()
    values = form.framed(*form.good(400)).cast(kind)
    for start, length in ((0, 400), (0, 100), (7, 100), (399, 1), (7, 3), (400, 0)):
        batch, refused = decoder.decode(values.slice(start, length))
        assert refused == []
        assert plain_rows(batch) == form.expected(400)[start : start + length]


@pytest.mark.parametrize("name", FORMS)
def test_any_number_of_records(name: str) -> None:
    """No record, one, enough for the fast engine, and several groups give that many rows."""
    form, decoder = FORMS[name], FORMS[name].decoder()
    for count in (0, 1, decoder.fast.min_records, 2 * 8_192 + 1):
        batch, refused = decoder.decode(form.framed(*form.good(count)))
        assert refused == []
        assert batch.schema.equals(decoder.arrow_schema, check_metadata=True)
        assert plain_rows(batch) == form.expected(count)


@pytest.mark.parametrize(("name", "reason"), REASONS)
@pytest.mark.parametrize("bad", [[0], [250], [499], [3, 4, 5], list(range(0, 500, 7)), list(range(500))])
def test_bad_records_are_named_and_their_neighbours_stay(bad: list[int], name: str, reason: str) -> None:
    """Refused records come back by their index, all others as rows in their order."""
    form, bodies = FORMS[name], FORMS[name].good(500)
    for i in bad:
        bodies[i] = form.damages[reason](bodies[i])
    batch, refused = form.decoder().decode(form.framed(*bodies))
    assert [r.index for r in refused] == bad
    assert {r.reason for r in refused} == {reason}
    assert plain_rows(batch) == [row for i, row in enumerate(form.expected(500)) if i not in set(bad)]


@pytest.mark.parametrize("name", FORMS)
def test_a_group_beyond_32_bit_offsets_is_halved(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """More bytes than one Arrow offset can count are read in several groups."""
    form = FORMS[name]
    monkeypatch.setattr(driver, "MAX_GROUP_BYTES", 1500)
    batch, refused = form.decoder().decode(form.framed(*form.good(400)))
    assert refused == []
    assert plain_rows(batch) == form.expected(400)
