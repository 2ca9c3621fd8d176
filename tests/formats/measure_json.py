"""CPU time of decoding JSON: ``python -m tests.formats.measure_json``. Figures of ADRs come from here."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema

from tabletopic_kernel.formats.json.decoder import JsonDecoder, JsonSchemaDecoder
from tabletopic_kernel.formats.wire import prefix
from tests.formats.measuring import report

RECORDS = 50_000
TEXT, OPTIONAL = {"type": "string"}, {"type": ["string", "null"]}
CLICK: dict[str, Any] = {
    "type": "object",
    "required": ["event_id", "ts", "status"],
    "properties": {
        "event_id": TEXT,
        "user_id": OPTIONAL,
        "session": TEXT,
        "url": TEXT,
        "referrer": OPTIONAL,
        "duration": {"type": "number"},
        "status": {"type": "integer"},
        "bytes": {"type": "integer"},
        "ts": {"type": "string", "format": "date-time"},
        "kind": {"enum": ["VIEW", "CLICK", "BUY"]},
        "geo": {
            "type": "object",
            "properties": {"country": TEXT, "lat": {"type": "number"}, "city": OPTIONAL},
            "additionalProperties": False,
        },
    },
    "additionalProperties": False,
}


def clicks(count: int) -> list[bytes]:
    """Records of about 350 bytes."""
    rng = random.Random(1)

    def dead_letters(length: int) -> str:
        return "".join(rng.choices(string.ascii_letters, k=length))

    return [
        json.dumps(
            {
                "event_id": dead_letters(24),
                "user_id": dead_letters(12) if rng.random() < 0.7 else None,
                "session": dead_letters(16),
                "url": "/" + dead_letters(28),
                "referrer": dead_letters(24) if rng.random() < 0.5 else None,
                "duration": rng.random(),
                "status": 200,
                "bytes": rng.randrange(100_000),
                "ts": f"2026-01-01T00:{i % 60:02}:{i // 60 % 60:02}.{i % 1000:03}Z",
                "kind": rng.choice(["VIEW", "CLICK", "BUY"]),
                "geo": {
                    "country": dead_letters(2),
                    "lat": rng.random(),
                    "city": dead_letters(8) if i % 5 else None,
                },
            }
        ).encode()
        for i in range(count)
    ]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda value: value[:-3],
    "a fraction for an integer": lambda value: value.replace(b'"status": 200', b'"status": 2.5'),
    "a number for a text": lambda value: value.replace(b'"kind": "', b'"kind": 5, "was": "'),
    "an unknown property": lambda value: value[:-1] + b', "x": 1}',
}


def main() -> None:
    """Print the figures."""
    values = clicks(RECORDS)
    print(f"{RECORDS} records of {sum(map(len, values)) / RECORDS:.0f} bytes")  # noqa: T201
    framed = [prefix(7) + value for value in values]
    decoder = JsonSchemaDecoder(json.dumps(CLICK))
    report("a new decoder", 1, lambda: JsonSchemaDecoder(json.dumps(CLICK)))
    for count in (10, 100, 1_000, 10_000, RECORDS):
        part = pa.array(framed[:count], pa.binary())
        report(f"{count} records", count, lambda part=part: decoder.decode(part))  # type: ignore[misc]
    for what, damage in DAMAGE.items():
        for bad in (50, RECORDS):
            every = RECORDS // bad
            mixed = [damage(v) if i % every == 0 else v for i, v in enumerate(framed)]
            array = pa.array(mixed, pa.binary())
            report(f"{bad} with {what}", RECORDS, lambda array=array: decoder.decode(array))  # type: ignore[misc]
    bare = pa.array(values, pa.binary())
    first = JsonDecoder(Schema())
    report("without a schema, no columns yet", RECORDS, lambda: first.decode(bare))
    assert first.needed is not None
    known = JsonDecoder(first.needed)
    report("without a schema, columns known", RECORDS, lambda: known.decode(bare))


if __name__ == "__main__":
    main()
