"""CPU time of decoding JSON: ``python -m tests.formats.measure_json``. Figures of ADRs come from here."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema

from tabletopic_kernel.formats.json.decoder import JsonDecoder, JsonSchemaDecoder
from tabletopic_kernel.formats.wire import prefix
from tests.formats import measuring
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
    return [
        json.dumps(click | {"ts": datetime.fromtimestamp(click["ts"] / 1000, UTC).isoformat()}).encode()
        for click in measuring.clicks(count)
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
