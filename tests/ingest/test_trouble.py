"""What a worker says of records that become no rows."""

from __future__ import annotations

from tabletopic_kernel.ingest.plan import RefusedRecord, StageResult
from tabletopic_kernel.ingest.trouble import explain_no_table


def test_it_says_which_records_no_table_comes_from() -> None:
    """Those without a field, those that ask for no row, and those that were refused, with the first."""
    result = StageResult(
        records=1_007,
        passed_over={"tombstone": 3, "filtered": 1},
        refused={"invalid": 3},
        samples=[RefusedRecord(0, 9, None, "invalid", "not JSON"), RefusedRecord(0, 4, None, "invalid", "x")],
    )
    assert explain_no_table("clicks", result) == (
        "clicks has no table yet, since its first 1,007 records tell of no columns: "
        "1,000 without a field (no value, or an empty object); "
        "4 that ask for no row (filtered, tombstone); "
        "3 that cannot be rows: clicks partition 0 offset 4: invalid: x (and 2 more in this batch). "
        "They wait; the table comes with the first record that has a field"
    )


def test_it_says_no_more_than_there_is() -> None:
    """Records that are only empty are told as such."""
    told = explain_no_table("clicks", StageResult(records=2))
    assert "columns: 2 without a field (no value, or an empty object). They wait" in told
    refused = StageResult(records=1, refused={"invalid": 1}, samples=[RefusedRecord(0, 0, 7, "invalid", "x")])
    assert "columns: 1 that cannot be rows: clicks partition 0 offset 0, schema id 7" in explain_no_table(
        "clicks", refused
    )
