"""No secret of the current settings is in any output, whoever put it there."""

from __future__ import annotations

import base64
import json
import logging
import os
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from urllib.parse import quote

import pytest
from confluent_kafka import KafkaError, KafkaException
from pyspark import SparkContext

from tabletopic_kernel.clients.outside_errors.sorting import plain
from tabletopic_kernel.clients.registry.registry import Registry
from tabletopic_kernel.clients.spark.java_errors import reason_of
from tabletopic_kernel.clients.spark.launch import launch
from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.live_dashboard.view import words
from tabletopic_kernel.host.metrics.questions import Question
from tabletopic_kernel.model.errors import RetryableError, SettingsError, TableTopicError, error_of
from tabletopic_kernel.model.progress.event_json import event_json, event_of_json
from tabletopic_kernel.model.progress.events import (
    Committed,
    ControlEvent,
    DeadLettered,
    Failed,
    Progress,
    RefusedSample,
    Replayed,
    SchemaEvolved,
    SchemaRefused,
)
from tabletopic_kernel.model.redact import HIDDEN, learn, redact
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.config import load_settings
from tabletopic_kernel.workbench.config.servers import find_servers
from tabletopic_kernel.workbench.doctor.check import Failed as FailedCheck
from tabletopic_kernel.workbench.doctor.check import checked
from tabletopic_kernel.workbench.logs import log_to
from tests.workbench.test_shown import EMBEDDED_SECRETS, PAIRED_SECRETS, SECRET_KEYS

MARK = "hunter2-Ä/'\"%+= x"
PLACES = [
    *((key, "{}") for key in SECRET_KEYS),
    *((key, "{}") for key in (
        "kafka.sasl.oauthbearer.assertion.private.key.passphrase",
        "registry.bearer.auth.client.secret", "registry.ssl.key.password", "registry.sasl.password",
        "catalog.glue.secret-access-key", "catalog.glue.session-token", "catalog.client.secret-access-key",
        "catalog.s3.signer.token", "catalog.adls.client-secret", "catalog.adls.token",
        "catalog.header.Authorization", "catalog.hf.token", "catalog.dynamodb.secret-access-key",
        "catalog.rest.authorization-header",
        "spark.conf.spark.authenticate.secret", "spark.conf.spark.hadoop.javax.jdo.option.ConnectionPassword",
        "spark.conf.spark.sql.catalog.other.token",
    )),
    ("catalog.credential", "client:{}"),
    ("registry.basic.auth.user.info", "me:{}"),
    *EMBEDDED_SECRETS,
    *PAIRED_SECRETS,
]  # fmt: skip


def given(place: tuple[str, str], secret: str) -> None:
    """The settings hold a secret."""
    key, form = place
    load_settings({key: form.format(secret)}, environ={}, cwd=Path("/"))


@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place[0]} {place[1]}")
def test_a_secret_in_a_setting_is_in_no_text(place: tuple[str, str]) -> None:
    """Whoever quotes it, and however: as it is, in a URL, in JSON, in a list."""
    secret = "hunter2Value" if place in PAIRED_SECRETS else MARK
    given(place, secret)
    for told in (
        secret,
        quote(secret),
        quote(secret, safe=""),
        json.dumps(secret),
        repr(secret),
        f"<{secret}>",
    ):
        assert "hunter2" not in str(TableTopicError(f"refused: {told}, sorry"))


def test_a_secret_is_known_in_other_forms() -> None:
    """Name and password as a header, a folded key, a signature of Azure wherever it stands."""
    given(("registry.url", "https://me:{}@host"), "p%40ss")
    sent = base64.b64encode(b"me:p@ss").decode()
    assert redact(f"sent {{'Authorization': 'Basic {sent}'}} with p@ss") == (
        f"sent {{'Authorization': 'Basic {HIDDEN}'}} with {HIDDEN}"
    )
    line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"
    given(("kafka.ssl.key.pem", "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----"), line)
    assert line not in redact(f"bad key at line 1: {line}")
    given(("catalog.adls.sas-token", "?sv=2024&sp=rw&sig={}"), "hunter2%2Bx%3D")
    place = "https://acme.blob.core.windows.net/lake/x?se=2030&sig=hunter2%2Bx%3D&sp=rw"
    told = str(TableTopicError(f"GetProperties failed for '{place}'; lent: ?sig=hunter2Other&sv=1"))
    assert "hunter2" not in told
    assert told.count(f"sig={HIDDEN}") == 2
    assert redact("abfss://lake@acme.dfs.core.windows.net/t") == "abfss://lake@acme.dfs.core.windows.net/t"
    assert "hunter2" not in redact("abfss://me:hunter2@acme.dfs.core.windows.net/t")


@pytest.mark.parametrize("secret", ["abc", "true", "10", "kafka"])
def test_a_secret_that_is_a_common_word_takes_no_message_apart(secret: str) -> None:
    """It is hidden where a password stands, and nowhere else."""
    learn({"sasl.password": secret})
    assert redact("it is true: kafka has 10 abcs") == "it is true: kafka has 10 abcs"
    assert secret not in redact(f"http://me:{secret}@host").removeprefix("http")
    assert secret not in redact(f"password={secret}, retry").removesuffix("retry")


