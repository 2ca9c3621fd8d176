"""The ledger: encoding, merging, contiguity."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabletopic_kernel.model.errors import InternalError
from tabletopic_kernel.model.ledger import Ledger, Outliers, StagedOffsets, check_contiguous

OFFSETS = st.dictionaries(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), max_size=20)
LEDGERS = st.builds(
    Ledger,
    topic=st.text(min_size=1),
    cluster_id=st.text(),
    topic_id=st.text(),
    next_offsets=OFFSETS,
    epoch=st.integers(0, 2**31),
    commit_id=st.uuids().map(str),
    newest_ms=OFFSETS,
    commits=st.integers(0, 2**40),
    swept_epoch=st.integers(0, 2**31),
    refused=st.dictionaries(st.text(), st.integers(1, 2**40), max_size=5),
    replay_id=st.none() | st.text(min_size=1),
    outliers=st.dictionaries(
        st.integers(0, 2**31 - 1), st.builds(Outliers, *[st.integers(0, 2**63 - 1)] * 3), max_size=3
    ),
    last_records=st.dictionaries(
        st.integers(0, 9), st.tuples(st.integers(0, 2**63 - 1), st.text()), max_size=5
    ),
    truncated=st.dictionaries(
        st.integers(0, 9), st.tuples(st.tuples(*[st.integers(0, 2**40)] * 3)), max_size=5
    ),
)


@given(LEDGERS)
def test_summary_round_trip(ledger: Ledger) -> None:
    """A ledger comes back from a snapshot summary as it went in."""
    assert Ledger.from_summary(ledger.to_summary()) == ledger


@given(LEDGERS)
def test_summary_is_text(ledger: Ledger) -> None:
    """Iceberg summaries hold text only, under our prefix."""
    assert all(isinstance(value, str) for value in ledger.to_summary().values())
    assert all(key.startswith("tabletopic.") for key in ledger.to_summary())


@st.composite
def _batches(draw: st.DrawFn) -> list[StagedOffsets]:
    """A contiguous run of batches over a few partitions, partitions may join late."""
    position = draw(st.dictionaries(st.integers(0, 5), st.integers(0, 100), min_size=1))
    batches = []
    for _ in range(draw(st.integers(1, 6))):
        for new in draw(st.sets(st.integers(0, 9), max_size=2)):
            position.setdefault(new, 0)
        end = {p: at + draw(st.integers(0, 50)) for p, at in position.items()}
        newest = {p: draw(st.integers(0, 10**13)) for p in end if end[p] > position[p]}
        batches.append(StagedOffsets(dict(position), end, newest))
        position = dict(end)
    return batches


def _ledger(offsets: dict[int, int]) -> Ledger:
    return Ledger("t", "c", "i", offsets, 1, "first")


@given(_batches())
def test_advance_is_associative(batches: list[StagedOffsets]) -> None:
    """Batches committed together or one by one lead to the same offsets and timestamps."""
    start = _ledger(dict(batches[0].start))
    one_by_one = start
    for batch in batches:
        one_by_one = one_by_one.advanced(batch, "last")
    merged = batches[0]
    for batch in batches[1:]:
        merged = merged.then(batch)
    together = start.advanced(merged, "last")
    assert replace(one_by_one, commits=1) == together
    assert merged.records == sum(batch.records for batch in batches)


@given(_batches(), st.integers(-5, 5).filter(bool))
def test_a_shifted_batch_is_refused(batches: list[StagedOffsets], shift: int) -> None:
    """Rows that do not start where the ledger ends would be lost or doubled (I1)."""
    first = batches[0]
    partition = next(iter(first.start))
    moved = {**first.start, partition: first.start[partition] + shift}
    with pytest.raises(InternalError, match="contiguous"):
        _ledger(moved).advanced(first, "x")


def test_contiguity_and_watermark() -> None:
    """A partition that joins later has no end before; the slowest one's newest timestamp counts."""
    check_contiguous({0: 5}, {0: 5, 1: 77})
    assert replace(_ledger({}), newest_ms={0: 50, 1: 40}).watermark_ms == 40
    assert _ledger({}).watermark_ms is None
    assert Ledger.from_summary({"operation": "append", "added-records": "3"}) is None


def test_claim_raises_the_epoch_only() -> None:
    """A new owner changes epoch and commit id, nothing else (I5)."""
    before = _ledger({0: 5})
    after = before.claimed(2, "claim")
    assert replace(after, epoch=1, commit_id="first") == before
    with pytest.raises(InternalError):
        after.claimed(2, "again")


def test_what_is_gone_is_skipped_and_counted() -> None:
    """The ledger goes behind the gap, keeps what was lost by partition, and says so to who reads it (I8)."""
    before = Ledger("t", "c", "i", {0: 10, 1: 20}, 3, "x", lost={0: 5})
    after = before.skipping({0: (10, 14), 1: (20, 21)}, "y")
    assert dict(after.next_offsets) == {0: 14, 1: 21}
    assert dict(after.lost) == {0: 9, 1: 1}
    assert (after.commit_id, after.epoch) == ("y", 3)
    assert Ledger.from_summary(after.to_summary()) == after


def test_a_cut_log_is_read_again_from_the_cut() -> None:
    """Offsets and the last record of its partitions go back; marks of earlier cuts stay."""
    last, marks = {0: (9, "x"), 1: (19, "y")}, {0: ((3, 4, 1),)}
    before = Ledger("t", "c", "i", {0: 10, 1: 20}, 3, "x", commits=7, last_records=last, truncated=marks)
    after = before.cut_back({0: (6, 10)}, marked=True)
    assert (after.next_offsets, after.last_records) == ({0: 6, 1: 20}, {1: (19, "y")})
    assert after.truncated == {0: ((3, 4, 1), (6, 10, 7))}
    assert before.cut_back({0: (6, 10)}).truncated == marks


def test_a_time_of_the_future_does_not_stay() -> None:
    """A ledger with the year 2553 has today's times with its next commit, and counts who is ahead."""
    today, year_2553 = 1_700_000_000_000, 18_400_000_000_000
    before = Ledger("t", "c", "i", {0: 5, 1: 5}, 1, "a", newest_ms={0: year_2553, 1: today})
    staged = StagedOffsets({0: 5}, {0: 9}, {0: today - 7}, {0: Outliers(2, 8, year_2553)})
    after = before.advanced(staged, "b", now_ms=today)
    assert (after.newest_ms, after.watermark_ms) == ({0: today - 7, 1: today}, today - 7)
    assert after.outliers == {0: Outliers(2, 8, year_2553)}
    again = after.advanced(StagedOffsets({0: 9}, {0: 11}, {0: year_2553}), "c", now_ms=today)
    assert again.newest_ms == after.newest_ms
