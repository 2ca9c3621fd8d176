"""A worker's error messages, and how many rejected records are too many.

A wrong setting must not pour a whole topic into dead letters.
"""

from __future__ import annotations

import itertools
import re
from collections import deque
from typing import Final

from tabletopic_kernel.clients.spark.java_errors import text_of
from tabletopic_kernel.clients.spark.versions import OTHER_VERSIONS
from tabletopic_kernel.model.errors import LoginRefusedError, RetryableError
from tabletopic_kernel.model.redact import redact
from tabletopic_kernel.pipeline.plan import StageResult

# Fewer say nothing about a topic: dead letters are for a handful of bad records in a row.
MIN_RECORDS: Final = 1_000
# Unless none of the records since the start became a row: that is not bad luck.
MIN_IF_ALL: Final = 100


class RefusedShare:
    """Watches the newest batches that together have at least ``MIN_RECORDS`` records.

    Before that, ``MIN_IF_ALL`` are enough if all of them were refused.

    >>> watch = RefusedShare(limit=0.5)
    >>> watch.is_over(records=900, refused=850)
    False
    >>> watch.is_over(records=100, refused=0), watch.share
    (True, 0.85)
    >>> RefusedShare(limit=0.5).is_over(records=100, refused=100)
    True
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._batches: deque[tuple[int, int]] = deque()

    @property
    def records(self) -> int:
        """The number of records watched now."""
        return sum(records for records, _ in self._batches)

    @property
    def share(self) -> float:
        """The share of them that was refused, 0 to 1."""
        return sum(refused for _, refused in self._batches) / max(1, self.records)

    def is_over(self, records: int, refused: int) -> bool:
        """Add a batch; returns whether more than ``limit`` of the newest records were refused."""
        self._batches.append((records, refused))
        while self.records - self._batches[0][0] >= MIN_RECORDS:
            self._batches.popleft()
        enough = MIN_IF_ALL if self.share == 1 else MIN_RECORDS
        return self.records >= enough and self.share > self._limit


_MOST: Final = 500  # characters of a reason
_CALL: Final = re.compile(r"An error occurred while calling ")  # Py4J's prefix for any error
_FRAME: Final = re.compile(r"at [\w.$/<>]+\(|\.\.\. \d+ more")
_LOST_TASK: Final = re.compile(r".*\(TID \d+\) \([^)]*\): ")
_QUERY: Final = re.compile(
    r"\[STREAM_FAILED\] Query \[id = [^\]]*\] terminated with exception: | SQLSTATE: \w+$"
)
_OURS: Final = re.compile(r"^tabletopic_kernel\.[\w.]+: ")  # a trace ends with the class's full name
_CLASS_PATH: Final = re.compile(r"^(?:[a-z]\w*\.)+(?=[A-Z]\w*(?:Exception|Error))")


_OTHER_VERSIONS: Final = re.compile(rf"the executor on \S+ {OTHER_VERSIONS}: [^\n]*")
_LOGIN: Final = re.compile(r"\bS(?:as|s)lAuthenticationException")
# The remedy, by words of the reason; the first match counts.
_ADVICE: Final = tuple(
    (re.compile(words), advice)
    for words, advice in (
        (
            "Authoriz|Authentic|Sasl|Ssl|AccessDenied|ACCESS_DENIED|Permission denied",
            "check the login in the settings and its permissions",
        ),
        (OTHER_VERSIONS, "install this host's packages there, or ship them (docs/production.md)"),
        (
            "table property|metrics mode|Malformed truncate|Truncation length|Unsupported compression",
            "correct the table's property with --table-property, or ALTER TABLE … SET TBLPROPERTIES",
        ),
        ("No space left|Disk quota", "free disk space; `tabletopic config` shows where the tables are"),
        (
            "MemoryError|OutOfMemory|Cannot allocate|Python worker (?:exited|crashed)|EOFException",
            "the machine may be short of memory: stop other programs, or add memory",
        ),
        (
            "Timeout|Timed out|Disconnect|Connection refused|KafkaAdminClient|No resolvable bootstrap",
            "is the broker running (`tabletopic up` starts a local one), and is [kafka] bootstrap.servers "
            "right?",
        ),
    )
)
_NO_ADVICE: Final = "if this persists, see `tabletopic logs`"


def explain_trouble(what: str, error: Exception) -> str:
    """What failed in Spark, why, and what to do next; ``what`` is the beginning of the sentence.

    >>> explain_trouble("no batch of clicks was read", OSError("[Errno 28] No space left on device"))[:76]
    'no batch of clicks was read, retrying: [Errno 28] No space left on device. W'
    """
    reason = reason_of(error)
    advice = next((text for words, text in _ADVICE if words.search(reason)), _NO_ADVICE)
    return f"{what}, retrying: {reason.rstrip('.')}. What to do: {advice}"


def error_of_trouble(what: str, error: Exception) -> RetryableError:
    """``explain_trouble`` as an error; a LoginRefusedError if the broker refuses Spark's clients."""
    text = explain_trouble(what, error)
    return LoginRefusedError(text) if _LOGIN.search(text) else RetryableError(text)


