"""Damage that storage, networks and programs do to bytes, for every format alike."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

SCALE = int(os.environ.get("TABLETOPIC_FUZZ", "1"))  # more of the same, for nights
Damage = Callable[[random.Random, bytes], bytes]
# Bytes that say something in formats made of tags, lengths and zigzag numbers.
_TELLING = [0, 1, 2, 3, 4, 5, 6, 8, 0x0A, 0x0B, 0x0C, 0x7F, 0x80, 0xFF]


def cut(rng: random.Random, raw: bytes) -> bytes:
    """The end is missing."""
    return raw[: rng.randrange(len(raw) + 1)]


def cut_front(rng: random.Random, raw: bytes) -> bytes:
    """The beginning is missing."""
    return raw[rng.randrange(len(raw) + 1) :]


def grow(rng: random.Random, raw: bytes) -> bytes:
    """Extra bytes follow the end."""
    return raw + rng.randbytes(rng.randint(1, 12))


def flip(rng: random.Random, raw: bytes) -> bytes:
    """One bit is flipped."""
    out = bytearray(raw or b"\0")
    out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def byte(rng: random.Random, raw: bytes) -> bytes:
    """One byte is replaced by another meaningful one."""
    out = bytearray(raw or b"\0")
    out[rng.randrange(len(out))] = rng.choice(_TELLING)
    return bytes(out)


def swap(rng: random.Random, raw: bytes) -> bytes:
    """Two bytes are swapped."""
    out = bytearray(raw or b"\0")
    i, j = rng.randrange(len(out)), rng.randrange(len(out))
    out[i], out[j] = out[j], out[i]
    return bytes(out)


# What befalls any bytes, whatever their format.
ANYWHERE: list[Damage] = [cut, cut_front, grow, flip, byte, swap]


def insert(what: Damage) -> Damage:
    """``what`` is inserted somewhere, or replaces a byte."""

    def damage(rng: random.Random, raw: bytes) -> bytes:
        at = rng.randrange(len(raw) + 1)
        return raw[:at] + what(rng, raw) + raw[at + rng.randrange(2) :]

    return damage
