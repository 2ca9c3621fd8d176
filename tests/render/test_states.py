"""A standing comes from the kind of an error, and never from its text."""

from __future__ import annotations

import pytest

from tabletopic_kernel.clients.kafka.connection_errors import ConnectionErrors, explain_silence
from tabletopic_kernel.clients.login_gate import LoginGate
from tabletopic_kernel.clients.registry.errors import explain_failure
from tabletopic_kernel.clients.spark.java_errors import error_of_trouble
from tabletopic_kernel.model.errors import (
    CATALOG,
    RECORDS,
    SUBJECT,
    ActionNeededError,
    BadRecordError,
    InternalError,
    LoginRefusedError,
    RetryableError,
    TableTopicError,
    Trouble,
    Verdict,
)
from tabletopic_kernel.model.progress.events import ErrorKind, Progress
from tabletopic_kernel.render.states import standing_of

SILENT = explain_silence({"bootstrap.servers": "127.0.0.1:1"}, ConnectionErrors(), "timed out")
LOST = explain_failure("http://r", "subjects", OSError("connection refused"))


@pytest.mark.parametrize(
    ("state", "error", "standing"),
    [
        ("waiting", SILENT, "waiting_for_broker"),
        ("waiting", error_of_trouble("no batch was read", SILENT), "waiting_for_broker"),
        ("waiting", error_of_trouble("no batch was read", OSError("Timeout")), "waiting_for_broker"),
        ("waiting", LOST, "waiting_for_registry"),
        ("waiting", RetryableError(Trouble("is busy", "", CATALOG, "catalogs.b")), "waiting_for_catalog"),
        ("waiting", RetryableError("clicks: it has none", system=SUBJECT), "waiting_for_schema"),
        ("failed", BadRecordError("none became a row", system=RECORDS), "refused_too_much"),
        ("failed", SILENT, "failed"),
        ("waiting", RetryableError("the registry, the catalog and the broker are words here"), "waiting"),
    ],
)
def test_what_an_error_is_about(state: str, error: TableTopicError, standing: str) -> None:
    """Its system decides, through the control topic's JSON; words of its text do not."""
    progress = Progress(topic="t", table="d.t", error=str(error), error_kind=ErrorKind.of(error))
    read = Progress.model_validate_json(progress.model_dump_json())
    assert standing_of(state, None, read.error_kind) == standing


def test_progress_of_an_older_host() -> None:
    """Its error has no kind, so the standing is the state alone."""
    read = Progress.model_validate_json('{"topic": "t", "table": "d.t", "error": "the registry is away"}')
    assert standing_of("waiting", None, read.error_kind) == "waiting"


@pytest.mark.parametrize(
    ("error", "section", "verdict"),
    [
        (SILENT, "kafka", Verdict.WAIT),
        (LOST, "registry", Verdict.WAIT),
        (ActionNeededError("a gap"), "", Verdict.ACT),
        (InternalError("never"), "", Verdict.BUG),
    ],
)
def test_the_kind_of_an_error(error: TableTopicError, section: str, verdict: Verdict) -> None:
    """It has the section of the settings, and says who acts."""
    kind = ErrorKind.of(error)
    assert (kind.section, kind.verdict) == (section, verdict)


def test_a_gate_keeps_what_refused_the_login() -> None:
    """The error of the minute after a refusal is about the same system."""
    gate = LoginGate()
    gate.note(LoginRefusedError("the registry at http://r refuses the login", system="the registry"))
    with pytest.raises(LoginRefusedError, match="at http://r refuses") as refused:
        gate.check()
    assert ErrorKind.of(refused.value).system == "the registry"