def explain_refused(topic: str, result: StageResult) -> str:
    """The first refused record, and how many more there are."""
    first = min(result.samples, key=lambda bad: (bad.partition, bad.offset))
    more = f" (and {result.refused_count - 1} more in this batch)" if result.refused_count > 1 else ""
    schema = f", schema id {first.schema_id}" if first.schema_id is not None else ""
    return (
        f"{topic} partition {first.partition} offset {first.offset}{schema}: "
        f"{first.reason}: {first.message}{more}"
    )


def explain_alike(topic: str, result: StageResult) -> str:
    """Why a batch was not staged whose records all caused the same exception."""
    count = sum(result.failed.values())
    lines = "; ".join(result.traces) or ", ".join(result.failed)
    return (
        f"all {count:,} records of a batch of {topic} fail alike, which points to a bug or a wrong "
        f"setting; the batch was not staged: {lines}. The log has the full trace. Correct the setting or "
        "update the program and resume the topic, or accept such records with max_refused_share = 1"
    )


def explain_no_table(topic: str, result: StageResult) -> str:
    """Why these records did not create a table, and what would."""
    passed = sum(result.passed_over.values())
    without = result.records - result.refused_count - passed
    found = [f"{without:,} without a field (no value, or an empty object)"] if without else []
    if passed:
        found.append(f"{passed:,} that were skipped ({', '.join(sorted(result.passed_over))})")
    if result.refused_count:
        why = f": {explain_refused(topic, result)}" if result.samples else ""
        found.append(f"{result.refused_count:,} that cannot be rows{why}")
    return (
        f"{topic} has no table yet, since its first {result.records:,} records define no columns: "
        f"{'; '.join(found)}. They wait; the first record with a field creates the table"
    )


def reason_of(error: Exception) -> str:
    """The relevant line of a Spark failure: the end of a Python trace, or else the last cause.

    >>> reason_of(ValueError("An error occurred while calling o267.collectToPython.\\n: org.apache.spark."
    ...     "SparkException: Job aborted: Lost task 0.0 (TID 3) (host executor driver): org.apache.kafka."
    ...     "TopicAuthorizationException: Not authorized to access topics: [t]\\n\\tat a.b.c(D.java:1)"))
    'TopicAuthorizationException: Not authorized to access topics: [t]'
    """
    text = redact(text_of(error))  # first: half of a secret would not be recognized
    if found := _OTHER_VERSIONS.search(text):
        return found[0][:_MOST]
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    traces = [at for at, line in enumerate(lines) if line.startswith("Traceback")]
    if traces:
        # Below the trace are frames of the JVM, if Spark reports it.
        trace = list(itertools.takewhile(lambda line: not _FRAME.match(line), lines[traces[-1] :]))
        return _OURS.sub("", trace[-1])[:_MOST]
    causes = [line.partition("Caused by:")[2] for line in lines if line.startswith("Caused by:")]
    messages = [line.removeprefix(": ") for line in lines if not _CALL.match(line)]
    text = _LOST_TASK.sub("", (causes or messages or lines)[-1 if causes else 0].strip())
    return _CLASS_PATH.sub("", _QUERY.sub("", text)).strip()[:_MOST] or type(error).__name__
