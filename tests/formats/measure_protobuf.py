"""CPU time of decoding Protobuf: ``python -m tests.formats.measure_protobuf``. For ADRs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from google.protobuf.message_factory import GetMessageClass

from tabletopic_kernel.formats.protobuf.decoder import ProtobufDecoder
from tabletopic_kernel.formats.protobuf.schema.protoc import compile_schema
from tabletopic_kernel.formats.protobuf.schema.tree import load
from tests.formats import measuring
from tests.formats.measuring import report

RECORDS = 50_000
CLICK = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Click {
  enum Kind { VIEW = 0; CLICK = 1; BUY = 2; }
  message Geo { string country = 1; double lat = 2; optional string city = 3; }
  string event_id = 1;
  optional string user_id = 2;
  string session = 3;
  string url = 4;
  optional string referrer = 5;
  double duration = 6;
  int32 status = 7;
  int64 bytes = 8;
  google.protobuf.Timestamp ts = 9;
  Kind kind = 10;
  Geo geo = 11;
}
"""


def click_class() -> Any:
    """The class of the messages."""
    files, _ = compile_schema(CLICK)
    return GetMessageClass(load(files).FindMessageTypeByName("shop.Click"))


def clicks(count: int) -> list[bytes]:
    """Framed records of about 157 bytes."""
    message_class = click_class()
    values = []
    for click in measuring.clicks(count):
        plain = {name: value for name, value in click.items() if name not in ("ts", "kind", "geo")}
        message = message_class(**plain, kind=measuring.KINDS.index(click["kind"]))
        message.ts.FromMilliseconds(click["ts"])
        message.geo.MergeFrom(type(message.geo)(**click["geo"]))
        values.append(b"\0\0\0\0\7\0" + message.SerializeToString())
    return values


def far_away(value: bytes) -> bytes:
    """The record with a timestamp that is beyond the year 9999."""
    return value + b"\x4a\x07\x08\x80\x9c\xa8\xd1\xce\x09"


def _decode(what: str, decoder: ProtobufDecoder, values: list[bytes]) -> None:
    array = pa.array(values, pa.binary())
    report(what, len(values), lambda: decoder.decode(array))


def main() -> None:
    """Print the figures."""
    values = clicks(RECORDS)
    print(f"{RECORDS} records of {sum(map(len, values)) / RECORDS:.0f} bytes")  # noqa: T201
    decoder = ProtobufDecoder(CLICK)
    report("a new decoder of a schema that is compiled", 1, lambda: ProtobufDecoder(CLICK))
    for count in (10, 100, 1_000, 10_000, RECORDS):
        _decode(f"{count} records", decoder, values[:count])
    for bad in (RECORDS // 1_000, RECORDS // 10, RECORDS):
        every = RECORDS // bad
        damages = {
            "cut": lambda v: v[:-3],
            "of a year 12000": far_away,
        }
        for what, damage in damages.items():
            damaged = [damage(v) if i % every == 0 else v for i, v in enumerate(values)]
            _decode(f"{RECORDS} records, {bad} {what}", decoder, damaged)
    _decode(f"{RECORDS} records with an unknown field", decoder, [v + b"\xf8\x01\x01" for v in values])
    bodies = [value[6:] for value in values[:5_000]]
    report("exact engine, values only", 5_000, lambda: [decoder.exact.row(b) for b in bodies])
    parse = click_class().FromString
    report("google's parser alone", 5_000, lambda: [parse(b) for b in bodies])
    array = pa.array(values, pa.binary())
    fast = decoder.fast
    assert fast is not None
    report("ptars alone", RECORDS, lambda: fast._read(array))  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
