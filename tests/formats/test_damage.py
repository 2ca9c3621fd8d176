"""Damaged records of every format, between good ones: none hangs, crashes, or changes a neighbour.

Each format gets ``DAMAGED`` damaged records (truncated, extended, flipped, swapped, with giant numbers,
deeply nested…) in batches with a few, some, many or only such records. 100,000 of each format take some
minutes: ``TABLETOPIC_FUZZ=100 pytest tests/formats/test_damage.py -n0``.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psutil
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema

from tabletopic_kernel.formats.avro.decoder import AvroDecoder
from tabletopic_kernel.formats.decoder import Decoder
from tabletopic_kernel.formats.json.decoder import JsonDecoder, JsonSchemaDecoder
from tabletopic_kernel.formats.protobuf.decoder import ProtobufDecoder
from tabletopic_kernel.formats.rejection import Refusal
from tests.formats import test_decode_avro_fuzz as of_avro
from tests.formats import test_decode_json_fuzz as of_json
from tests.formats import test_decode_protobuf_fuzz as of_protobuf
from tests.formats.avro_cases import PREFIX, plain_rows
from tests.formats.damage import SCALE, Damage
from tests.formats.test_infer_json import settled

DAMAGED = 1_000 * SCALE
SHARES = [0.003, 0.03, 0.3, 1.0]
SIZES = [60, 600, 3_000]
GROWTH_BYTES = 300 * 1024**2


@dataclass(frozen=True)
class Format:
    """A format to be damaged.

    Args:
        decoder: for a batch of bodies; JSON without a schema has columns that follow from the batch.
        good: draws a good body.
        damage: damages one.
        frame: stands before each body.
        exact: the exact engine of a decoder.
    """

    decoder: Callable[[list[bytes]], Any]
    good: Callable[[random.Random], bytes]
    damage: Damage
    frame: bytes
    exact: Callable[[Any], Any]


def _one_of(damages: list[Damage]) -> Damage:
    return lambda rng, body: rng.choice(damages)(rng, body)


def _always(decoder: Decoder) -> Callable[[list[bytes]], Decoder]:
    return lambda bodies: decoder


def _avro(schema: Any) -> Format:
    return Format(
        _always(AvroDecoder(json.dumps(schema))),
        of_avro.event_body,
        _one_of(of_avro.DAMAGES),
        PREFIX,
        lambda decoder: decoder.exact,
    )


def _protobuf() -> Format:
    return Format(
        _always(ProtobufDecoder(of_protobuf.EVENT)),
        of_protobuf.event_body,
        _one_of(of_protobuf.DAMAGES),
        PREFIX + b"\x00",
        lambda decoder: decoder.exact,
    )


def _json(decoder: Callable[[list[bytes]], Any], frame: bytes) -> Format:
    return Format(decoder, of_json.event_body, of_json.damaged, frame, lambda one: one.exact)


def _json_schema() -> Format:
    return _json(_always(JsonSchemaDecoder(json.dumps(of_json.EVENT))), PREFIX)


def _json_by_references() -> Format:
    stops = of_json.EVENT["properties"]["stops"]
    event = {
        **of_json.EVENT,
        "properties": {**of_json.EVENT["properties"], "stops": {"$ref": "stops.json#/$defs/all"}},
    }
    references = {"event.json": json.dumps(event), "stops.json": json.dumps({"$defs": {"all": stops}})}
    return _json(_always(JsonSchemaDecoder('{"$ref": "event.json"}', references)), PREFIX)


def _json_inferred() -> Format:
    rng = random.Random(0)
    good = [of_json.event_body(rng) for _ in range(300)] + [b"[]"]
    columns = settled(Schema(), pa.array(good, pa.binary()))[0].iceberg_schema

    def decoder(bodies: list[bytes]) -> JsonDecoder:
        """Include the columns that the damage invented, as the table has them after a while."""
        known = columns
        for _ in range(4):
            found = JsonDecoder(known)
            found.decode(pa.array(bodies, pa.binary()))
            if found.needed is None:
                return found
            known = found.needed
        raise AssertionError("the columns do not come to rest")

    return _json(decoder, b"")


FORMATS: dict[str, Callable[[], Format]] = {
    "avro": lambda: _avro(of_avro.EVENT),
    "protobuf": _protobuf,
    "json_schema": _json_schema,
    "json_schema_by_references": _json_by_references,
    "json": _json_inferred,
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.timeout(300 + 6 * SCALE)
def test_damage_stays_where_it_is(name: str) -> None:
    """In a batch with damaged records every row is the one that its own bytes give alone; memory stays."""
    form, rng = FORMATS[name](), random.Random(SCALE)
    done, batches, start_bytes = 0, 0, 0
    while done < DAMAGED:
        share, size = SHARES[batches % len(SHARES)], SIZES[batches % len(SIZES)]
        done += _check(form, rng, share, size)
        batches += 1
        if batches == len(SHARES) * len(SIZES):  # from here on all is warm
            start_bytes = psutil.Process().memory_info().rss
    if start_bytes:
        assert psutil.Process().memory_info().rss - start_bytes < GROWTH_BYTES


def _check(form: Format, rng: random.Random, share: float, size: int) -> int:
    """One batch; returns how many of its records are damaged."""
    bodies = [form.good(rng) for _ in range(size)]
    damaged = [at for at in range(size) if rng.random() < share]
    for at in damaged:
        bodies[at] = form.damage(rng, bodies[at])
    decoder = form.decoder(bodies)
    exact = form.exact(decoder)
    rows, refusals = [], []
    for at, body in enumerate(bodies):
        try:
            rows.append(exact.row(body))
        except Refusal as refusal:
            refusals.append((at, refusal.reason))
    batch, refused = decoder.decode(pa.array([form.frame + body for body in bodies], pa.binary()))
    batch.validate(full=True)
    assert [(bad.index, bad.reason) for bad in refused] == refusals
    assert plain_rows(batch) == plain_rows(exact.batch(rows))
    return len(damaged)
