"""Avro of the click events: the schemas as text, and an encoder made for them.

``Encoder`` writes the same bytes as fastavro's ``schemaless_writer`` (a test compares them), and caches the
encoded form of recurring texts, prices and devices.
Source: Apache Avro 1.12 specification, "Binary encoding" and "Logical types".
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, get_args

from tabletopic_kernel._datasets.clickstream.shop import DEVICE_TYPES, STEPS
from tabletopic_kernel.formats import wire
from tabletopic_kernel.model.errors import UsageError

SchemaVersion = Literal["v1", "v2"]
SCHEMA_VERSIONS: Final[tuple[SchemaVersion, ...]] = get_args(SchemaVersion)

_NULL: Final = b"\x00"  # branch 0 of a union with null; null itself has no bytes
_THERE: Final = b"\x02"  # branch 1
_INT_MAX: Final = 2_147_483_647
# Avro puts 7 bits into a byte. Two bytes at a time come from a table, all with the continuation bit.
_PAIRS: Final = [bytes((low & 127 | 128, low >> 7 | 128)) for low in range(1 << 14)]
_STEP_CODES: Final = {step: bytes((2 * number,)) for number, step in enumerate(STEPS)}
_DEVICE_CODES: Final = {kind: bytes((2 * number,)) for number, kind in enumerate(DEVICE_TYPES)}


@cache
def schema_text(schema_version: SchemaVersion) -> str:
    """The schema of one version as JSON text. Raises ``UsageError`` for an unknown version."""
    if schema_version not in SCHEMA_VERSIONS:
        raise UsageError(
            f"unknown schema version {schema_version!r}; use one of {', '.join(SCHEMA_VERSIONS)}"
        )
    name = f"{schema_version}.avsc"
    return files(__package__).joinpath("schemas", name).read_text(encoding="utf-8")


class Encoder:
    """Bodies of one schema version; with ``frame``, complete values for Kafka.

    Not thread-safe: use one per thread.
    """

    def __init__(self, schema_version: SchemaVersion = "v1") -> None:
        schema_text(schema_version)  # rejects an unknown version
        self.schema_version = schema_version
        self._first = schema_version == "v1"
        self._prefix = b""
        # Bounded by the shop: its pages, users, products, devices. Ids of events and sessions are not cached.
        self._texts: dict[str, bytes] = {}
        self._products: dict[tuple[str | None, Decimal | None], bytes] = {}
        self._devices: dict[tuple[Any, ...], bytes] = {}

    def frame(self, schema_id: int) -> Encoder:
        """An encoder that adds the Confluent prefix of ``schema_id`` before each body."""
        framed = Encoder(self.schema_version)
        framed._prefix = wire.prefix(schema_id)
        return framed

    def encode(self, value: Mapping[str, Any]) -> bytes:
        """One event in Avro. Raises ``ValueError`` for a number that the schema version cannot hold."""
        duration_ms = value["duration_ms"]
        if self._first and not -_INT_MAX <= duration_ms <= _INT_MAX:
            raise ValueError(f"duration_ms {duration_ms} is not an int; schema v2 has a long")
        quantity = value["quantity"]
        referrer = value["referrer"]
        country = value["country"]
        nullable_country = b"" if self._first else _NULL if country is None else _THERE
        return b"".join(
            (
                self._prefix,
                encode_text(value["event_id"]),
                encode_long(value["event_time"]),
                self._text(value["user_id"]),
                encode_text(value["session_id"]),
                _STEP_CODES[value["event_type"]],
                self._text(value["url"]),
                _NULL if referrer is None else _THERE + self._text(referrer),
                self._product(value["product_id"], value["price"]),
                _NULL if quantity is None else _THERE + encode_long(quantity),
                self._device(value["device"]),
                nullable_country,
                b"" if nullable_country == _NULL else self._text(country),
                encode_long(duration_ms),
            )
        )

    def _text(self, text: str) -> bytes:
        known = self._texts.get(text)
        if known is None:
            known = self._texts[text] = encode_text(text)
        return known

    def _product(self, product_id: str | None, price: Decimal | None) -> bytes:
        known = self._products.get((product_id, price))
        if known is None:
            known = _NULL if product_id is None else _THERE + encode_text(product_id)
            known += _NULL if price is None else _THERE + encode_price(price)
            self._products[product_id, price] = known
        return known

    def _device(self, device: Mapping[str, Any]) -> bytes:
        viewport = None if self._first else device["viewport"]
        size = viewport and (viewport["width"], viewport["height"])
        known = self._devices.get(key := (device["type"], device["os"], device["browser"], size))
        if known is None:
            known = _DEVICE_CODES[device["type"]] + encode_text(device["os"]) + encode_text(device["browser"])
            if not self._first:
                known += _NULL if size is None else _THERE + encode_long(size[0]) + encode_long(size[1])
            self._devices[key] = known
        return known


def encode_long(number: int) -> bytes:
    """An Avro int or long: zigzag, then 7 bits per byte, lowest first."""
    rest = number << 1 if number >= 0 else ~(number << 1)
    head = b""
    while rest >= 1 << 14:
        head += _PAIRS[rest & 16_383]
        rest >>= 14
    return head + (bytes((rest,)) if rest < 128 else bytes((rest & 127 | 128, rest >> 7)))


def encode_text(text: str) -> bytes:
    """An Avro string: its length in bytes, then UTF-8."""
    body = text.encode()
    return encode_long(len(body)) + body


def encode_price(price: Decimal) -> bytes:
    """An Avro decimal(9, 2): the cents, big-endian, two's complement. Raises ``ValueError`` for others."""
    cents = int(price * 100)
    if cents != price * 100 or abs(cents) >= 10**9:
        raise ValueError(f"{price} is not a decimal(9, 2)")
    body = cents.to_bytes((cents.bit_length() + 8) // 8, "big", signed=True)
    return encode_long(len(body)) + body
