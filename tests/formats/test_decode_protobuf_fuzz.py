"""Damaged bytes between good records: the exact engine judges, nothing hangs, neighbours stay whole."""

from __future__ import annotations

import random
import time
from typing import Any

import psutil
import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from tabletopic_kernel.formats.arrays import Bodies
from tabletopic_kernel.formats.protobuf.decoder import ProtobufDecoder
from tabletopic_kernel.formats.protobuf.schema.protoc import compile_schema
from tabletopic_kernel.formats.protobuf.schema.tree import load
from tabletopic_kernel.formats.rejection import NotRows, Refusal
from tabletopic_kernel.formats.wire import PREFIX_BYTES
from tests.formats.avro_cases import plain_rows
from tests.formats.damage import SCALE, Damage, byte, cut, cut_front, flip, grow, insert, swap
from tests.formats.protobuf_cases import (
    BYTES,
    FIXED32,
    FIXED64,
    VARINT,
    encoded,
    framed,
    moment,
    records,
    tag,
    text,
    varint,
)
from tests.formats.test_decode_protobuf import exact_batch


def _number(rng: random.Random, _raw: bytes) -> bytes:
    giants = [2**63 - 1, -1, -(2**63), 2**64 - 9, 2**60, 2**31, 2**32 - 1, 2**32, 2**35 + 8, 10**6]
    return varint(rng.choice(giants))


def _bad_varint(rng: random.Random, _raw: bytes) -> bytes:
    return rng.choice(
        [b"\xff" * 9 + b"\x7f", b"\xff" * 10 + b"\x01", b"\x80\x00", b"\x88\x80\x80\x80\x80\x00"]
    )


def _strange_field(rng: random.Random, _raw: bytes) -> bytes:
    number = rng.choice([1, 2, 3, 9, 24, 2**29 - 1, 2**29, 2**32 + 1])
    wire = rng.randrange(8)
    content = {VARINT: b"\x01", FIXED64: b"12345678", BYTES: text(1, "x")[1:], FIXED32: b"1234"}
    return tag(number, wire) + content.get(wire, b"")


def _twice(_rng: random.Random, raw: bytes) -> bytes:
    return raw


def _nested(rng: random.Random, raw: bytes) -> bytes:
    number = rng.randint(1, 24)
    for _ in range(rng.choice([1, 2, 60, 200])):
        raw = text(number, raw)
    return raw


DAMAGES: list[Damage] = [
    cut,
    cut_front,
    grow,
    flip,
    flip,
    byte,
    byte,
    swap,
    _nested,
    insert(_number),
    insert(_bad_varint),
    insert(_strange_field),
    insert(_strange_field),
    insert(_twice),
    insert(lambda rng, _: rng.randbytes(rng.randint(1, 8))),
]


def _verdict(decoder: ProtobufDecoder, raw: bytes) -> list[dict[str, Any]]:
    try:
        return plain_rows(exact_batch(decoder, framed(raw)))
    except Refusal:
        return []


def _check(decoder: ProtobufDecoder, bodies: list[bytes]) -> None:
    """The fast engine vouches for rows that are the exact engine's, and for no others."""
    assert decoder.fast is not None
    try:
        batch, suspects = decoder.fast.rows(Bodies(framed(*bodies), PREFIX_BYTES + 1))
    except NotRows:
        return
    assert suspects is not None
    vouched = [body for body, bad in zip(bodies, suspects, strict=True) if not bad]
    assert plain_rows(batch.filter(pa.array(~suspects))) == [
        row for body in vouched for row in _verdict(decoder, body)
    ]


@settings(max_examples=60 * SCALE)
@given(records(max_records=6), st.randoms(use_true_random=False))
@pytest.mark.timeout(300 * SCALE)
def test_the_fast_engine_takes_nothing_that_the_exact_one_refuses(drawn: Any, rng: random.Random) -> None:
    """On damaged records of any schema the fast engine gives the exact engine's rows or leaves them to it."""
    file, wires = drawn
    decoder = ProtobufDecoder(encoded(file))
    good = [wire.body for wire in wires]
    for _ in range(20):
        bad = rng.choice(DAMAGES)(rng, rng.choice(good))
        _check(decoder, [good[0], bad, good[-1]])


