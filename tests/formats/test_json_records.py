"""Numbers that a double cannot hold, found in text wherever they are."""

from __future__ import annotations

import numpy as np
import pytest

from tabletopic_kernel.formats.json import records as json_digits
from tabletopic_kernel.formats.json.records import Bytes, long_fractions, tiny_numbers

CHUNK = json_digits._CHUNK


def text(words: bytes) -> Bytes:
    """As the functions take it."""
    return np.frombuffer(words, np.uint8)


@pytest.mark.parametrize("before", range(CHUNK - 8, CHUNK + 2))
def test_an_exponent_is_found_across_the_ends_of_what_is_looked_at_together(before: int) -> None:
    """The place is that of its hyphen."""
    assert tiny_numbers(text(b" " * before + b"1e-400}")).tolist() == [before + 2]


@pytest.mark.parametrize("before", [0, 1, 5, CHUNK - 20, CHUNK - 10, CHUNK - 1, CHUNK])
def test_a_long_fraction_is_found_likewise(before: int) -> None:
    """The place is that of its first digit."""
    found = long_fractions(text(b" " * before + b"0.1234567890123456789}"))
    assert found.tolist() == [before]


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
