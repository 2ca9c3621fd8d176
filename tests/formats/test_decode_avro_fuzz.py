"""Damaged bytes between good records: the exact engine judges, nothing hangs, neighbours stay whole."""

from __future__ import annotations

import json
import random
import time
import tracemalloc
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tabletopic_kernel.formats.avro.decoder import AvroDecoder
from tabletopic_kernel.formats.rejection import NotRows, Refusal
from tests.formats.avro_cases import PREFIX, framed, plain_rows, row_schema, rows, zigzag
from tests.formats.damage import SCALE, Damage, byte, cut, cut_front, flip, grow, insert, swap
from tests.formats.test_decode_avro import STRING_AND_INT, exact_batch, expected, fast_batch, good, text


def _number(rng: random.Random, _raw: bytes) -> bytes:
    giants = [2**63 - 1, -(2**63), 2**60, 2**31, 2**31 - 1, -(2**31) - 1, 2**32, -1, -2, 10**6]
    return zigzag(rng.choice(giants))


def _bad_varint(rng: random.Random, _raw: bytes) -> bytes:
    return rng.choice(
        [b"\xff" * 10 + b"\x01", b"\x80" * 9 + b"\x02", b"\x80\x00", b"\x82\x80\x00", b"\xff" * 30]
    )


def _second_record(_rng: random.Random, raw: bytes) -> bytes:
    return PREFIX + raw


DAMAGES: list[Damage] = [
    cut,
    cut_front,
    grow,
    flip,
    flip,
    byte,
    byte,
    swap,
    insert(_number),
    insert(_bad_varint),
    insert(_second_record),
    insert(lambda rng, _: rng.randbytes(rng.randint(1, 8))),
]


def _verdict(decoder: AvroDecoder, raw: bytes) -> list[dict[str, Any]]:
    try:
        return plain_rows(exact_batch(decoder, framed(raw)))
    except Refusal:
        return []


def _check(decoder: AvroDecoder, bodies: list[bytes]) -> None:
    """The fast engine takes the group with the exact engine's rows, or not at all."""
    verdicts = [_verdict(decoder, body) for body in bodies]
    try:
        batch = fast_batch(decoder, framed(*bodies))
    except NotRows:
        return
    assert plain_rows(batch) == [row for rows_of_one in verdicts for row in rows_of_one]
    assert all(verdicts)


@settings(max_examples=40 * SCALE)
@given(rows(max_records=6), st.randoms(use_true_random=False))
@pytest.mark.timeout(300 * SCALE)
def test_the_fast_engine_takes_nothing_that_the_exact_one_refuses(drawn: Any, rng: random.Random) -> None:
    """On damaged records of any schema the fast engine gives the exact engine's rows or refuses."""
    case, pairs = drawn
    decoder = AvroDecoder(json.dumps(case.schema))
    assume(decoder.fast_refusal is None)
    good = [raw for raw, _ in pairs]
    for _ in range(12):
        bad = rng.choice(DAMAGES)(rng, rng.choice(good))
        _check(decoder, [good[0], bad, good[-1]])
        _check(decoder, [bad])


EVENT = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "user", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["VIEW", "BUY"]}},
        {
            "name": "price",
            "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}],
        },
        {"name": "tags", "type": {"type": "map", "values": ["null", "int", "string"]}},
        {"name": "hot", "type": "boolean"},
        {
            "name": "stops",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Stop",
                    "fields": [
                        {"name": "city", "type": "string"},
                        {"name": "km", "type": ["double", "null"]},
                    ],
                },
            },
        },
    ],
}


def event_body(rng: random.Random) -> bytes:
    """A record of ``EVENT``."""
    stops = [
        text("stop") + (b"\x00" + bytes(8) if rng.random() < 0.5 else b"\x02")
        for _ in range(rng.randrange(3))
    ]
    return b"".join(
        [
            text(f"id-{rng.randrange(1000)}"),
            b"\x02" + text("user") if rng.random() < 0.7 else b"\x00",
            zigzag(rng.randrange(2_000_000_000_000)),
            zigzag(rng.randrange(2)),
            b"\x02\x04" + rng.randbytes(2) if rng.random() < 0.5 else b"\x00",
            b"\x04" + text("a") + b"\x00" + text("b") + b"\x02\x06" + b"\x00",
            bytes([rng.randrange(2)]),
            zigzag(len(stops)) + b"".join(stops) + b"\x00" if stops else b"\x00",
        ]
    )


