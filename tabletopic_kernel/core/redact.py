"""Which settings are secrets, and what is shown instead."""

from __future__ import annotations

import re

HIDDEN = "***"

# Words in the names of properties of librdkafka, the registry client, PyIceberg, Hadoop and Spark whose
# values open doors. A harmless value hidden is a nuisance, a secret shown is a loss: the list is wide.
_SECRET_NAME = (
    r"pass(?:word|phrase|wd)|pwd|secret|token|credential|jaas|authorization|signature|cookie"
    r"|user[._-]?info|(?:access|account|private|api|storage|sas)[._-]?key|key[._-]?pem|oauthbearer[._]config"
    r"|connection[._-]?string"
)
_SECRET = re.compile(_SECRET_NAME, re.IGNORECASE)
# "-Djavax.net.ssl.trustStorePassword=x", "?user=u&password=x", "secret: x" inside a longer value.
_PAIR = re.compile(
    rf"([\w.-]*(?:{_SECRET_NAME})[\w.-]*\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;&]+)", re.IGNORECASE
)
# Up to the last @: a password may hold any character, also one that a URL forbids.
_USER_INFO = re.compile(r"(://).*@", re.DOTALL)
_BARE_USER_INFO = re.compile(r"^[^@]*:.*@", re.DOTALL)
_AUTH_HEADER = re.compile(r"\b(bearer|basic)\s+\S+", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Whether a property of this name holds a secret.

    >>> is_secret("sasl.password"), is_secret("s3.access-key-id"), is_secret("bootstrap.servers")
    (True, True, False)
    """
    return _SECRET.search(name) is not None


def mask(text: str) -> str:
    """The text without the credentials that its URLs, headers and ``key=value`` pairs hold.

    >>> mask("postgresql://me:s3cret@db/lake?sslmode=on")
    'postgresql://***@db/lake?sslmode=on'
    """
    if "PRIVATE KEY" in text:
        return HIDDEN
    masked = _AUTH_HEADER.sub(rf"\1 {HIDDEN}", text)
    masked = _PAIR.sub(rf"\1{HIDDEN}", masked)
    if "://" in masked:
        return _USER_INFO.sub(rf"\1{HIDDEN}@", masked)
    return _BARE_USER_INFO.sub(f"{HIDDEN}@", masked)


def shown(name: str, value: str) -> str:
    """What may be printed of the property ``name``: nothing of a secret, the rest without credentials."""
    if not value:
        return value
    return HIDDEN if is_secret(name) else mask(value)
