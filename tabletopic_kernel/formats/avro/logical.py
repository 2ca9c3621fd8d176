"""Logical types: one that does not fit its base type, or has invalid attributes, is ignored (Avro 1.12)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

# Python prints integers of up to 4,300 digits. A decimal with more is plain bytes here.
MAX_DIGITS: Final = 4_000

_LOGICAL_OF: Final = {
    "int": {"date", "time-millis"},
    "long": {
        "time-micros",
        "timestamp-millis",
        "timestamp-micros",
        "local-timestamp-millis",
        "local-timestamp-micros",
    },
    "string": {"uuid"},
}


@dataclass(frozen=True)
class Decimal:
    """The logical type decimal; 0 <= scale <= precision, precision >= 1."""

    precision: int
    scale: int


def primitive_logical(kind: str, node: Mapping[str, Any]) -> str | Decimal | None:
    """The logical type of a primitive, if it is valid."""
    logical = node.get("logicalType")
    if kind == "bytes" and logical == "decimal":
        return _decimal(node, None)
    return logical if isinstance(logical, str) and logical in _LOGICAL_OF.get(kind, ()) else None


def fixed_logical(node: Mapping[str, Any], size: int) -> str | Decimal | None:
    """The logical type of ``fixed``, if it is valid."""
    logical = node.get("logicalType")
    if logical == "decimal":
        # The largest number that fits has floor(log10(2^(8n-1) - 1)) digits (Avro 1.12, "Decimal").
        return _decimal(node, int((8 * size - 1) * math.log10(2)) if size else 0)
    if (logical, size) in (("uuid", 16), ("duration", 12)):
        return str(logical)
    return None


def _decimal(node: Mapping[str, Any], most_digits: int | None) -> Decimal | None:
    precision, scale = node.get("precision"), node.get("scale", 0)
    if type(precision) is not int or type(scale) is not int:
        return None
    most = MAX_DIGITS if most_digits is None else min(most_digits, MAX_DIGITS)
    return Decimal(precision, scale) if 1 <= precision <= most and 0 <= scale <= precision else None