def test_two_forged_records_cannot_cover_for_each_other() -> None:
    """A value with another value's prefix and body inside, beside one that swallows its neighbour.

    Together they have as many rows and prefixes as records: with the real prefixes as proof, the
    swallowed neighbour would be lost and a forged row would stand in its place.
    """
    decoder = AvroDecoder(STRING_AND_INT)
    bodies = good(60)
    bodies[20] = text("real") + zigzag(1) + PREFIX + text("forged") + zigzag(2)
    swallowed = PREFIX + bodies[41]
    long_text = len("bad") + len(swallowed) - 1
    bodies[40] = zigzag(long_text) + b"bad"
    values = framed(*bodies)
    with pytest.raises(NotRows):
        fast_batch(decoder, values)
    batch, refused = decoder.decode(values)
    assert [(r.index, r.reason) for r in refused] == [(20, "avro_trailing_bytes"), (40, "avro_truncated")]
    assert plain_rows(batch) == [row for i, row in enumerate(expected(60)) if i not in (20, 40)]


def test_a_last_record_that_holds_a_prefix_is_refused() -> None:
    """Bytes left over behind the last row, where the native reader would spin for ever, are seen."""
    decoder = AvroDecoder(STRING_AND_INT)
    bodies = good(60)
    bodies[59] += PREFIX + b"rest"
    with pytest.raises(NotRows):
        fast_batch(decoder, framed(*bodies))


NODE = {
    "type": "record",
    "name": "Node",
    "fields": [
        {"name": "next", "type": ["null", "Node"]},
        {"name": "nulls", "type": {"type": "array", "items": "null"}},
    ],
}
BOMBS = [
    (row_schema({"type": "array", "items": "null"}), zigzag(2**62) + b"\x00"),
    (row_schema({"type": "array", "items": "null"}), (zigzag(65_000) * 1000) + b"\x00"),
    (
        row_schema({"type": "array", "items": {"type": "array", "items": "null"}}),
        zigzag(500) + zigzag(65_000) * 500,
    ),
    (row_schema({"type": "array", "items": "int"}), zigzag(2**62) + b"\x00" * 100),
    (row_schema({"type": "array", "items": "int"}), zigzag(-(2**63)) + zigzag(2**62) + b"\x00" * 100),
    (
        row_schema({"type": "array", "items": ["null", {"type": "fixed", "name": "F", "size": 1000}]}),
        zigzag(10**9),
    ),
    (row_schema({"type": "map", "values": "int"}), zigzag(2**31 - 1) + b"\x00" * 1000),
    (row_schema("string"), zigzag(2**62) + b"abc"),
    (row_schema("bytes"), zigzag(2**31 - 1) + b"abc"),
    (row_schema({"type": "bytes", "logicalType": "decimal", "precision": 38}), text("x" * 100_000)),
    (json.dumps(NODE), b"\x02" * 1_000_000 + b"\x00"),
    (json.dumps(NODE), b"\x02" * 1_000_000),
]


@pytest.mark.parametrize("bomb", range(len(BOMBS)))
def test_bombs_are_refused_quickly_and_in_little_memory(bomb: int) -> None:
    """A few bytes that stand for endless items, bytes or levels cost neither time nor memory."""
    schema, body = BOMBS[bomb]
    decoder = AvroDecoder(schema)
    tracemalloc.start()
    before_s, before_bytes = time.process_time(), pa.total_allocated_bytes()
    batch, refused = decoder.decode(framed(*[body] * 60))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (batch.num_rows, len(refused)) == (0, 60)
    assert time.process_time() - before_s < 10
    # The array of the values itself is part of it.
    assert peak_bytes < 64 * 2**20
    assert pa.total_allocated_bytes() - before_bytes < 64 * 2**20


def test_no_thread_is_left_spinning() -> None:
    """After groups that were refused halfway the process is idle: the native reader has let go."""
    decoder = AvroDecoder(STRING_AND_INT)
    for tail in (b"", b"x", b"\x00" * 20, PREFIX + b"rest", zigzag(2**40)):
        for at in (0, 30, 59):
            bodies = good(60)
            bodies[at] += tail
            decoder.decode(framed(*bodies))
    least = 1.0
    for _ in range(3):  # threads of other libraries may have something to do now and then
        started = time.process_time()
        time.sleep(0.2)  # the one thing to see here is what happens while nothing is asked for
        least = min(least, time.process_time() - started)
    assert least < 0.1
