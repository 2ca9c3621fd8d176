"""librdkafka's properties translated for Kafka's Java clients."""

from pathlib import Path

import pytest

from tabletopic_kernel.clients.kafka.java_properties import java_properties, portable_properties
from tabletopic_kernel.model.errors import SettingsError

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----\n"
LOGIN = {"security.protocol": "SASL_SSL", "sasl.username": "ann", "sasl.password": 'a"b\\c'}


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", "plain.PlainLoginModule"), ("SCRAM-SHA-512", "scram.ScramLoginModule")],
)
def test_name_and_password(mechanism: str, module: str) -> None:
    """Quotes and backslashes of a password end nothing."""
    java = java_properties(LOGIN | {"sasl.mechanism": mechanism})
    assert java["sasl.mechanism"] == mechanism
    assert java["sasl.jaas.config"] == (
        f'org.apache.kafka.common.security.{module} required username="ann" password="a\\"b\\\\c";'
    )


def test_tuning_is_left_out() -> None:
    """It has no meaning for Java, as defaults that are written out; addresses and connections have."""
    given = {"metadata.broker.list": "h:1", "linger.ms": "5", "fetch.max.bytes": "1", "client.rack": "r"}
    assert java_properties(given) == {"bootstrap.servers": "h:1", "client.rack": "r"}
    assert java_properties({"enable.ssl.certificate.verification": "true", "ssl.ca.location": "probe"}) == {}


def test_pem_files_are_passed_as_text(tmp_path: Path) -> None:
    """Executors on other machines need no copy of them; of a folder, all certificates and nothing else."""
    for name, text in (("ca", CERTIFICATE), ("certificate", CERTIFICATE), ("key", KEY)):
        (tmp_path / name).write_text(text)
    given = {f"ssl.{name}.location": str(tmp_path / name) for name in ("ca", "certificate", "key")}
    assert java_properties({"security.protocol": "ssl", **given}) == {
        "security.protocol": "ssl", "ssl.truststore.type": "PEM", "ssl.truststore.certificates": CERTIFICATE,
        "ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": CERTIFICATE, "ssl.keystore.key": KEY,
    }  # fmt: skip
    folder = tmp_path / "authorities"
    folder.mkdir()
    for name in ("a.pem", "b.pem"):
        (folder / name).write_text(CERTIFICATE.replace("MII", name))
    (folder / "README").write_text("not one")
    java = java_properties({"ssl.ca.location": str(folder)})
    assert java["ssl.truststore.certificates"].count("BEGIN CERTIFICATE") == 2
    assert "not one" not in java["ssl.truststore.certificates"]


def test_executors_get_text_in_place_of_files(tmp_path: Path) -> None:
    """But a chain of certificates: as text, librdkafka would send the first alone."""
    chain = CERTIFICATE * 2
    for name, text in (("ca", chain), ("one", CERTIFICATE), ("chain", chain), ("key", KEY)):
        (tmp_path / name).write_text(text)
    given = {f"ssl.{name}.location": str(tmp_path / name) for name in ("ca", "key")}
    for name, certificate in (
        ("one", {"ssl.certificate.pem": CERTIFICATE}),
        ("chain", {"ssl.certificate.location": str(tmp_path / "chain")}),
    ):
        files = {**given, "ssl.certificate.location": str(tmp_path / name), "client.id": "c"}
        texts = {"ssl.ca.pem": chain, "ssl.key.pem": KEY, "client.id": "c"}
        assert portable_properties(files) == texts | certificate


def test_oidc_with_what_belongs_to_it(tmp_path: Path) -> None:
    """Scope, extensions, and the authority of the token server."""
    (tmp_path / "ca.pem").write_text(CERTIFICATE)
    given = {
        "method": "oidc", "client.id": "id", "client.secret": "s", "scope": "kafka", "extensions": "a=1,b=2",
        "token.endpoint.url": "https://tokens/",
    }  # fmt: skip
    java = java_properties(
        {f"sasl.oauthbearer.{name}": value for name, value in given.items()}
        | {"security.protocol": "SASL_SSL", "sasl.mechanisms": "OAUTHBEARER"}
        | {"https.ca.location": str(tmp_path / "ca.pem")}
    )
    assert java["sasl.oauthbearer.token.endpoint.url"] == "https://tokens/"
    for part in ('clientId="id"', 'clientSecret="s"', 'scope="kafka"', 'extension_b="2"', 'type="PEM"'):
        assert part in java["sasl.jaas.config"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"enable.ssl.certificate.verification": "false"}, "always verifies.*ssl.ca.location"),
        ({"ssl.crl.location": "x"}, "no such property; remove it"),
        ({"ssl.cipher.suites": "ECDHE-RSA-AES256-SHA"}, "TLS 1.3"),
        ({"sasl.username": "ann"}, "security.protocol uses no login"),
        (LOGIN, "sasl.mechanism is not set"),
        (LOGIN | {"sasl.mechanism": "GSSAPI"}, "log in with PLAIN"),
        ({"ssl.ca.location": "/no/such/ca.pem"}, "kafka.ssl.ca.location: /no/such/ca.pem cannot be read"),
        ({"ssl.certificate.pem": CERTIFICATE}, "set ssl.key.location or ssl.key.pem"),
        ({"ssl.key.pem": KEY}, "set ssl.certificate.location or ssl.certificate.pem"),
        (
            {"ssl.certificate.pem": CERTIFICATE, "ssl.key.pem": KEY.replace("PRIVATE", "RSA PRIVATE")},
            "openssl pkcs8",
        ),
    ],
)
def test_what_java_cannot_do_is_refused(given: dict[str, str], message: str) -> None:
    """With what to set instead: a topic that every command reaches and no batch reads would be worse."""
    with pytest.raises(SettingsError, match=message):
        java_properties(given)
