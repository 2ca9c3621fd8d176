"""Why a librdkafka client gets no response: its connection errors, with a remedy.

A failed request only says "timed out" or "transport failure". librdkafka reports the reason separately,
through a callback that runs while the client is polled.
"""

from __future__ import annotations

import contextlib
import math
import re
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaError

from tabletopic_kernel.clients.outside_errors.names import without_names
from tabletopic_kernel.model.errors import BROKER, LoginRefusedError, RetryableError

# "(after 312ms in state AUTH_REQ, 4 identical error(s) suppressed)", and the broker's name.
_SUFFIX = re.compile(r"(?<!\s)\s*\(after \d+ms in state [^()]*(\(s\)[^()]*)?\)\s*$")
_PREFIX = re.compile(r"^(?:(?!://)\S)+://\S+: ")
_CONNECT_S, _LOOK_AGAIN_S = 2.0, 0.4
# Length, api key 18, version 0, a number for the response, no client id: Kafka's protocol, ApiVersions.
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 0, -1)
_PORT = "9092"  # if an address has none
# What a token server that is down looks like: an outage, not a refusal.
_AWAY = re.compile(r"failed to connect|could not (connect|resolve)|timed? ?out", re.IGNORECASE)


@dataclass
class ConnectionErrors:
    """The connection errors of one client; its ``error_cb``. Thread-safe."""

    _newest: dict[str, tuple[float, str]] = field(default_factory=dict)
    has_answered: bool = False

    def __call__(self, error: KafkaError) -> None:
        """Keep the newest error of each kind."""
        if kind := _kind(error):
            self._newest[kind] = (time.monotonic(), _plain(error.str()))

    def refused(self, within_s: float = math.inf) -> tuple[str, str] | None:
        """The newest refusal in ``within_s``: "login" or "TLS", and the broker's or OpenSSL's message."""
        since = time.monotonic() - within_s
        log = dict(self._newest)  # another thread may add to it
        refusals = [(*log[kind], kind) for kind in ("login", "TLS") if kind in log and log[kind][0] >= since]
        if not refusals:
            return None
        _, reason, kind = max(refusals)
        return kind, reason

    def is_hopeless(self, within_s: float = math.inf) -> bool:
        """Whether, in ``within_s``, a broker refused the client and none is left: no request will succeed."""
        if self.refused(within_s) is None:
            return False
        lost_at, _ = self._newest.get("no broker", (None, ""))
        has_no_token = "token" in self._newest.get("login", (0.0, ""))[1].lower()
        return has_no_token or (lost_at is not None and lost_at >= time.monotonic() - within_s)

    def forget(self) -> None:
        """A response arrived: forget earlier errors."""
        self.has_answered = True
        self._newest.clear()


def _kind(error: KafkaError) -> str | None:
    text = without_names(error.str())
    if error.code() == KafkaError._ALL_BROKERS_DOWN:
        return "no broker"
    if error.code() == KafkaError._AUTHENTICATION:
        return None if _AWAY.search(text) else "login"
    # A broker rejects the client's certificate after the handshake, which looks like a lost connection.
    if error.code() == KafkaError._SSL or "alert" in text:
        return "TLS"
    return None


def _plain(text: str) -> str:
    """librdkafka's message without the leading broker's name and the trailing time.

    >>> _plain("sasl_ssl://h:1/bootstrap: SASL authentication error: no (after 3ms in state AUTH_REQ)")
    'SASL authentication error: no'
    """
    return _PREFIX.sub("", _SUFFIX.sub("", text.strip()))


def explain_silence(properties: Mapping[str, str], errors: ConnectionErrors, request: str) -> RetryableError:
    """The error for a broker that did not respond to a ``request``."""
    address = properties.get("bootstrap.servers") or properties.get("metadata.broker.list", "")
    if (refused := errors.refused()) is not None:
        kind, reason = refused
        lead = f"TLS with the broker at {address} fails"
        if kind == "login":
            lead = f"the broker at {address} refuses the login"
        return LoginRefusedError(f"{lead}: {reason}; {_remedy(kind, reason, properties)}", system=BROKER)
    unsecured = not properties.get("security.protocol") and not errors.has_answered
    if unsecured and any(map(_talks, _addresses(properties))):
        return RetryableError(
            f"the broker at {address} accepts connections but does not respond ({request}); does it require "
            "TLS or a login? [kafka] security.protocol is not set",
            system=BROKER,
        )
    return RetryableError(
        f"the broker at {address} does not respond ({request}); "
        "is it running, and is [kafka] bootstrap.servers right?",
        system=BROKER,
    )


def check_listening(properties: Mapping[str, str]) -> None:
    """Raise RetryableError at once if nothing listens at any bootstrap address.

    librdkafka would wait for its whole timeout. As a broker may be just starting, this checks twice. A slow
    broker, or one behind a firewall that drops packets, passes.
    """
    addresses = _addresses(properties)
    if not addresses or not all(map(_refuses, addresses)):
        return
    time.sleep(_LOOK_AGAIN_S)
    if all(map(_refuses, addresses)):
        raise explain_silence(properties, ConnectionErrors(), "connection refused")


def _remedy(kind: str, reason: str, properties: Mapping[str, str]) -> str:
    if kind == "login":
        if "oauthbearer" in properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "")).lower():
            return "check sasl.oauthbearer.* in [kafka]"
        return "check sasl.mechanism, sasl.username and sasl.password in [kafka]"
    lowered = without_names(reason).lower()
    if "verify" in lowered and "host" not in lowered:
        return "name the CA of its certificate with ssl.ca.location or ssl.ca.pem in [kafka]"
    if "bad certificate" in lowered or "certificate required" in lowered or "handshake failure" in lowered:
        return (
            "it requires a client certificate: set ssl.keystore.location, or ssl.certificate.location "
            "and ssl.key.location, in [kafka]"
        )
    return "check security.protocol and ssl.* in [kafka]"


def _addresses(properties: Mapping[str, str]) -> list[tuple[str, int]]:
    addresses = properties.get("bootstrap.servers") or properties.get("metadata.broker.list", "")
    parsed = []
    for address in addresses.split(","):
        host, _, port = address.strip().rpartition("://")[2].rpartition(":")
        if not port.isdecimal():
            host, port = f"{host}:{port}" if host else port, _PORT
        parsed.append((host.strip("[]"), int(port)))
    return parsed


def _talks(address: tuple[str, int]) -> bool:
    """Whether a server responds to Kafka's first request, or hangs up on it: a frozen one does neither."""
    with (
        contextlib.suppress(OSError, UnicodeError, OverflowError),
        socket.create_connection(address, _CONNECT_S) as connection,
    ):
        connection.sendall(_API_VERSIONS)
        with contextlib.suppress(ConnectionError):
            connection.recv(1)
        return True
    return False


def _refuses(address: tuple[str, int]) -> bool:
    """Whether the connection is refused at once; false if there is no response at all."""
    try:
        socket.create_connection(address, _CONNECT_S).close()
    except (ConnectionRefusedError, UnicodeError, OverflowError):  # no host or port can have this name
        return True
    except OSError:
        return False
    return False
