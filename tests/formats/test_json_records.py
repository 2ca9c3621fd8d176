"""Numbers that a double cannot hold, found in text wherever they are."""

from __future__ import annotations

import numpy as np
import pytest

from tabletopic_kernel.formats.json.records import Bytes, tiny_numbers


def text(words: bytes) -> Bytes:
    """As the functions take it."""
    return np.frombuffer(words, np.uint8)


@pytest.mark.parametrize(
    "words",
    [
        b'"ea9fc105-1d2e-47f8-a66e-338985224357"}',  # a UUID
        b'"0e-1234567890ab"}',
        b"1e-99}",
        b"e-400}",
        b"-400}",
        b"-",
        b"",
    ],
)
def test_what_is_no_tiny_number(words: bytes) -> None:
    """Nothing that needs the exact engine."""
    assert not len(tiny_numbers(text(words)))


@pytest.mark.parametrize("words", [b"1e-0000000000000000400}", b"1E-400,", b"1.5e-307 "])
def test_what_may_be_one(words: bytes) -> None:
    """Also with a small e, zeros in front, and white space behind."""
    assert len(tiny_numbers(text(words))) == 1
