"""The driver's result from two engines, whatever the fast one refuses or suspects."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, NestedField

from tabletopic_kernel.formats import driver
from tabletopic_kernel.formats.arrays import Bodies, Mask
from tabletopic_kernel.formats.rejection import NotRows, Refusal, Refused, UnsupportedError
from tabletopic_kernel.model.dead_letter import NO_SCHEMA_ID

SCHEMA = pa.schema([("body", pa.binary())])
# What a record does to the fast engine: nothing, or it is a suspect, or the group is refused for it: by its
# place, by what the walk over all finds, or for no reason at all.
CLEAR, SUSPECT, PLACE, WALK, DARK = (bytes([at]) for at in range(5))
BAD = b"!"  # behind it: the exact engine takes no such record


class Exact:
    """Gives the body as it is."""

    def row(self, body: bytes) -> bytes:
        """The body."""
        if BAD in body:
            raise Refusal("bad", "it is bad")
        return body

    def batch(self, rows: Sequence[bytes]) -> pa.RecordBatch:
        """One column."""
        return pa.RecordBatch.from_arrays([pa.array(rows, pa.binary())], schema=SCHEMA)


class Fast(driver.FastEngine):
    """Refuses and suspects as the records demand; ``calls`` counts."""

    def __init__(self, min_records: int = 1, max_records: int = 1 << 20) -> None:
        self.min_records = min_records
        self.max_records = max_records
        self.calls = 0

    def rows(self, bodies: Bodies) -> driver.FastRows:
        """The bodies, those of suspects spoilt."""
        self.calls += 1
        assert self.min_records <= len(bodies) <= self.max_records
        found = [bodies.body(at) for at in range(len(bodies))]
        for at, body in enumerate(found):
            if body[:1] in (PLACE, WALK, DARK):
                raise NotRows("no", at if body[:1] == PLACE else None)
            assert BAD not in body or body[:1] == SUSPECT
        suspects = np.array([body[:1] == SUSPECT for body in found], bool)
        spoilt = [b"spoilt" if bad else body for body, bad in zip(found, suspects, strict=True)]
        return driver.FastRows(Exact().batch(spoilt), suspects)

    def suspects(self, bodies: Bodies) -> Mask | None:
        """Those that say so."""
        return np.array([bodies.body(at)[:1] == WALK for at in range(len(bodies))], bool)


def decode(fast: Fast | None, exact: Exact, *groups: Bodies) -> driver.Decoded:
    """The result of a decoder of these engines; None: the fast one does not support their schema."""

    def fast_engine(_: pa.Schema) -> Fast:
        if fast is None:
            raise UnsupportedError("there is none")
        return fast

    schema = Schema(NestedField(1, "body", BinaryType()))
    return driver.EngineDecoder(schema, fast_engine, lambda _: exact).decode_groups(*groups)


def body(kind: bytes, at: int, bad: bool) -> bytes:
    """A record; a bad one never looks good to the fast engine."""
    return (DARK if bad and kind == CLEAR else kind) + str(at).encode() + (BAD if bad else b"")


def values(bodies: Sequence[bytes], front: int) -> pa.Array:
    """Records after a prefix, which do not begin at the array's start."""
    return pa.array([b"before", *(b"f" * front + one for one in bodies)], pa.binary()).slice(1)


def wanted(bodies: Sequence[bytes]) -> tuple[list[bytes], list[Refused]]:
    """The result for each record by itself."""
    rows = [one for one in bodies if BAD not in one]
    return rows, [Refused(at, "bad", "it is bad") for at, one in enumerate(bodies) if BAD in one]


KINDS = st.sampled_from([CLEAR, CLEAR, CLEAR, SUSPECT, PLACE, WALK, DARK])


@settings(max_examples=300)
@given(
    drawn=st.lists(st.tuples(KINDS, st.booleans()), max_size=60),
    front=st.integers(0, 6),
    min_records=st.integers(1, 6),
    max_records=st.integers(6, 70),
    split=st.integers(0, 60),
)
def test_every_record_is_a_row_or_a_rejection_once(
    drawn: list[tuple[bytes, bool]], front: int, min_records: int, max_records: int, split: int
) -> None:
    """Whatever the fast engine says of which group, the result is the exact engine's, in order."""
    bodies = [body(kind, at, bad) for at, (kind, bad) in enumerate(drawn)]
    every = Bodies(values(bodies, front), front)
    chosen = np.arange(len(bodies)) % 3 == 0 if split % 2 else np.arange(len(bodies)) < split
    groups = [every.take(np.flatnonzero(mask)) for mask in (chosen, ~chosen)]
    for fast in (Fast(min_records, max_records), None):
        for parts in ([every], groups):
            rows, refused = decode(fast, Exact(), *parts)
            assert (rows.column(0).to_pylist(), refused) == wanted(bodies)


@pytest.mark.parametrize("kind", [SUSPECT, PLACE, WALK, DARK])
@pytest.mark.parametrize("every", [1, 10])
def test_the_fast_engine_is_not_asked_for_ever(kind: bytes, every: int) -> None:
    """Its calls are bounded by the number of records, not by how many of them are bad."""
    fast = Fast(min_records=2, max_records=1_000)
    bodies = [body(kind if at % every == 0 else CLEAR, at, False) for at in range(20_000)]
    rows, refused = decode(fast, Exact(), Bodies(values(bodies, 5), 5))
    assert (rows.column(0).to_pylist(), refused) == (bodies, [])
    # Each refusal makes two groups at most, and there are 20 to begin with.
    assert fast.calls <= 20 + 3 * 20_000 // driver.RECORDS_PER_REFUSED_GROUP


def test_a_value_shorter_than_its_frame_is_rejected() -> None:
    """It is one bad record, not a shift of the others; its neighbours are rows."""
    found = decode(Fast(), Exact(), Bodies(pa.array([b"fffffA", b"f", b"fffffB"], pa.binary()), 5))
    assert found.rows.column(0).to_pylist() == [b"A", b"B"]
    assert [(one.index, one.reason) for one in found.refused] == [(1, NO_SCHEMA_ID)]
