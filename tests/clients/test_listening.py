"""A missing broker is distinguished from a slow one before librdkafka's timeout."""

from __future__ import annotations

import socket
import threading

import pytest
from confluent_kafka import KafkaError

from tabletopic_kernel.clients.kafka import connection
from tabletopic_kernel.clients.kafka.connection_errors import (
    ConnectionErrors,
    check_listening,
    explain_silence,
)
from tabletopic_kernel.local.machine import free_port
from tabletopic_kernel.model.errors import RetryableError
from tabletopic_kernel.workbench.doctor.run import check_server


def _at(*ports: int) -> dict[str, str]:
    return {"bootstrap.servers": ", ".join(f"PLAINTEXT://127.0.0.1:{port}" for port in ports)}


def test_doctor_and_init_do_not_wait_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka is not asked: twelve seconds it took, with the same words."""
    monkeypatch.setattr(connection, "make_admin", lambda *_: pytest.fail("librdkafka is asked"))
    (check,) = check_server("kafka", _at(free_port(set()), free_port(set())))
    assert check.status == "fail"
    assert "does not respond (connection refused); is it running" in check.detail


def test_addresses_that_cannot_be() -> None:
    """Told as a wrong address, not as an error of ours; what is no address is librdkafka's to say."""
    for address in ("kafka..example:9092", f"{'k' * 64}.example:9092", f"127.0.0.1:{'9' * 30}"):
        properties = {"bootstrap.servers": address}
        with pytest.raises(RetryableError, match=r"is \[kafka\] bootstrap.servers right"):
            check_listening(properties)
        assert "bootstrap.servers right" in str(explain_silence(properties, ConnectionErrors(), "x"))
    for address in ("", "nobody.invalid:9092"):
        check_listening({"bootstrap.servers": address})


@pytest.mark.parametrize("response", [b"", b"\x00\x00\x00\x0a"], ids=["hangs up", "responds"])
def test_one_that_talks_may_require_tls_or_a_login(response: bytes) -> None:
    """One with TLS hangs up on what is not TLS, one with a login responds to the first request alone."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def respond() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(response)

        thread = threading.Thread(target=respond)
        thread.start()
        met, asked = ConnectionErrors(), _at(server.getsockname()[1])
        assert "security.protocol is not set" in str(explain_silence(asked, met, "timed out"))
        met.forget()  # this client has had responses: it needs neither
        assert "(timed out); is it running" in str(explain_silence(asked, met, "timed out"))
        thread.join()


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (KafkaError._TRANSPORT, "ssl://alert-1:9093/bootstrap: Disconnected"),
        (KafkaError._AUTHENTICATION, 'Failed to acquire SASL OAUTHBEARER token: from "https://x": timed out'),
    ],
)
def test_the_name_of_a_broker_is_no_refusal(code: int, text: str) -> None:
    """Nor is a server for tokens that is away."""
    met = ConnectionErrors()
    met(KafkaError(code, text))
    assert met.refused() is None
