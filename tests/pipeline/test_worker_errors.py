"""What a worker says of what went wrong, and how many refused records are too many."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabletopic_kernel.model.errors import LoginRefusedError, RetryableError
from tabletopic_kernel.pipeline.plan import RefusedRecord, StageResult
from tabletopic_kernel.pipeline.worker.errors import (
    MIN_IF_ALL,
    MIN_RECORDS,
    RefusedShare,
    error_of_trouble,
    explain_no_table,
    explain_trouble,
    reason_of,
)

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


def test_it_says_no_more_than_there_is() -> None:
    """Records that are only empty are told as such."""
    told = explain_no_table("clicks", StageResult(records=2))
    assert "columns: 2 without a field (no value, or an empty object). They wait" in told
    refused = StageResult(records=1, refused={"invalid": 1}, samples=[RefusedRecord(0, 0, 7, "invalid", "x")])
    assert "columns: 1 that cannot be rows: clicks partition 0 offset 0, schema id 7" in explain_no_table(
        "clicks", refused
    )


def test_a_reason_is_the_last_cause_in_its_own_words() -> None:
    """Not the name of a call of Spark, and not what Spark wraps around it."""
    java = (
        "An error occurred while calling o267.collectToPython.\n"
        ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 "
        "times, most recent failure: Lost task 0.0 in stage 1.0 (TID 3) (host executor driver): "
        "java.lang.IllegalStateException: stopped\n\tat a.B.c(B.java:1)\nDriver stacktrace:\n\tat d.E(E.java)"
    )
    assert reason_of(ValueError(java)) == "IllegalStateException: stopped"
    caused = java + "\nCaused by: org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized"
    assert reason_of(ValueError(caused)) == "TopicAuthorizationException: Not authorized"
    query = (
        "[STREAM_FAILED] Query [id = 1-2, runId = 3-4] terminated with exception: "
        "org.apache.kafka.common.errors.SslAuthenticationException: no certificate SQLSTATE: XXKST"
    )
    assert reason_of(ValueError(query)) == "SslAuthenticationException: no certificate"


def test_a_reason_is_where_a_python_trace_ends() -> None:
    """Also where frames of the JVM follow it."""
    trace = (
        "An error occurred while calling o1.collect.\n: org.apache.spark.SparkException: Job aborted\n"
        'Traceback (most recent call last):\n  File "x.py", line 1, in f\n'
        "ModuleNotFoundError: No module named 'tabletopic_kernel'\n\n"
        "\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handle(PythonRunner.scala:1)\n"
        "\t... 1 more"
    )
    assert reason_of(ValueError(trace)) == "ModuleNotFoundError: No module named 'tabletopic_kernel'"
    assert reason_of(ValueError("")) == "ValueError"
    assert reason_of(ValueError("plain words")) == "plain words"


@pytest.mark.parametrize(
    ("reason", "is_refused"),
    [
        ("SaslAuthenticationException: Authentication failed: Invalid username or password", True),
        ("SslAuthenticationException: SSL handshake failed", True),
        ("TimeoutException: Timed out waiting for a node assignment. Call: listTopics", False),
    ],
)
def test_a_refused_login_is_told_apart(reason: str, is_refused: bool) -> None:
    """Whoever tries again does so after a minute."""
    error = error_of_trouble("no batch of clicks was read", ValueError(f"org.apache.kafka.common.{reason}"))
    assert isinstance(error, LoginRefusedError) is is_refused
    assert isinstance(error, RetryableError)


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("TopicAuthorizationException: Not authorized to access topics: [t]", "its permissions"),
        ("OSError: [Errno 28] No space left on device", "free disk space"),
        (
            "ValueError: Could not parse table property write.parquet.page-row-limit to an integer: x",
            "correct",
        ),
        ("SparkException: Python worker exited unexpectedly (crashed)", "memory"),
        (
            "TimeoutException: Timed out waiting for a node assignment. Call: listTopics",
            "is the broker running",
        ),
        ("KeyError: 'x'", "`tabletopic logs`"),
    ],
)
def test_what_waits_says_what_failed_why_and_what_to_do(reason: str, advice: str) -> None:
    """Whatever Spark, Kafka or Python say, it stands in a sentence."""
    told = explain_trouble("no batch of clicks was read", ValueError(reason))
    assert told.startswith(f"no batch of clicks was read, retrying: {reason}")
    assert advice in told.partition("What to do: ")[2]


def test_other_versions_of_an_executor_are_named() -> None:
    """Its Python says so as it starts, and Spark puts that in front of the paths it looked at."""
    trace = (
        "An error occurred while calling o1.x.\n: org.apache.spark.SparkException: Job aborted: "
        "Lost task 0.0 (TID 3) (10.0.0.2 executor 1): org.apache.spark.SparkException: \nError from python "
        "worker:\n  the executor on host-2 has other versions than this host: pyarrow 25.0 instead of 26.0\n"
        "PYTHONPATH was:\n  /x\njava.io.EOFException\n\tat a.b.c(D.java:1)"
    )
    told = explain_trouble("a batch could not be staged", ValueError(trace))
    assert "retrying: the executor on host-2 has other versions than this host: pyarrow 25.0 inst" in told
    assert "PYTHONPATH" not in told
    assert "install this host's packages there" in told
