"""librdkafka's verdict on properties, without a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabletopic_kernel.clients.kafka.checks import check_properties
from tabletopic_kernel.model.errors import SettingsError


def complaint(properties: dict[str, str]) -> str:
    """The errors about properties from one file."""
    with pytest.raises(SettingsError) as caught:
        check_properties(properties, dict.fromkeys(properties, "f.toml:1"))
    return str(caught.value)


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"bootstrap.servers": "127.0.0.1:1"},
        {"group.id": "g", "auto.offset.reset": "earliest", "isolation.level": "read_committed"},
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "u",
            "sasl.password": "p",
        },
        {"sasl.oauthbearer.method": "oidc"}
        | {f"sasl.oauthbearer.{key}": "x" for key in ("client.id", "client.secret")}
        | {"sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/", "sasl.mechanism": "OAUTHBEARER"},
    ],
    ids=["none", "address", "consumer", "plain", "oidc"],
)
def test_valid_properties_pass(properties: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    """Those of consumers and those that need each other too; librdkafka prints nothing meanwhile."""
    check_properties(properties, {})
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        (
            {"sasl.usrname": "x"},
            "f.toml:1: librdkafka has no property sasl.usrname; did you mean sasl.username?",
        ),
        ({"zzz": "x"}, "f.toml:1: librdkafka has no property zzz; see CONFIGURATION.md of librdkafka"),
        (
            {"security.protocol": "tls"},
            'f.toml:1: kafka.security.protocol = "tls": Invalid value "tls" for configuration property '
            '"security.protocol"',
        ),
        (
            {"sasl.jaas.config": "hunter2"},
            "f.toml:1: kafka.sasl.jaas.config = ***: librdkafka refuses this value",
        ),
    ],
)
def test_wrong_properties(properties: dict[str, str], message: str) -> None:
    """Origin, name and the nearest one; never a secret."""
    assert complaint(properties) == message


def test_properties_that_fail_together(tmp_path: Path) -> None:
    """One line each; a missing file only shows when TLS is on; the key's password stays hidden."""
    assert len(complaint({"a.b": "1", "acks": "1", "c.d": "2"}).splitlines()) == 2
    properties = {
        "security.protocol": "SSL",
        "ssl.ca.location": str(tmp_path / "hunter2" / "ca.pem"),
        "ssl.key.password": "hunter2",
    }
    message = complaint(properties)
    assert message.startswith("[kafka]: ")
    assert "ssl.ca.location" in message
    assert "hunter2" not in message
