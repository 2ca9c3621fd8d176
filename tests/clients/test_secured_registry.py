"""A registry behind TLS and a login: each login method, and the errors when it fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tabletopic_kernel.clients.registry.registry import Registry
from tabletopic_kernel.model.errors import LoginRefusedError, RetryableError, SettingsError
from tests.servers.certificates import STORE_PASSWORD, Authority
from tests.servers.http_server import Handler, HttpServer
from tests.servers.login_proxy import PASSWORD, TOKEN, USER, LoginProxy

PROTO = 'syntax = "proto3"; message Click { string page = 1; }'
SCHEMAS = {1: ("AVRO", '"string"'), 2: ("PROTOBUF", PROTO), 3: ("JSON", '{"type": "object"}')}


class _Registry(Handler):
    def do_GET(self) -> None:  # noqa: N802 - the standard library's name
        """Return a schema of each format, and one subject."""
        answers: dict[str, Any] = {"/subjects": ["clicks-value"]}
        for schema_id, (kind, text) in SCHEMAS.items():
            answers[f"/schemas/ids/{schema_id}"] = {"schema": text, "schemaType": kind}
            answers[f"/schemas/ids/{schema_id}/versions"] = [{"subject": "clicks-value", "version": 1}]
        self.give(200, json.dumps(answers[self.path.partition("?")[0]]).encode())


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A registry without a login; its host and port."""
    with HttpServer(_Registry) as server:
        yield server.address


@pytest.fixture(scope="module")
def proxy(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginProxy]:
    """Requires a password or a token."""
    with LoginProxy(server, tmp_path_factory.mktemp("login")) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def strict(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginProxy]:
    """Requires a certificate."""
    with LoginProxy(server, tmp_path_factory.mktemp("strict"), asks_certificate=True) as proxy:
        yield proxy


def secured(proxy: LoginProxy, **more: str) -> dict[str, str]:
    """[registry] properties; ``more`` has underscores for dots."""
    own = {"url": proxy.url, "ssl.ca.location": str(proxy.authority.path)}
    return own | {name.replace("_", "."): value for name, value in more.items()}


def basic(password: str = PASSWORD) -> dict[str, str]:
    """A login by name and password."""
    return {"basic_auth_credentials_source": "USER_INFO", "basic_auth_user_info": f"{USER}:{password}"}


def bearer(token: str = TOKEN) -> dict[str, str]:
    """A login by token, without a logical cluster: other registries have none."""
    return {"bearer_auth_credentials_source": "STATIC_TOKEN", "bearer_auth_token": token}


@pytest.mark.parametrize("login", [basic(), bearer()], ids=["password", "token"])
@pytest.mark.parametrize("schema_id", SCHEMAS)
def test_each_format_through_each_login(proxy: LoginProxy, login: dict[str, str], schema_id: int) -> None:
    """Over TLS with a CA of one's own."""
    found = Registry(secured(proxy, **login)).by_id(schema_id)
    assert (found.kind, found.text) == SCHEMAS[schema_id]


@pytest.mark.parametrize("schema_id", SCHEMAS)
def test_each_format_comes_to_who_has_a_certificate(strict: LoginProxy, schema_id: int) -> None:
    """Its key may be encrypted."""
    client = strict.client
    own = {"ssl_certificate_location": str(client.certificate), "ssl_key_location": str(client.encrypted_key)}
    registry = Registry(secured(strict, **own, ssl_key_password=STORE_PASSWORD))
    assert registry.by_id(schema_id).kind == SCHEMAS[schema_id][0]


@pytest.mark.parametrize(
    ("login", "said"),
    [
        (basic("WRONGpw9"), r"check basic\.auth\.user\.info in \[registry\]"),
        (bearer("WRONGtoken9"), r"check bearer\.auth\.\* in \[registry\]"),
        ({}, r"set basic\.auth\.user\.info"),
    ],
    ids=["password", "token", "none"],
)
def test_a_refused_login_names_its_setting(proxy: LoginProxy, login: dict[str, str], said: str) -> None:
    """And neither the address, which is right, nor the secret."""
    with pytest.raises(LoginRefusedError, match=rf"refuses the login .*{said}") as told:
        Registry(secured(proxy, **login)).check()
    assert "WRONG" not in str(told.value)
    assert "url right" not in str(told.value)


def test_a_login_in_the_address_is_named_and_hidden(proxy: LoginProxy) -> None:
    """It stays out of the message."""
    properties = secured(proxy) | {"url": proxy.url.replace("://", "://ann:WRONGpw9@")}
    with pytest.raises(LoginRefusedError, match=r"password in \[registry\] url") as told:
        Registry(properties).check()
    assert "WRONG" not in str(told.value)


def test_wrong_tls_names_its_setting(
    proxy: LoginProxy, strict: LoginProxy, tmp_path: Path, server: str
) -> None:
    """An unknown CA, a missing or unknown certificate, and an address without TLS."""
    with pytest.raises(LoginRefusedError, match=r"^TLS with .*ssl\.ca\.location in \[registry\]"):
        Registry({"url": proxy.url}).check()
    other = Authority(tmp_path / "other").identity("client")
    own = {"ssl_certificate_location": str(other.certificate), "ssl_key_location": str(other.key)}
    for more in ({}, own):
        with pytest.raises(RetryableError, match=r"requires a client certificate"):
            Registry(secured(strict, **more)).check()
    with pytest.raises(RetryableError, match="does not use TLS there"):
        Registry({"url": f"https://{server}"}).check()


@pytest.mark.parametrize("name", ["ssl.ca.location", "ssl.certificate.location"])
def test_a_file_that_is_missing_is_a_wrong_setting(proxy: LoginProxy, name: str) -> None:
    """It was an unexpected FileNotFoundError without a path."""
    with pytest.raises(SettingsError, match=rf"^\[registry\] {name}: there is no file /nosuch/file\.pem"):
        Registry(secured(proxy) | {name: "/nosuch/file.pem"})


def test_a_key_without_its_password_is_a_wrong_setting(strict: LoginProxy) -> None:
    """As is a certificate of another key."""
    client = strict.client
    own = {"ssl_certificate_location": str(client.certificate), "ssl_key_location": str(client.encrypted_key)}
    with pytest.raises(SettingsError, match=r"ssl\.key\.password"):
        Registry(secured(strict, **own, ssl_key_password="wrong"))
    wrong = own | {"ssl_key_location": str(strict.authority.identity("other").key)}
    with pytest.raises(SettingsError, match="belong together"):
        Registry(secured(strict, **wrong))


@pytest.mark.parametrize(
    ("name", "value"), [("timeout", "soon"), ("basic.auth.credentials.source", "SASL_INHERIT")]
)
def test_what_the_client_does_not_know_is_a_wrong_setting(proxy: LoginProxy, name: str, value: str) -> None:
    """With its name."""
    with pytest.raises(SettingsError, match=rf"^\[registry\] {name}.*{value}"):
        Registry(secured(proxy) | {name: value})


def test_numbers_may_be_text(proxy: LoginProxy) -> None:
    """As variables of the environment are."""
    assert Registry(secured(proxy, **basic(), timeout="20", max_retries="0")).check() == ["clicks-value"]
