"""The displayed settings: all of them, and never a secret."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabletopic_kernel.model import redact
from tabletopic_kernel.model.errors import SettingsError, UsageError
from tabletopic_kernel.workbench.config import (
    DEFAULT,
    EMBEDDED,
    check_something_to_start,
    describe,
    load_settings,
    own_servers,
)


def test_describe_lists_every_setting_in_order(load) -> None:
    """Section by section, defaults too."""
    rows = describe(load('[catalog]\nuri = "sqlite:///x.db"\n[topics.a]'))
    assert [row.key for row in rows[:6]] == [
        "state_dir", "kafka.bootstrap.servers", "registry.url", "catalog.name", "catalog.uri", "spark.master",
    ]  # fmt: skip
    assert ("catalog.name", "lake", DEFAULT) in rows
    assert ("topics.a.metadata_columns", "key, header, metadata", DEFAULT) in rows


def test_absent_servers_read_as_embedded(load) -> None:
    """A server counts as absent without its address, whatever else is set about it."""
    absent = ["kafka.bootstrap.servers", "registry.url", "catalog.uri"]
    rows = describe(load(overrides={"kafka.client.id": "x", "registry.timeout": 5, "catalog.name": "prod"}))
    assert [row.key for row in rows if row.value == EMBEDDED] == absent
    rows = describe(
        load(overrides={"kafka.metadata.broker.list": "x:1", "registry.url": "x", "catalog.type": "glue"})
    )
    assert EMBEDDED not in [row.value for row in rows]
    rows = describe(load(overrides={"registry.type": "glue"}))
    assert "registry.url" not in [row.key for row in rows], "AWS Glue's registry has no URL"


SECRET_KEYS = [
    "kafka.sasl.password", "kafka.sasl.jaas.config", "kafka.ssl.key.password", "kafka.ssl.key.pem",
    "kafka.ssl.keystore.password", "kafka.sasl.oauthbearer.client.secret", "kafka.sasl.oauthbearer.config",
    "registry.basic.auth.user.info", "registry.bearer.auth.token", "registry.ssl.key.password",
    "catalog.credential", "catalog.token", "catalog.s3.access-key-id", "catalog.s3.secret-access-key",
    "catalog.s3.session-token", "catalog.adls.account-key", "catalog.adls.connection-string",
    "catalog.adls.sas-token", "catalog.adls.sas-token.acme.dfs.core.windows.net", "catalog.adls.credential",
    "catalog.gcs.oauth2.token", "catalog.header.authorization", "spark.conf.spark.hadoop.fs.s3a.access.key",
    "spark.conf.spark.hadoop.fs.s3a.secret.key", "spark.conf.spark.ssl.keyPassword",
    "topics.a.table_properties.write.some.password",
]  # fmt: skip
EMBEDDED_SECRETS = [
    ("registry.url", "https://me:{}@host:8081/path"),
    ("kafka.bootstrap.servers", "me:{}@host:9092"),
    ("catalog.uri", "postgresql+psycopg://me:{}@db/lake?sslmode=on"),
    ("catalog.header.x-thing", "Bearer {}"),
]
# No spaces in these: the value says nothing about where such a secret ends.
PAIRED_SECRETS = [
    ("catalog.uri", "jdbc:postgresql://db/lake?user=me&password={}"),
    ("spark.conf.spark.driver.extraJavaOptions", "-Xmx1g -Djavax.net.ssl.trustStorePassword={} -Da=b"),
]

MARK = "hunter2"
words = st.text(
    st.characters(codec="utf-8", exclude_categories=("C", "Z"), exclude_characters="\"'"), max_size=12
)
alphanumeric = st.text(st.sampled_from("abcXYZ0189-_.~+/%!$*()"), max_size=12)


def outputs(overrides: dict[str, Any]) -> list[str]:
    """Everything ever displayed of loaded settings, by a process that knows no other secrets."""
    redact.forget()
    loaded = load_settings(overrides, environ={}, cwd=Path("/"))
    shown = [repr(loaded), str(loaded), repr(loaded.settings), str(loaded.settings), str(describe(loaded))]
    for topic in loaded.settings.topics.values():
        shown += [repr(topic), str(topic)]
    return shown


@given(st.sampled_from(SECRET_KEYS), words)
def test_secrets_are_never_shown(key: str, ending: str) -> None:
    """Whatever a secret is, no row and no repr holds it."""
    assert not any(MARK in text for text in outputs({key: MARK + ending}))


@given(st.sampled_from(EMBEDDED_SECRETS), words)
def test_credentials_inside_values_are_never_shown(place: tuple[str, str], ending: str) -> None:
    """URLs, host lists and headers lose their credentials, whatever characters these hold."""
    key, form = place
    assert not any(MARK in text for text in outputs({key: form.format(MARK + ending)}))


@given(st.sampled_from(PAIRED_SECRETS), alphanumeric)
def test_credentials_in_pairs_are_never_shown(place: tuple[str, str], ending: str) -> None:
    """``password=…`` inside a longer value is hidden."""
    key, form = place
    assert not any(MARK in text for text in outputs({key: form.format(MARK + ending)}))


@given(st.sampled_from(["start", "namespace", "transform", "commit_bytes", "no_such"]), words)
def test_credentials_in_wrong_places_are_never_shown(field: str, ending: str) -> None:
    """A URL with a password in a setting of another kind is refused, or taken, without showing it."""
    secret = MARK + ending
    try:
        shown = outputs({f"topics.a.{field}": f"http://me:{secret}@host"})
    except SettingsError as error:
        shown = [str(error)]
    assert field == "namespace" or not any(MARK in text for text in shown)


def test_ordinary_values_are_shown_whole(load) -> None:
    """Hiding stops at secrets: hosts, paths and names stay readable."""
    plain = {
        "kafka.bootstrap.servers": "a:9092,b:9092", "kafka.sasl.username": "me",
        "kafka.ssl.ca.location": "/etc/ssl/ca.pem", "registry.url": "http://127.0.0.1:8081/apis/ccompat/v7",
        "catalog.uri": "sqlite:////data/catalog.db?timeout=30", "catalog.warehouse": "s3://bucket/lake",
        "catalog.s3.endpoint": "http://127.0.0.1:7070",
    }  # fmt: skip
    rows = {row.key: row.value for row in describe(load(overrides=plain))}
    assert rows.items() >= plain.items()


def test_certificates_as_text_are_counted(load) -> None:
    """They would fill the screen; a key is hidden as ever."""
    certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
    key = "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n"
    given = {
        "kafka.ssl.ca.pem": certificate * 2,
        "kafka.ssl.certificate.pem": certificate,
        "kafka.ssl.key.pem": key,
    }
    rows = {row.key: row.value for row in describe(load(overrides=given))}
    assert rows["kafka.ssl.ca.pem"] == "PEM, 2 certificates"
    assert rows["kafka.ssl.certificate.pem"] == "PEM, 1 certificate"
    assert rows["kafka.ssl.key.pem"] == "***"


def test_what_the_settings_name_is_not_wanted_of_the_local_stack(load) -> None:
    """Where they name all, there is nothing to start."""
    some = {"kafka.bootstrap.servers": "b:1", "catalog.name": "prod", "catalog.uri": "http://c"}
    settings = load(overrides=some).settings
    assert own_servers(settings) == ["kafka", "catalog"]
    check_something_to_start(settings)
    with pytest.raises(UsageError, match=r"nothing to start.*\[registry\]"):
        check_something_to_start(load(overrides=some | {"registry.url": "http://r"}).settings)
