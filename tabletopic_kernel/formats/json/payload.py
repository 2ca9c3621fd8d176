"""The payloads of JSON records that carry their schema, as Kafka Connect's JsonConverter writes them.

``{"schema":{…},"payload":{…}}`` becomes ``{…}``; any other record stays as it is. The converter writes the
schema first and always the same, so records are mostly cut where the first of them has its payload: what
stands before is read once, and what is left is the payload if it is one JSON value, which the decoder proves.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema

from tabletopic_kernel.formats.arrays import Positions
from tabletopic_kernel.formats.driver import Decoded
from tabletopic_kernel.formats.json.decoder import JsonDecoder
from tabletopic_kernel.formats.json.infer import Reserved
from tabletopic_kernel.formats.json.text import JsonTextError, json_text, parse

_BEGINS: Final = rb'^\s*\{\s*"(schema|payload)"\s*:'
_JOINT: Final = b',"payload":'
# Schemas that a group of records is cut by; records of more are read one by one.
_MAX_HEADS: Final = 16


class PayloadDecoder:
    """A decoder of JSON without a schema id, for records that may carry a schema of Connect's."""

    def __init__(self, columns: Schema, reserved: Reserved | None = None) -> None:
        self._inner = JsonDecoder(columns, reserved)
        self.iceberg_schema = self._inner.iceberg_schema
        self.arrow_schema = self._inner.arrow_schema
        self.needed: Schema | None = None

    def decode(self, values: pa.Array) -> Decoded:
        """See ``JsonDecoder.decode``."""
        decoded = self._inner.decode(payloads(values))
        self.needed = self._inner.needed
        return decoded


def payloads(values: pa.Array) -> pa.Array:
    """Each record's payload, or the record where it has none; binary, without nulls, as ``values``."""
    enveloped = pc.match_substring_regex(values, _BEGINS).to_numpy(zero_copy_only=False)
    if not enveloped.any():
        return values
    parts, places = [values.filter(pa.array(~enveloped))], [np.flatnonzero(~enveloped)]
    left = np.flatnonzero(enveloped)
    for _ in range(_MAX_HEADS):
        if not len(left):
            break
        rest = values.take(pa.array(left))
        head = _head(rest[0].as_py())
        if head is None:
            parts.append(_read(rest.slice(0, 1)))
            places.append(left[:1])
            left = left[1:]
            continue
        cut = pc.and_(pc.starts_with(rest, head), pc.ends_with(rest, b"}"))
        parts.append(pc.binary_slice(rest.filter(cut), len(head), -1))
        is_cut = cut.to_numpy(zero_copy_only=False)
        places.append(left[is_cut])
        left = left[~is_cut]
    parts.append(_read(values.take(pa.array(left))))
    places.append(left)
    return pa.concat_arrays(parts).take(pa.array(_inverse(np.concatenate(places))))


def _inverse(order: Positions) -> Positions:
    inverse = np.empty_like(order)
    inverse[order] = np.arange(len(order))
    return inverse


def _head(record: bytes) -> bytes | None:
    """What stands before the payload; None where that is not plain to see."""
    at = record.find(_JOINT)
    if at < 0 or not record.endswith(b"}"):
        return None
    head = record[: at + len(_JOINT)]
    return head if _is_head(head) else None


@lru_cache(maxsize=256)
def _is_head(head: bytes) -> bool:
    try:
        found = parse(head + b"null}")
    except JsonTextError:  # the joint was inside of the schema
        return False
    return isinstance(found, dict) and found.keys() == {"schema", "payload"} and found["payload"] is None


def _read(values: pa.Array) -> pa.Array:
    """The same, one by one."""
    return pa.array([_payload(value) for value in values.to_pylist()], values.type)


def _payload(record: bytes) -> bytes:
    try:
        found = parse(record)
    except JsonTextError:  # the decoder says why
        return record
    if isinstance(found, dict) and "payload" in found and found.keys() <= {"schema", "payload"}:
        return json_text(found["payload"]).encode()
    return record
