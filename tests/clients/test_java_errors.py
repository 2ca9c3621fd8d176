"""What a failure in Spark says to people."""

from __future__ import annotations

import pytest

from tabletopic_kernel.clients.spark.java_errors import error_of_trouble, reason_of
from tabletopic_kernel.model.errors import LoginRefusedError, RetryableError


def test_a_reason_is_the_last_cause_in_its_own_words() -> None:
    """Not a call of Spark, and not what Spark wraps around it; it may be where a Python trace ends."""
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
        ("ArrowInvalid: Codec 'snappy' doesn't support setting a compression level.", "correct"),
        ("SparkException: Python worker exited unexpectedly (crashed)", "memory"),
        (
            "TimeoutException: Timed out waiting for a node assignment. Call: listTopics",
            "is the broker running",
        ),
        ("KeyError: 'x'", "`tabletopic logs`"),
        ("FileNotFoundException: File file:/lake/SslTimeouts/x does not exist", "`tabletopic logs`"),
    ],
)
def test_what_waits_says_what_failed_why_and_what_to_do(reason: str, advice: str) -> None:
    """Whatever Spark, Kafka or Python say, it stands in a sentence."""
    told = str(error_of_trouble("no batch of clicks was read", ValueError(reason)))
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
    told = str(error_of_trouble("a batch could not be staged", ValueError(trace)))
    assert "retrying: the executor on host-2 has other versions than this host: pyarrow 25.0 inst" in told
    assert "PYTHONPATH" not in told
    assert "install this host's packages there" in told
