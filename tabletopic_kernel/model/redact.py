"""Which settings are secrets, and what is displayed instead.

``mask`` and ``mask_property`` are for a setting's own value. ``redact`` is the safety net for texts of other
programs, in two places: where an error of ours is made of them (``model/errors.py``), and where a log, a
traceback or an event leaves the process. It knows the secrets in the current settings, from ``learn``, and
what credentials look like.
"""

from __future__ import annotations

import base64
import html
import json
import re
import threading
import traceback
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote, quote_plus, unquote

HIDDEN = "***"

# Words in the names of properties of librdkafka, the registry client, PyIceberg, Hadoop and Spark whose
# values grant access. Hiding a harmless value is a nuisance, showing a secret is a loss: the list is broad.
SECRET_NAME = (
    r"pass(?:word|phrase|wd)|pwd|secret|token|credential|jaas|authorization|signature|cookie"
    r"|user[._-]?info|(?:access|account|private|api|storage|sas)[._-]?key|key[._-]?pem|oauthbearer[._]config"
    r"|connection[._-]?string|webhook[._-]?url"
)
_SECRET = re.compile(SECRET_NAME, re.IGNORECASE)
# Each word is tried once, at its start; otherwise the time is quadratic in a token's length.
_NAME = rf"(?<![\w.-])(?=[\w.-]*(?:{SECRET_NAME}))[\w.-]++"
# "-Djavax.net.ssl.trustStorePassword=x", "?user=u&password=x", "secret: x" inside a longer value.
_PAIR = re.compile(rf"({_NAME}\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;&]+)", re.IGNORECASE)
# What precedes the @ of abfss://container@account.host is not a login.
_CONTAINER = r"(?:(?<=abfs://)|(?<=abfss://)|(?<=wasb://)|(?<=wasbs://))[\w$-]+@"
# Up to the last @: a password may contain any character, even one that a URL forbids.
_USER_INFO = re.compile(rf"^((?>.*?://))(?!{_CONTAINER}[^@]*$).*@", re.DOTALL)
_BARE_USER_INFO = re.compile(r"^[^@:]*:.*@", re.DOTALL)
_LOGIN = r"^(?>.*?://)((?>[^:]*:).*)@"
_AUTH_HEADER = re.compile(r"\b(bearer|basic)\s+\S+", re.IGNORECASE)
# An Azure shared access signature's, anywhere in a URL.
_SIGNATURE = re.compile(r"(?<![\w.-])(sig=)(?!\*\*\*)[^\s&\"'<>,;)]+", re.IGNORECASE)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)

# In prose, "unexpected token: x" and "basic types" are not credentials, and an @ may be far after a URL.
_PAIR_IN_TEXT = re.compile(
    rf"({_NAME}[\"']?\s?=\s?)(?!\*\*\*)"
    r"(\\?\"(?:[^\"\\]|\\.)*(?:\"|\Z)|'(?:[^'\\]|\\.)*(?:'|\Z)|[^\s,;&)\"']+)",
    re.IGNORECASE,
)
_USER_INFO_IN_TEXT = re.compile(rf"(://)(?!{_CONTAINER})[^\s/?#\"'<>]*@")
_LOGIN_IN_TEXT = re.compile(r"(?<![\w.%+@-])[\w.%+-]{1,100}:[^\s:/@\"']{1,200}@(?=[\w.\[-])")
_HEADER_IN_TEXT = re.compile(
    r"(authorization[\"']?\s*[:=]\s*[\"']?\w+\s+|\b(?:bearer|basic)\s+(?=\S*\d)(?=\S{16}))[\w.~+/=-]+",
    re.IGNORECASE,
)

