"""The encoder compared with fastavro, and the schemas with each other."""

import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabletopic_kernel._datasets.clickstream.generator import Clickstream, Encoder, SchemaVersion, schema_text
from tabletopic_kernel._datasets.clickstream.shop import DEVICE_TYPES, STEPS

SCHEMAS = {version: fastavro.parse_schema(json.loads(schema_text(version))) for version in ("v1", "v2")}
INT = st.integers(-(2**31) + 1, 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)


def _by_fastavro(version: str, value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, SCHEMAS[version], value)
    return out.getvalue()


@st.composite
def _values(draw: st.DrawFn, version: str) -> dict[str, Any]:
    text = st.text(max_size=200)
    device: dict[str, Any] = {
        "type": draw(st.sampled_from(DEVICE_TYPES)),
        "os": draw(text),
        "browser": draw(text),
    }
    if version == "v2":
        device["viewport"] = draw(st.none() | st.fixed_dictionaries({"width": INT, "height": INT}))
    return {
        "event_id": draw(text), "event_time": draw(LONG), "user_id": draw(text), "session_id": draw(text),
        "event_type": draw(st.sampled_from(STEPS)), "url": draw(text), "referrer": draw(st.none() | text),
        "product_id": draw(st.none() | text),
        "price": draw(st.none() | st.decimals(-9_999_999, 9_999_999, places=2)),
        "quantity": draw(st.none() | INT), "device": device,
        "country": draw(text if version == "v1" else st.none() | text),
        "duration_ms": draw(INT if version == "v1" else LONG),
    }  # fmt: skip


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_encoder_equals_fastavro(version: SchemaVersion) -> None:
    """Generated events become the same bytes as with fastavro."""
    encode = Encoder(version).encode
    for event in Clickstream(3, version).events(5_000):
        assert encode(event.value) == _by_fastavro(version, event.value)


@settings(max_examples=30)
@given(value=_values("v1"))
def test_any_v1_value_equals_fastavro(value: dict[str, Any]) -> None:
    """Any value that fits version 1 becomes the same bytes as with fastavro."""
    assert Encoder("v1").encode(value) == _by_fastavro("v1", value)


@settings(max_examples=30)
@given(value=_values("v2"))
def test_any_v2_value_equals_fastavro(value: dict[str, Any]) -> None:
    """Any value that fits version 2 becomes the same bytes as with fastavro."""
    assert Encoder("v2").encode(value) == _by_fastavro("v2", value)


@pytest.mark.parametrize(
    "change", [{"duration_ms": 2**31}, {"price": Decimal("1.234")}, {"price": Decimal(10**7)}]
)
def test_values_out_of_range_are_refused(change: dict[str, Any]) -> None:
    """What the schema cannot hold is an error, never other bytes."""
    value = next(event.value for event in Clickstream().events(100) if event.value["price"])
    with pytest.raises(ValueError, match=str(next(iter(change.values())))):
        Encoder("v1").encode({**value, **change})


def test_version_two_is_backward_compatible() -> None:
    """Its reader takes version 1, new fields at their default; version 1 refuses version 2."""
    encode = Encoder("v1").encode
    for event in Clickstream().events(1_000):
        body = io.BytesIO(encode(event.value))
        read = fastavro.schemaless_reader(body, SCHEMAS["v1"], SCHEMAS["v2"])
        assert isinstance(read, dict)
        assert read["device"].pop("viewport") is None
        assert read["event_time"].timestamp() * 1000 == pytest.approx(event.value["event_time"])
        assert {**read, "event_time": event.value["event_time"]} == event.value
    value = next(Clickstream(7, "v2").events(1)).value
    body = io.BytesIO(Encoder("v2").encode(value))
    with pytest.raises(fastavro.read.SchemaResolutionError):
        fastavro.schemaless_reader(body, SCHEMAS["v2"], SCHEMAS["v1"])


def test_every_field_is_documented() -> None:
    """Of both versions; an event has 120 to 160 bytes on average."""

    def undocumented(schema: Any, path: str) -> list[str]:
        if isinstance(schema, list):
            return [found for branch in schema for found in undocumented(branch, path)]
        if not isinstance(schema, dict) or schema["type"] != "record":
            return []
        missing = [] if schema.get("doc") else [path]
        for field in schema["fields"]:
            place = f"{path}.{field['name']}"
            missing += [] if field.get("doc") else [place]
            missing += undocumented(field["type"], place)
        return missing

    for version in ("v1", "v2"):
        assert undocumented(json.loads(schema_text(version)), version) == []
    for version in ("v1", "v2"):
        encode = Encoder(version).encode
        events = Clickstream(7, version).events(5_000)
        assert 120 < sum(len(encode(event.value)) for event in events) / 5_000 < 160