@pytest.mark.parametrize(
    "text",
    [
        "basic types, and an unexpected token: 7; see http://host/path?a=b, or mail me@host.example",
        "partition 3 offset 12: field a.b = 5 does not fit; state running",
        "the broker at 127.0.0.1:9092,127.0.0.1:9093 does not respond",
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    """What is no secret can be read on."""
    assert redact(text) == text


def test_settings_that_were_not_loaded_are_known_too() -> None:
    """A workbench may be made of settings that a program put together."""
    properties = {"bootstrap.servers": "a:1", "sasl.password": MARK}
    settings = Settings(
        kafka=properties, registry={"url": f"http://me:{MARK}@h"}, catalog={"uri": "sqlite://"}
    )
    servers = find_servers(settings)
    assert MARK not in repr(servers)
    assert "hunter2" not in repr(servers)
    assert MARK not in redact(f"it was {MARK}")


# --- who writes -------------------------------------------------------------------------------------------

AT: dict[str, Any] = {"topic": "hunter2secret", "at_ms": 1, "host": "h"}
EVENTS: list[ControlEvent] = [
    Failed(**AT, reason=f"no: {MARK}", waits=True),
    Committed(
        **AT, snapshot_id=1, rows=1, files=1, bytes=1, seconds=1,
        progress=Progress(topic=AT["topic"], table="t", error=f"url http://u:{MARK}@h"),
    ),
    SchemaRefused(**AT, refused={"a": f"bad {MARK}"}, cause=None),
    SchemaEvolved(**AT, changes=[f"add {MARK}"], cause=None, table_schema_id=1),
    DeadLettered(
        **AT, counts={"bad": 1},
        samples=[RefusedSample(partition=0, offset=1, schema_id=2, reason="bad", message=f"got {MARK}")],
    ),
    Replayed(**AT, replay_id="x", rows=0, error=f"no {MARK}"),
]  # fmt: skip


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)
def test_events_hold_no_secrets(event: ControlEvent) -> None:
    """Neither as they are written nor, from a host that knew less, as they are read; names stay."""
    told = event.model_dump_json()
    learn({"sasl.password": MARK, "token": AT["topic"]})
    for masked in (event_of_json(event_json(event)), event_of_json(told)):
        assert MARK not in str(masked.model_dump())
        assert masked.topic == AT["topic"]


def test_logs_hold_no_secrets(tmp_path: Path) -> None:
    """Messages with their arguments, and traces; and nobody else may enter the folder."""
    learn({"sasl.password": MARK})
    handler = log_to(tmp_path / "state", "serve.log")
    log = logging.getLogger("tests.secrets")
    try:
        try:
            raise ValueError(f"inner {MARK}")
        except ValueError:
            log.exception("it was %s", MARK)
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()
    text = (tmp_path / "state" / "logs" / "serve.log").read_text()
    assert f"it was {HIDDEN}" in text
    assert f"ValueError: inner {HIDDEN}" in text
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700


def test_terminals_show_no_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    """Errors, remarks, and the trace that --debug asks for."""
    learn({"sasl.password": MARK})
    cause = ValueError(MARK)
    for error in (RetryableError(f"no: {MARK}"), cause):
        error.__context__ = None if error is cause else cause
        screen.trace(error)
        screen.error(error_of(error))
        screen.note(str(error_of(error)))
    told = capsys.readouterr().err
    assert "hunter2" not in told
    assert told.count(HIDDEN) >= 6


def test_what_people_read_shows_no_secrets() -> None:
    """Checks quote servers; long messages are masked before they are cut; the registry has no login."""
    learn({"sasl.password": MARK})
    for length in range(280, 500, 7):
        error = OSError(f"{'x' * length} {MARK} and more")
        for told in (plain(error), reason_of(error)):
            assert "hunter" not in told
    learn({"sasl.password": MARK})
    for error in (ValueError(MARK), RetryableError(MARK), SettingsError(MARK), FailedCheck(MARK, "remedy")):
        check = checked("broker", Mock(side_effect=error))
        assert "hunter2" not in str(check)
        assert HIDDEN in check.detail
    registry = Registry({"url": "http://me:hunter2@127.0.0.1:1", "timeout": "1"})
    with pytest.raises(RetryableError) as caught:
        registry.check()
    assert "http://***@127.0.0.1:1" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    event = Failed(**AT, reason="the disk is full", waits=False)
    assert event_of_json(event_json(event)) == event


def test_questions_and_pages_show_no_secrets() -> None:
    """Of a server that does not respond, and of a bug."""
    learn({"sasl.password": MARK})
    client_error = KafkaException(KafkaError(KafkaError._TRANSPORT, f"no: {MARK}"))
    for error in (client_error, ValueError(MARK), RetryableError(MARK)):
        question = Question("broker", Mock(side_effect=error), 60)
        question.once()
        for told in (str(question.trouble), words(error)):
            assert HIDDEN in told
            assert "hunter2" not in told


def test_spark_is_started_without_secrets_on_its_command_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They are in files that only their owner reads, while the JVM starts."""
    seen = SimpleNamespace(arguments="", files={}, modes=set())

    def start() -> None:
        seen.arguments = os.environ["PYSPARK_SUBMIT_ARGS"]
        (folder,) = tmp_path.iterdir()
        seen.modes.add(stat.S_IMODE(folder.stat().st_mode))
        seen.files = {file.name: file.read_text() for file in folder.iterdir()}

    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--verbose pyspark-shell")
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(SparkContext, "_ensure_initialized", start)
    options = '-Xss4m "-Djavax.net.ssl.trustStorePassword=hunter2 b\'c"'
    launch({"spark.a.secret": " hunter2=x:\n東", "spark.driver.extraJavaOptions": options}, tmp_path)
    assert "hunter2" not in seen.arguments
    assert seen.arguments.endswith(" --verbose pyspark-shell")
    assert seen.modes == {0o700}
    properties = seen.files["spark.properties"].splitlines()
    assert properties[0] == r"spark.a.secret=\ hunter2\=x\:\n\u6771"
    assert "hunter2" not in properties[1]
    assert seen.files["jvm.options"] == "'-Djavax.net.ssl.trustStorePassword=hunter2 b'\"'\"'c'"
    assert list(tmp_path.iterdir()) == []