@settings(max_examples=60 * SCALE)
@given(records(max_records=6), st.randoms(use_true_random=False))
@pytest.mark.timeout(300 * SCALE)
def test_the_exact_engine_takes_nothing_that_protobuf_refuses(drawn: Any, rng: random.Random) -> None:
    """What is taken is a message to Protobuf's own parser, under the schema as it was written."""
    file, wires = drawn
    decoder = ProtobufDecoder(encoded(file))
    files, name = compile_schema(encoded(file))
    message = GetMessageClass(load(files).FindFileByName(name).message_types_by_name["M0"])
    for _ in range(20):
        bad = rng.choice(DAMAGES)(rng, rng.choice(wires).body)
        try:
            message.FromString(bad)
        except DecodeError:
            assert _verdict(decoder, bad) == []


EVENT = """
syntax = "proto3"; package t;
import "google/protobuf/timestamp.proto"; import "google/protobuf/struct.proto";
import "google/protobuf/wrappers.proto";
message Event {
  enum Kind { VIEW = 0; BUY = 1; }
  message Stop { string city = 1; optional double km = 2; repeated sint64 codes = 3; }
  string id = 1; optional string user = 2; google.protobuf.Timestamp at = 3; Kind kind = 4;
  map<string, int32> counts = 5; repeated Stop stops = 6; repeated fixed32 marks = 7; bytes raw = 8;
  oneof price { int64 cents = 9; string text = 10; google.protobuf.Value other = 11; }
  google.protobuf.UInt64Value wide = 12; bool hot = 13; int32 n = 14;
}
"""


def event_body(rng: random.Random) -> bytes:
    """A record of ``EVENT``."""
    stop = text(1, "Ulm") + tag(2, FIXED64) + rng.randbytes(8) + text(3, b"\x01\x02\x80\x01")
    parts = [
        text(1, f"id-{rng.randrange(1000)}"),
        text(2, "user") if rng.random() < 0.7 else b"",
        text(3, moment(rng.randrange(2_000_000_000), rng.randrange(1_000_000) * 1000)),
        tag(4, VARINT) + varint(rng.choice([1, 7])) if rng.random() < 0.5 else b"",
        b"".join(text(5, text(1, k) + tag(2, VARINT) + varint(rng.randrange(99))) for k in ("a", "b")),
        text(6, stop) * rng.randrange(3),
        text(7, rng.randbytes(8)) if rng.random() < 0.5 else b"",
        rng.choice([b"", tag(9, VARINT) + b"\x05", text(10, "5"), text(11, text(3, "five"))]),
        text(12, tag(1, VARINT) + varint(2**64 - 1)) if rng.random() < 0.5 else b"",
        tag(13, VARINT) + b"\x01" if rng.random() < 0.5 else b"",
        tag(14, VARINT) + varint(rng.choice([1, -1])) if rng.random() < 0.5 else b"",
    ]
    return b"".join(parts)


@pytest.fixture(scope="module")
def event() -> ProtobufDecoder:
    """The decoder of ``EVENT``."""
    return ProtobufDecoder(EVENT)


@pytest.mark.parametrize(
    "body",
    [
        text(1, "x")[:1] + varint(2**31 - 1),
        text(1, "x")[:1] + varint(2**63 - 1) + b"x",
        text(1, "x")[:1] + varint(2**64 - 1) + b"x" * 20,
        tag(100, BYTES) + varint(2**64 - 9) + b"x" * 20,
        text(6, text(3, b"\x01" * 2000)),
        text(6, b"") * 2000,
        text(5, b"") * 2000,
        tag(100, 3) * 20_000,
        b"\x0b" * 1_000_000,
        text(6, tag(100, 3) * 500_000 + tag(100, 4) * 500_000),
        tag(100, 3) * 50 + tag(100, 4) * 50,
        text(11, text(6, text(1, b"") * 2000)),
        b"\xff" * 5000,
        b"\x80" * 5000,
    ],
)
def test_giants_cost_no_more_than_their_bytes(event: ProtobufDecoder, body: bytes) -> None:
    """Lengths, lists and depths beyond the record take neither time nor memory."""
    good = event_body(random.Random(0))
    process = psutil.Process()
    before, start = process.memory_info().rss, time.process_time()
    times = 50 if len(body) < 100_000 else 3
    batch, refused = event.decode(framed(*[good] * 50, *[body, good] * times))
    assert batch.num_rows + len(refused) == 50 + 2 * times
    assert batch.num_rows >= 50 + times
    assert process.memory_info().rss - before < 300 * 1024**2
    assert time.process_time() - start < 20
