"""Translates librdkafka's properties to those of Kafka's Java client, which Spark uses.

``[kafka]`` is written once, in librdkafka's names. Every property that decides how a client connects and logs
in is translated here or refused: if one were silently left out, every command could reach a topic that no
batch can read. Properties that tune librdkafka have no meaning for Spark, and are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from tabletopic_kernel.model.errors import SettingsError

# Names, values and meaning are the same in both.
_SAME = (
    "bootstrap.servers",
    "client.dns.lookup",
    "client.rack",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "security.protocol",
    "socket.connection.setup.timeout.ms",
)
# Translated by the functions below.
_TRANSLATED = {
    "enable.sasl.oauthbearer.unsecure.jwt",
    "https.ca.location",
    "metadata.broker.list",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.password",
    "sasl.username",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.cipher.suites",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.location",
    "ssl.keystore.password",
    *(
        f"sasl.oauthbearer.{name}"
        for name in (
            "client.id",
            "client.secret",
            "config",
            "extensions",
            "grant.type",
            "method",
            "scope",
            "token.endpoint.url",
        )
    ),
}
# Properties with these prefixes decide how a client connects; those not translated are refused.
_CONNECTION = ("enable.sasl.", "enable.ssl.", "https.", "sasl.", "security.", "ssl.")
_REMEDIES = {
    "enable.ssl.certificate.verification": "Spark always verifies brokers: name their CA with "
    "ssl.ca.location or ssl.ca.pem; if only the host name does not match, "
    'set ssl.endpoint.identification.algorithm = "none"',
    "ssl.ca.certificate.stores": "name the CA with ssl.ca.location",
    "https.ca.pem": "name the CA with https.ca.location",
}
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_OIDC_HANDLER = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
_WITH_PASSWORD = {"PLAIN": _PLAIN, "SCRAM-SHA-256": _SCRAM, "SCRAM-SHA-512": _SCRAM}
_PEM = "-----BEGIN "


def java_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """The connection properties of Kafka's Java clients, with the text of PEM files, which executors lack.

    Raises SettingsError, without a secret, for a property without a counterpart, companion, or file.
    """
    java = {name: properties[name] for name in _SAME if name in properties}
    if "metadata.broker.list" in properties:
        java.setdefault("bootstrap.servers", properties["metadata.broker.list"])
    for name, value in properties.items():
        if name.startswith(_CONNECTION) and name not in {*_SAME, *_TRANSLATED}:
            _refuse_unless_default(name, value)
    return {**java, **_tls(properties), **_login(properties)}


def _refuse_unless_default(name: str, value: str) -> None:
    if name == "enable.ssl.certificate.verification" and value.lower() == "true":
        return
    if name.startswith("sasl.kerberos."):  # librdkafka has its own defaults; only the mechanism decides
        return
    remedy = _REMEDIES.get(name, "remove it")
    raise SettingsError(f"kafka.{name}: Spark's Kafka client has no such property; {remedy}")


# --- TLS --------------------------------------------------------------------------------------------------


def _tls(properties: Mapping[str, str]) -> dict[str, str]:
    java: dict[str, str] = {}
    if (authorities := _pem(properties, "ssl.ca")) is not None:
        java |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authorities}
    if "ssl.endpoint.identification.algorithm" in properties:
        algorithm = properties["ssl.endpoint.identification.algorithm"]
        java["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
    if "ssl.cipher.suites" in properties:
        java["ssl.cipher.suites"] = _ciphers(properties["ssl.cipher.suites"])
    return java | _client_certificate(properties)


def _client_certificate(properties: Mapping[str, str]) -> dict[str, str]:
    if "ssl.keystore.location" in properties:
        names = ("ssl.keystore.location", "ssl.keystore.password", "ssl.key.password")
        store = {name: properties[name] for name in names if name in properties}
        return {"ssl.keystore.type": "PKCS12", **store}
    certificate, key = _pem(properties, "ssl.certificate"), _pem(properties, "ssl.key")
    if certificate is None and key is None:
        return {}
    if certificate is None or key is None:
        lacks = "ssl.certificate" if certificate is None else "ssl.key"
        raise SettingsError(
            f"[kafka] a client certificate needs its key and its chain: set {lacks}.location or {lacks}.pem"
        )
    if "BEGIN RSA PRIVATE KEY" in key or "BEGIN EC PRIVATE KEY" in key:
        raise SettingsError(
            "[kafka] ssl.key: Spark's Kafka client reads PKCS#8 keys only; convert it: openssl pkcs8 -topk8 "
            "-in client.key -out client.pk8 (with -nocrypt if it has no password)"
        )
    java = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": certificate,
        "ssl.keystore.key": key,
    }
    if "ssl.key.password" in properties and "BEGIN ENCRYPTED PRIVATE KEY" in key:
        java["ssl.key.password"] = properties["ssl.key.password"]
    return java


def portable_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's properties with the text of PEM files, which executors lack.

    Of a chain of certificates as text, librdkafka sends the first alone: that one stays a file.
    """
    portable = dict(properties)
    for prefix in ("ssl.ca", "ssl.certificate", "ssl.key"):
        text = _pem(properties, prefix)
        if text is not None and (prefix != "ssl.certificate" or text.count(_PEM) == 1):
            portable.pop(f"{prefix}.location", None)
            portable[f"{prefix}.pem"] = text
    return portable


def _pem(properties: Mapping[str, str], prefix: str) -> str | None:
    """PEM text, from the property itself or a file (in a folder: all PEM files); None if not set."""
    if text := properties.get(f"{prefix}.pem"):
        return text
    location = properties.get(f"{prefix}.location")
    if not location or location == "probe":  # librdkafka searches for the system's; Java has its own
        return None
    return read_pem(Path(location), f"kafka.{prefix}.location")


