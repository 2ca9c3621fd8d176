"""Why a registry does not respond, or denies access: login and TLS errors, with the setting to check."""

from __future__ import annotations

import math
import os
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from confluent_kafka.schema_registry.error import SchemaRegistryError

from tabletopic_kernel.model.errors import (
    REGISTRY,
    LoginRefusedError,
    RetryableError,
    SettingsError,
    TableTopicError,
)

_FILES: Final = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")
# Confluent's client requires it for a static token, and sends it as a header, which other registries ignore.
_LOGICAL_CLUSTER: Final = "bearer.auth.logical.cluster"
# What Java's clients call the source of the credentials; Python's use basic.auth.user.info, or the URL's.
_SOURCE: Final = "basic.auth.credentials.source"
_NUMBERS: Final = {
    *("timeout", "cache.capacity", "cache.latest.ttl.sec"),
    *("max.retries", "retries.wait.ms", "retries.max.wait.ms"),
}
_MOST: Final = 1_000_000_000  # beyond, there are waits that no system can time
_CERTIFICATE: Final = {  # OpenSSL's codes of a certificate that is not accepted; others: an unknown CA
    10: "its certificate has expired: renew it",
    **dict.fromkeys((62, 64), "its certificate is for another host name: correct url in [registry]"),
}
# What a server says of a client's certificate, at the end of OpenSSL's reasons.
_ALERTS: Final = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "HANDSHAKE_FAILURE", "UNKNOWN_CA")
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")


class UnknownSchemaError(TableTopicError):
    """The registry responds but has no such schema or subject."""


def client_properties(properties: Mapping[str, str]) -> dict[str, object]:
    """The properties as the client takes them; raises SettingsError for a login or number that it refuses."""
    conf: dict[str, object] = dict(properties)
    if "bearer.auth.credentials.source" in conf:
        conf.setdefault(_LOGICAL_CLUSTER, "none")
    if (source := conf.pop(_SOURCE, "URL")) not in ("USER_INFO", "URL"):
        raise SettingsError(f"[registry] {_SOURCE}: must be USER_INFO or URL, not {source}")
    for name in conf.keys() & _NUMBERS:
        try:
            number = float(str(conf[name]))
        except ValueError:
            number = math.nan
        if not 0 <= number <= _MOST:  # nor NaN
            raise SettingsError(f"[registry] {name} = {conf[name]}: it must be a number from 0 to {_MOST:,}")
        conf[name] = number
    return conf


def explain_unusable(properties: Mapping[str, str], error: Exception) -> SettingsError:
    """Why no client can be created from the properties."""
    for name in _FILES:
        path = properties.get(name)
        if path and not os.path.exists(path):
            return SettingsError(f"[registry] {name}: there is no file {path}")
        if path and not os.access(path, os.R_OK):
            return SettingsError(f"[registry] {name}: {path} may not be read by this user")
    if isinstance(error, ssl.SSLError):
        files = ", ".join(f"{name} = {properties[name]}" for name in _FILES if name in properties)
        return SettingsError(
            f"[registry] certificates or key cannot be used ({error.reason or error}): {files}; they are PEM "
            "files, certificate and key belong together, and an encrypted key needs ssl.key.password"
        )
    return SettingsError(f"the [registry] settings cannot be used: {error}")


def explain_refusal(
    url: str, what: str, properties: Mapping[str, str], error: SchemaRegistryError
) -> RetryableError:
    """The error of a registry that denies ``what``."""
    if error.http_status_code == HTTPStatus.UNAUTHORIZED:
        return LoginRefusedError(
            f"the registry at {url} refuses the login ({error.error_message}): {_login(properties)}",
            system=REGISTRY,
        )
    if error.http_status_code == HTTPStatus.TOO_MANY_REQUESTS:
        return RetryableError(
            f"the registry at {url} limits requests, and refused to return {what} ({error}); it is asked "
            "again. If this persists, have its limit raised",
            system=REGISTRY,
        )
    forbidden = error.http_status_code == HTTPStatus.FORBIDDEN
    rights = ", and may its user read subjects and schemas" if forbidden else ""
    return RetryableError(
        f"the registry at {url} refused to return {what}: {error}; is [registry] url right{rights}?",
        system=REGISTRY,
    )


def explain_failure(url: str, what: str, error: Exception) -> RetryableError | SettingsError:
    """The error of a request for ``what`` that got no response, or an invalid one."""
    kind = type(error).__name__  # the client has one of two HTTP libraries, with the same names
    if kind in ("InvalidURL", "LocalProtocolError", "UnicodeEncodeError", "UnicodeError"):
        return SettingsError(
            f"[registry] no request can be made ({error}): correct url, or the token, which may have neither "
            "a line end nor a character beyond ASCII"
        )
    # Confluent's client takes a response apart without checking it.
    if isinstance(error, AttributeError | LookupError | TypeError | ValueError) or kind == "DecodingError":
        return invalid(url, what, _response_in(error))
    if (remedy := _tls_remedy(error)) is not None:
        return LoginRefusedError(f"TLS with the registry at {url} fails ({error}): {remedy}", system=REGISTRY)
    return RetryableError(
        f"the registry at {url} does not respond ({kind}: {error}); "
        "is it running (`tabletopic up` starts a local one), and is [registry] url right?",
        system=REGISTRY,
    )


def invalid(url: str, what: str, response: str) -> RetryableError:
    """The error of an invalid response to a request for ``what``."""
    return RetryableError(
        f"the registry at {url} returned an invalid response for {what}: {response}; is [registry] url that "
        "of a schema registry?",
        system=REGISTRY,
    )


def _response_in(error: Exception) -> str:
    """The part of the response that an error quotes."""
    for name in ("doc", "object", "obj"):  # of JSON, of an encoding, of an attribute that is missing
        if hasattr(error, name):
            return repr(getattr(error, name))[:80]
    return f"{type(error).__name__}: {error}"


def _tls_remedy(error: BaseException | None) -> str | None:
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    if isinstance(error, ssl.SSLCertVerificationError):
        unknown = "set ssl.ca.location in [registry] to its CA certificate file"
        return _CERTIFICATE.get(error.verify_code, unknown)
    reason = getattr(error, "reason", None) or ""
    if reason.endswith(_ALERTS):
        return (
            "it requires a client certificate: set ssl.certificate.location and ssl.key.location in "
            "[registry], signed by a CA that it trusts"
        )
    return (
        "it does not use TLS there: begin url with http:// or correct the port" if reason in _NO_TLS else None
    )


def _login(properties: Mapping[str, str]) -> str:
    if "bearer.auth.credentials.source" in properties:
        return "check bearer.auth.* in [registry]"
    if "basic.auth.user.info" in properties:
        return "check basic.auth.user.info in [registry]"
    if "@" in properties.get("url", ""):
        return "check user and password in [registry] url, or set basic.auth.user.info instead"
    return "set basic.auth.user.info (user:password), or bearer.auth.token, in [registry]"
