"""How many refused records are too many, and what a topic says of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tabletopic_kernel.pipeline.plan import RefusedRecord, StageResult
from tabletopic_kernel.pipeline.worker.refused import MIN_IF_ALL, MIN_RECORDS, RefusedShare, explain_no_table

BATCHES = st.lists(
    st.integers(1, 600).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), min_size=1
)


@given(BATCHES, st.floats(0, 1))
def test_it_looks_at_the_newest_batches_that_are_enough(batches: list[tuple[int, int]], limit: float) -> None:
    """The fewest of the newest batches that have enough records together; fewer only if all are refused."""
    watch = RefusedShare(limit)
    for at in range(len(batches)):
        over = watch.is_over(*batches[at])
        newest = batches[at::-1]
        sums = [sum(records for records, _ in newest[: n + 1]) for n in range(len(newest))]
        enough = next((n + 1 for n, records in enumerate(sums) if records >= MIN_RECORDS), None)
        if enough is None:
            seen = sum(records for records, _ in newest)
            all_refused = seen >= MIN_IF_ALL and all(records == refused for records, refused in newest)
            assert over == (all_refused and limit < 1)
        else:
            share = sum(refused for _, refused in newest[:enough]) / sums[enough - 1]
            assert over == (share > limit)


@given(BATCHES)
def test_all_is_never_more_than_all(batches: list[tuple[int, int]]) -> None:
    """A limit of 1 switches the watch off."""
    watch = RefusedShare(1)
    assert not any(watch.is_over(records, refused) for records, refused in batches)


def test_a_wrong_setting_is_found_early_and_a_few_bad_records_are_not_taken_for_one() -> None:
    """A hundred records without a row are over the limit; fewer, or one row among them, are not."""
    watch = RefusedShare(0.5)
    assert not watch.is_over(99, 99)
    assert watch.is_over(1, 1)
    assert watch.share == 1
    assert not RefusedShare(0.5).is_over(200, 199)
    after_rows = RefusedShare(0.5)
    assert not after_rows.is_over(400, 0)
    assert not after_rows.is_over(300, 300)


def test_it_says_which_records_no_table_comes_from() -> None:
    """Those without a field, those that ask for no row, and those that were refused, with the first."""
    result = StageResult(
        records=1_007,
        passed_over={"tombstone": 3, "filtered": 1},
        refused={"invalid": 3},
        samples=[RefusedRecord(0, 9, None, "invalid", "not JSON"), RefusedRecord(0, 4, None, "invalid", "x")],
    )
    assert explain_no_table("clicks", result) == (
        "clicks has no table yet, since its first 1,007 records define no columns: "
        "1,000 without a field (no value, or an empty object); "
        "4 that were skipped (filtered, tombstone); "
        "3 that cannot be rows: clicks partition 0 offset 4: invalid: x (and 2 more in this batch). "
        "They wait; the first record with a field creates the table"
    )
