"""Damaged bytes between good records: the exact engine judges, nothing hangs, neighbours stay whole."""

from __future__ import annotations

import json
import random
import time
import tracemalloc
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema

from tabletopic_kernel.formats.json.decoder import JsonSchemaDecoder
from tests.formats.json_cases import PREFIX
from tests.formats.test_decode_json import STRING_AND_INT
from tests.formats.test_infer_json import settled, texts

EVENT = {
    "type": "object",
    "required": ["id", "at", "kind"],
    "properties": {
        "id": {"type": "string"},
        "user": {"type": ["string", "null"]},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "kind": {"enum": ["VIEW", "BUY"]},
        "price": {"type": "number"},
        "count": {"type": "integer"},
        "hot": {"type": "boolean"},
        "tags": {"type": "object", "additionalProperties": {"type": "integer"}},
        "any": {},
        "stops": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["city"],
                "properties": {"city": {"type": "string"}, "km": {"type": ["number", "null"]}},
                "additionalProperties": False,
            },
        },
    },
}


def event_body(rng: random.Random) -> bytes:
    """A record of ``EVENT``."""
    record: dict[str, Any] = {
        "id": f"id-{rng.randrange(1000)}",
        "at": f"2026-01-{rng.randint(1, 28):02}T12:00:00.{rng.randrange(1000):03}Z",
        "day": f"2026-02-{rng.randint(1, 28):02}",
        "kind": rng.choice(["VIEW", "BUY"]),
        "price": rng.random(),
        "count": rng.randrange(10**6),
        "hot": rng.random() < 0.5,
        "stops": [{"city": "größe", "km": rng.choice([None, 1.5])} for _ in range(rng.randrange(3))],
    }
    if rng.random() < 0.05:
        record |= {"tags": {"a": 1}, "any": [1, {"x": "y"}], "more": 1}
    return json.dumps(record, ensure_ascii=rng.random() < 0.5).encode()


TOKENS = [
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b'"',
        b"\\",
        b"null",
        b"true",
        b"0",
        b"-",
        b"1e999",
        b"9" * 30,
        b"1.5",
    ),
    *(
        b"9007199254740993",
        b"NaN",
        b"-Infinity",
        b"\\ud800",
        b"\xff",
        b"\xed\xa0\x80",
        b"\x00",
        b"\n",
        b"\xef\xbb\xbf",
    ),
    *(b'}{"":{', b'},"":{', b'"a":', b'"id":"x",', b'"count":1,', b"[" * 300, b'{"x":' * 300, b"/**/", b"'"),
]


def damaged(rng: random.Random, raw: bytes) -> bytes:  # noqa: PLR0911 - a return per damage
    """The record with some damage."""
    out = bytearray(raw)
    at = rng.randrange(len(out))
    match rng.randrange(9):
        case 0:
            return raw[:at]
        case 1:
            return raw[at:]
        case 2:
            return raw + rng.randbytes(rng.randint(1, 12))
        case 3:
            out[at] ^= 1 << rng.randrange(8)
        case 4:
            other = rng.randrange(len(out))
            out[at], out[other] = out[other], out[at]
        case 5:
            return raw[:at] + raw[rng.randrange(len(out)) :]
        case 6:
            return raw + rng.choice([b"", b"}{", b" ", b"\n"]) + raw
        case _:
            return raw[:at] + rng.choice(TOKENS) + raw[at + rng.randrange(3) :]
    return bytes(out)


BOMBS = [
    b"[" * 1_000_000,
    b'{"s":' + b"[" * 500_000 + b"]" * 500_000 + b"}",
    b'{"s":"a","x":' + b'{"x":' * 200_000 + b"1" + b"}" * 200_001,
    b'{"s":"a","n":' + b"9" * 1_000_000 + b"}",
    b'{"s":"a","n":1e' + b"9" * 1_000_000 + b"}",
    b'{"s":"a","n":1e999999999999}',
    b'{"s":"a","n":-1e-999999999999}',
    b'{"s":"' + b"\\u0000" * 100_000,
    b'{"s":"a",' + b",".join(b'"k%d":{' % i for i in range(50_000)),
    b'{"s":"a","n":1' + b" " * 1_000_000,
    b'{"s":"a"}' * 100_000,
]


@pytest.mark.parametrize("bomb", range(len(BOMBS)))
def test_bombs_are_refused_quickly_and_in_little_memory(bomb: int) -> None:
    """Depth, digits, exponents and length cost what their bytes cost."""
    decoder = JsonSchemaDecoder(STRING_AND_INT)
    values = pa.array([PREFIX + BOMBS[bomb]] * 20, pa.binary())
    tracemalloc.start()
    started_s, before_bytes = time.process_time(), pa.total_allocated_bytes()
    batch, refused = decoder.decode(values)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (batch.num_rows, len(refused)) == (0, 20)
    assert time.process_time() - started_s < 20
    assert peak_bytes < 64 * 2**20 + 8 * len(BOMBS[bomb])
    assert pa.total_allocated_bytes() - before_bytes < 64 * 2**20


def test_a_thousand_properties_in_a_record_are_inferred_in_bounded_time() -> None:
    """Names that never come back fill the columns and then the rest; nothing grows with the batch."""
    rng = random.Random(5)
    records = [{f"k{rng.randrange(10**9)}": 1 for _ in range(50)} for _ in range(300)]
    decoder, batch = settled(Schema(), texts(*records))
    assert len(decoder.iceberg_schema.fields) == 1_001
    assert batch.num_rows == 300
