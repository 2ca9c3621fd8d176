"""What is hidden and what is left."""

import pytest

from tabletopic_kernel.model.redact import HIDDEN, is_secret, mask, mask_property


@pytest.mark.parametrize(
    "name",
    [
        "sasl.password", "SASL_PASSWORD", "keyPassword", "api-key", "ssl.key.pem", "credential", "x.token",
        "pwd",
    ],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    """Any case and any joint."""
    assert is_secret(name)
    assert mask_property(name, "x") == HIDDEN


@pytest.mark.parametrize(
    "name",
    ["sasl.username", "bootstrap.servers", "key_format", "ssl.ca.location", "uri", "warehouse", "name"],
)
def test_names_of_ordinary_properties(name: str) -> None:
    """These hold addresses, paths and names."""
    assert not is_secret(name)
    assert mask_property(name, "x") == "x"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("http://me:pass@host/p", "http://***@host/p"),
        ("http://me:p@ss/w:rd@host/p", "http://***@host/p"),
        ("me:pass@host:9092", "***@host:9092"),
        (
            "jdbc:postgresql://db/x?user=me&password=pw&ssl=on",
            "jdbc:postgresql://db/x?user=me&password=***&ssl=on",
        ),
        ("-Da=1 -DtrustStorePassword=pw -Db=2", "-Da=1 -DtrustStorePassword=*** -Db=2"),
        ("username='me' password='my pw'", "username='me' password=***"),
        ("Bearer abc.def", "Bearer ***"),
        ("-----BEGIN PRIVATE KEY-----\nabc", "***"),
        ("s3://bucket/path", "s3://bucket/path"),
        ("a:9092,b:9092", "a:9092,b:9092"),
        ("", ""),
    ],
)
def test_credentials_inside_values(text: str, masked: str) -> None:
    """Only the credentials go."""
    assert mask(text) == masked


def test_an_empty_secret_is_shown_as_empty() -> None:
    """That a password is empty is what a person must see."""
    assert mask_property("sasl.password", "") == ""
