"""What a failure in Spark says to people: its text, the relevant line of a trace, and what to do about it."""

from __future__ import annotations

import itertools
import re
from typing import Final

from tabletopic_kernel.clients.outside_errors.names import without_names
from tabletopic_kernel.clients.spark.versions import OTHER_VERSIONS
from tabletopic_kernel.model.errors import BROKER, LoginRefusedError, RetryableError, TableTopicError, Trouble
from tabletopic_kernel.model.redact import redact

_MOST: Final = 500  # characters of a reason
_CALL: Final = re.compile(r"An error occurred while calling ")  # Py4J's prefix for any error
_FRAME: Final = re.compile(r"at [\w.$/<>]+\(|\.\.\. \d+ more")
_LOST_TASK: Final = re.compile(r"^.*\(TID \d+\) \([^)]*\): ")
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
            "(?i:authoriz)|Authentic|Sasl|Ssl|AccessDenied|ACCESS_DENIED|Permission denied",
            "check the login in the settings and its permissions",
        ),
        (OTHER_VERSIONS, "install this host's packages there, or ship them with `tabletopic pack`"),
        (
            "table property|metrics mode|Malformed truncate|Truncation length|Unsupported compression|"
            "compression level",
            "correct the table's property with --table-property, or ALTER TABLE … SET TBLPROPERTIES",
        ),
        (
            "No space left|Disk quota",
            "free disk space; `tabletopic config` shows state_dir and the warehouse",
        ),
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


def error_of_trouble(what: str, error: Exception) -> RetryableError:
    """What failed in Spark, why, and what to do next; ``what`` is the beginning of the sentence.

    A LoginRefusedError if the broker refuses Spark's clients.

    >>> str(error_of_trouble("no batch was read", OSError("[Errno 28] No space left on device")))[:66]
    'no batch was read, retrying: [Errno 28] No space left on device. W'
    """
    if isinstance(error, TableTopicError) and isinstance(error.args[0], Trouble):  # with its own remedy
        return RetryableError(error.behind(f"{what}, retrying: "))
    if isinstance(error, LoginRefusedError):
        return LoginRefusedError(error.behind(f"{what}, retrying: "), system=error.trouble.system)
    reason = reason_of(error)
    words_of_reason = without_names(reason)
    advice = next((text for words, text in _ADVICE if words.search(words_of_reason)), _NO_ADVICE)
    kind = LoginRefusedError if _LOGIN.search(words_of_reason) else RetryableError
    system = error.trouble.system if isinstance(error, TableTopicError) else ""
    if kind is LoginRefusedError or "[kafka]" in advice:
        system = system or BROKER
    return kind(f"{what}, retrying: {reason.rstrip('.')}. What to do: {advice}", system=system)


def text_of(error: BaseException) -> str:
    """The error's text. Py4J's error asks the JVM for it, which fails if the JVM is gone.

    >>> text_of(OSError("no space"))
    'no space'
    """
    try:
        return str(error)
    except Exception as failure:
        return f"{getattr(error, 'errmsg', type(error).__name__)}: Spark's JVM has ended: {failure}"


def reason_of(error: Exception) -> str:
    """The relevant line of a Spark failure: the end of a Python trace, or else the last cause.

    >>> reason_of(ValueError("An error occurred while calling o267.collectToPython.\\n: org.apache.spark."
    ...     "SparkException: Job aborted: Lost task 0.0 (TID 3) (host executor driver): org.apache.kafka."
    ...     "TopicAuthorizationException: Not authorized to access topics: [t]\\n\\tat a.b.c(D.java:1)"))
    'TopicAuthorizationException: Not authorized to access topics: [t]'
    """
    text = redact(text_of(error))  # first: half of a secret would not be recognized
    if match := _OTHER_VERSIONS.search(text):
        return match[0][:_MOST]
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    traces = [index for index, line in enumerate(lines) if line.startswith("Traceback")]
    if traces:
        # Below the trace are frames of the JVM, if Spark reports it.
        trace = list(itertools.takewhile(lambda line: not _FRAME.match(line), lines[traces[-1] :]))
        return _OURS.sub("", trace[-1])[:_MOST]
    causes = [line.partition("Caused by:")[2] for line in lines if line.startswith("Caused by:")]
    messages = [line.removeprefix(": ") for line in lines if not _CALL.match(line)]
    text = _LOST_TASK.sub("", (causes or messages or lines)[-1 if causes else 0].strip())
    return _CLASS_PATH.sub("", _QUERY.sub("", text)).strip()[:_MOST] or type(error).__name__