# Below this length a text occurs in too many words: it is hidden only in the place of a password.
_TELLING = 4
# Up to this length it counts as a secret only as a whole word.
_WORD = 8
# Values of properties whose names look secret ("token-refresh-enabled", "credentials.source").
_HARMLESS = re.compile(
    r"(?i:true|false|none|null)|STATIC_TOKEN|OAUTHBEARER\w*|SASL_INHERIT|USER_INFO|URL|CUSTOM"
    r"|(?:https?|file)://[^@?]*"
)
# Passwords this bad are ordinary words of messages.
_COMMON = re.compile(r"\d{1,5}|yes|no|default|kafka|lake|registry|topic|host", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Whether a property with this name contains a secret.

    >>> is_secret("sasl.password"), is_secret("s3.access-key-id"), is_secret("bootstrap.servers")
    (True, True, False)
    """
    return _SECRET.search(name) is not None


def mask(text: str) -> str:
    """The text without credentials in URLs, headers and ``key=value`` pairs.

    >>> mask("postgresql://me:s3cret@db/lake?sslmode=on")
    'postgresql://***@db/lake?sslmode=on'
    >>> mask("abfss://lake@acme.dfs.core.windows.net/t")
    'abfss://lake@acme.dfs.core.windows.net/t'
    """
    if "PRIVATE KEY" in text:
        return HIDDEN
    masked = _AUTH_HEADER.sub(rf"\1 {HIDDEN}", text)
    masked = _SIGNATURE.sub(rf"\1{HIDDEN}", _PAIR.sub(rf"\1{HIDDEN}", masked))
    if "://" in masked:
        return _USER_INFO.sub(rf"\1{HIDDEN}@", masked)
    return _BARE_USER_INFO.sub(f"{HIDDEN}@", masked)


def without_login(url: str) -> str:
    """The URL without user and password.

    >>> without_login("https://me:s3cret@registry.example/v7")
    'https://registry.example/v7'
    """
    return _USER_INFO.sub(r"\1", url)


def mask_property(name: str, value: str) -> str:
    """The printable value of the property ``name``: hidden if secret, otherwise without credentials."""
    if not value:
        return value
    return HIDDEN if is_secret(name) else mask(value)


class Net:
    """Masks known secrets, and what looks like secrets. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[str, None] = {}
        self._pattern: re.Pattern[str] | None = None
        self._lock = threading.Lock()

    def learn(self, properties: Mapping[str, object]) -> None:
        """Remember the secrets among properties: whole values by their names, and parts of others."""
        fresh = [secret for name, value in properties.items() for secret in secrets_in(name, str(value))]
        with self._lock:
            if any(secret not in self._known for secret in fresh):
                self._known.update(dict.fromkeys(fresh))
                self._pattern = _pattern(self._known)

    def forget(self) -> None:
        with self._lock:
            self._known, self._pattern = {}, None

    def redact(self, text: str) -> str:
        """The text with secrets masked; the rest stays readable."""
        if (known := self._pattern) is not None:
            text = known.sub(HIDDEN, text)
        if "PRIVATE KEY" in text:
            text = _PRIVATE_KEY.sub(HIDDEN, text)
        if "://" in text:
            text = _USER_INFO_IN_TEXT.sub(rf"\1{HIDDEN}@", text)
        if "@" in text:
            text = _LOGIN_IN_TEXT.sub(f"{HIDDEN}@", text)
        if "=" in text:
            text = _SIGNATURE.sub(rf"\1{HIDDEN}", _PAIR_IN_TEXT.sub(rf"\1{HIDDEN}", text))
        return _HEADER_IN_TEXT.sub(rf"\1{HIDDEN}", text)


def secrets_in(name: str, value: str) -> Iterator[str]:
    """The secrets in a property: the whole value, depending on its name, or the credentials inside.

    >>> list(secrets_in("basic.auth.user.info", "me:s3cret"))
    ['me:s3cret', 's3cret']
    >>> list(secrets_in("uri", "postgresql://me:s3cret@db/lake"))
    ['me:s3cret', 's3cret']
    """
    if not value:
        return
    inside = [pair[2].strip("\"'") for pair in _PAIR.finditer(value)]
    login = re.search(_LOGIN if "://" in value else r"^([^@:]*:.*)@", value, re.DOTALL)
    if login:
        inside += [login[1], login[1].partition(":")[2]]
    if header := _AUTH_HEADER.search(value):
        inside.append(header[0].split(maxsplit=1)[1])
    if is_secret(name):
        if "PRIVATE KEY" in value:  # tools show it with other line breaks
            inside += [line for line in value.replace("\\n", "\n").split() if len(line) >= 2 * _WORD]
        else:
            # "user:password", "client:secret"
            inside += [value, value.partition(":")[2]]
    yield from (secret for secret in dict.fromkeys(inside) if secret and not _HARMLESS.fullmatch(secret))


def _pattern(known: Iterable[str]) -> re.Pattern[str]:
    """A pattern for all spellings of the secrets, longest first: no part of one remains."""
    forms = sorted({form for secret in known for form in _spellings(secret)}, key=lambda f: (-len(f), f))
    return re.compile("|".join(map(_alone, forms)))


def _spellings(secret: str) -> Iterator[str]:
    """A secret's spellings in settings, URLs, headers, JSON, and Python's and JAAS's quotes."""
    plain = unquote(secret)
    for text in {secret, plain}:
        yield from (text, quote(text, safe=""), quote(text), quote_plus(text), html.escape(text))
        yield from (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1])
        if ":" in text:
            encoded = base64.b64encode(text.encode(errors="surrogateescape")).decode()
            yield from (encoded, encoded.rstrip("="))


def _alone(form: str) -> str:
    """The pattern of one spelling; a short one is masked only if it cannot be part of a word."""
    escaped = re.escape(form)
    if len(form) < _TELLING or _COMMON.fullmatch(form):
        return rf"(?<=[:=]){escaped}(?=[@&\s]|$)"
    return rf"(?<![A-Za-z0-9]){escaped}(?![A-Za-z0-9])" if len(form) < _WORD else escaped


# One per process, because errors, logs and traces have no access to settings.
_NET = Net()
learn, redact, forget = _NET.learn, _NET.redact, _NET.forget


def trace_of(error: BaseException) -> str:
    """The traceback, with its causes: other programs' errors, which may quote a login."""
    return redact("".join(traceback.format_exception(error)))
