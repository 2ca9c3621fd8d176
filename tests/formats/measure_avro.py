"""CPU time of decoding Avro: ``python -m tests.formats.measure_avro``. Figures of ADRs come from here."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa

from tabletopic_kernel.formats.avro.decoder import AvroDecoder
from tabletopic_kernel.formats.wire import PREFIX_BYTES, prefix
from tests.formats import measuring
from tests.formats.measuring import report

RECORDS = 50_000
CLICK: dict[str, Any] = {
    "type": "record",
    "name": "Click",
    "fields": [
        {"name": "event_id", "type": "string"},
        {"name": "user_id", "type": ["null", "string"]},
        {"name": "session", "type": "string"},
        {"name": "url", "type": "string"},
        {"name": "referrer", "type": ["null", "string"]},
        {"name": "duration", "type": "double"},
        {"name": "status", "type": "int"},
        {"name": "bytes", "type": "long"},
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["VIEW", "CLICK", "BUY"]}},
        {
            "name": "geo",
            "type": {
                "type": "record",
                "name": "Geo",
                "fields": [
                    {"name": "country", "type": "string"},
                    {"name": "lat", "type": "double"},
                    {"name": "city", "type": ["null", "string"]},
                ],
            },
        },
    ],
}


def clicks(count: int) -> list[bytes]:
    """Framed records of about 145 bytes."""
    schema = fastavro.parse_schema(CLICK)
    values = []
    for click in measuring.clicks(count):
        out = io.BytesIO(prefix(7))
        out.seek(PREFIX_BYTES)
        fastavro.schemaless_writer(out, schema, click)
        values.append(out.getvalue())
    return values


def main() -> None:
    """Print the figures."""
    values = clicks(RECORDS)
    print(f"{RECORDS} records of {sum(map(len, values)) / RECORDS:.0f} bytes")  # noqa: T201
    decoder = AvroDecoder(json.dumps(CLICK))
    report("a new decoder", 1, lambda: AvroDecoder(json.dumps(CLICK)))
    for count in (10, 100, 1_000, 10_000, RECORDS):
        part = pa.array(values[:count], pa.binary())
        report(f"{count} records", count, lambda part=part: decoder.decode(part))  # type: ignore[misc]
    for bad in (1, 10, 100, 1_000, RECORDS):
        damaged = [v[:-3] if i % (RECORDS // bad) == 0 else v for i, v in enumerate(values)]
        array = pa.array(damaged, pa.binary())
        report(f"{RECORDS} records, {bad} cut", RECORDS, lambda array=array: decoder.decode(array))  # type: ignore[misc]
    report("exact engine, values only", 5_000, lambda: [decoder.exact.row(v[5:]) for v in values[:5_000]])
    schema = fastavro.parse_schema(CLICK)
    bodies = [value[PREFIX_BYTES:] for value in values[:5_000]]
    report("fastavro", 5_000, lambda: [fastavro.schemaless_reader(io.BytesIO(b), schema) for b in bodies])


if __name__ == "__main__":
    main()