def read_pem(path: Path, setting: str) -> str:
    """The PEM text of a file, or of a folder's files; raises SettingsError, which names the ``setting``."""
    try:
        files = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
        texts = [file.read_text("utf-8", errors="replace") for file in files]
    except OSError as error:
        raise SettingsError(f"{setting}: {path} cannot be read ({error.strerror})") from error
    if not (pems := [text for text in texts if _PEM in text]):
        raise SettingsError(f"{setting}: {path} contains no PEM (text that begins with {_PEM}…)")
    return "\n".join(pems)


def _ciphers(names: str) -> str:
    """Cipher suites for Java: OpenSSL's TLS 1.3 names are Java's; its older names and expressions are not."""
    suites = [name for name in re.split(r"[:,\s]+", names) if name]
    if not all(name.startswith("TLS_") for name in suites):
        raise SettingsError(
            "kafka.ssl.cipher.suites: Spark's Kafka client only accepts TLS 1.3 names (such as "
            "TLS_AES_256_GCM_SHA384); use those, or remove the property"
        )
    return ",".join(suites)


# --- logins -----------------------------------------------------------------------------------------------


def _login(properties: Mapping[str, str]) -> dict[str, str]:
    uses_sasl = properties.get("security.protocol", "plaintext").lower().startswith("sasl_")
    mechanism = properties.get("sasl.mechanism") or properties.get("sasl.mechanisms")
    if "sasl.username" in properties and not uses_sasl:
        raise SettingsError(
            "[kafka] sasl.username is set, but security.protocol uses no login; "
            'set it to "SASL_SSL" or "SASL_PLAINTEXT"'
        )
    if not uses_sasl:
        return {}
    if mechanism is None:
        raise SettingsError(
            "[kafka] security.protocol uses a login, but sasl.mechanism is not set; set it to PLAIN, "
            "SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"
        )
    mechanism = mechanism.upper()
    if mechanism in _WITH_PASSWORD:
        options = {name: properties.get(f"sasl.{name}", "") for name in ("username", "password")}
        return {"sasl.mechanism": mechanism, "sasl.jaas.config": _jaas(_WITH_PASSWORD[mechanism], options)}
    if mechanism == "OAUTHBEARER":
        return {"sasl.mechanism": mechanism, **_oauth(properties)}
    raise SettingsError(
        f"kafka.sasl.mechanism = {mechanism}: table topics log in with PLAIN, SCRAM-SHA-256, "
        "SCRAM-SHA-512 or OAUTHBEARER"
    )


def _oauth(properties: Mapping[str, str]) -> dict[str, str]:
    ours = {
        name.removeprefix("sasl.oauthbearer."): value
        for name, value in properties.items()
        if name.startswith("sasl.oauthbearer.")
    }
    if ours.get("method", "default").lower() != "oidc":
        return {"sasl.jaas.config": _jaas(_OAUTH, _unsecured(ours.get("config", "")))}
    if ours.get("grant.type", "client_credentials") != "client_credentials":
        raise SettingsError("kafka.sasl.oauthbearer.grant.type: only client_credentials is supported")
    java_names = {"client.id": "clientId", "client.secret": "clientSecret", "scope": "scope"}
    options = {java_names[name]: value for name, value in ours.items() if name in java_names}
    for pair in filter(None, ours.get("extensions", "").split(",")):
        name, _, value = pair.strip().partition("=")
        options[f"extension_{name}"] = value
    if location := properties.get("https.ca.location"):
        read_pem(Path(location), "kafka.https.ca.location")
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": location}
    return {
        "sasl.jaas.config": _jaas(_OAUTH, options),
        "sasl.oauthbearer.token.endpoint.url": ours.get("token.endpoint.url", ""),
        "sasl.login.callback.handler.class": _OIDC_HANDLER,
    }


def _unsecured(config: str) -> dict[str, str]:
    """Java's options for unsecured tokens, from librdkafka's (``principal=admin scope=a,b …``).

    Such tokens are unsigned: for tests and trials, as in librdkafka.

    >>> _unsecured("principal=ann lifeSeconds=60 scope=a,b")["unsecuredLoginStringClaim_sub"]
    'ann'
    """
    pairs = dict(pair.split("=", 1) for pair in config.split() if "=" in pair)
    principal_claim = pairs.get("principalClaimName", "sub")
    scope_claim = pairs.get("scopeClaimName", "scope")
    options = {
        f"unsecuredLoginStringClaim_{principal_claim}": pairs.get("principal", ""),
        "unsecuredLoginPrincipalClaimName": principal_claim,
        "unsecuredLoginLifetimeSeconds": pairs.get("lifeSeconds", "3600"),
    }
    if "scope" in pairs:
        options["unsecuredLoginScopeClaimName"] = scope_claim
        options[f"unsecuredLoginListClaim_{scope_claim}"] = "|" + pairs["scope"].replace(",", "|")
    for name, value in pairs.items():
        if name.startswith("extension_"):
            options[f"unsecuredLoginExtension_{name.removeprefix('extension_')}"] = value
    return options


def _jaas(module: str, options: Mapping[str, str]) -> str:
    escape: Callable[[str], str] = lambda text: text.replace("\\", "\\\\").replace('"', '\\"')  # noqa: E731
    assignments = " ".join(f'{name}="{escape(value)}"' for name, value in options.items())
    return f"{module} required {assignments};"
