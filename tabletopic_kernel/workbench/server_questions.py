"""The questions of ``tabletopic init``: the ways to reach a server, and the properties that each needs.

The ways are data in one table; tables in docs/how-to/your-servers.md derive from it. The properties are
librdkafka's, the registry client's and PyIceberg's, under their own names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tabletopic_kernel.model.redact import mask_property
from tabletopic_kernel.model.settings.names import variable_name
from tabletopic_kernel.workbench.config.sources import PREFIX

Answers = dict[str, str]
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Question:
    """A property that the user knows; ``also``: properties that derive from it, ``{}`` is the answer."""

    key: str
    text: str
    default: str = ""
    optional: bool = False
    secret: bool = False
    choices: tuple[str, ...] = ()
    also: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Way:
    """One way to reach a server: the choice, the questions, and the properties it implies."""

    text: str
    questions: tuple[Question, ...] = ()
    fixed: Mapping[str, str] = field(default_factory=dict)
    then: tuple[Way, ...] = ()  # a choice among these follows the questions
    then_text: str = ""


@dataclass(frozen=True)
class Server:
    """A section of the settings file; its first way is the embedded server, with no properties."""

    section: str
    text: str
    ways: tuple[Way, ...]


_EMBEDDED = Way("Local, on this machine")
_BOOTSTRAP = Question("bootstrap.servers", "Brokers, as host:port separated by commas")
_CA = Question("ssl.ca.location", "CA certificate file, if the system does not trust it", optional=True)
_LOGIN = (
    Question(
        "sasl.mechanism",
        "Mechanism",
        default="SCRAM-SHA-512",
        choices=("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"),
    ),
    Question("sasl.username", "User"),
    Question("sasl.password", "Password", secret=True),
)
_TLS = {"security.protocol": "SSL"}

KAFKA = Server(
    "kafka",
    "Kafka",
    (
        _EMBEDDED,
        Way("Without a login", (_BOOTSTRAP,)),
        Way("TLS", (_BOOTSTRAP, _CA), _TLS),
        Way("TLS, user and password", (_BOOTSTRAP, *_LOGIN, _CA), {"security.protocol": "SASL_SSL"}),
        Way("User and password, without TLS", (_BOOTSTRAP, *_LOGIN), {"security.protocol": "SASL_PLAINTEXT"}),
        Way(
            "Client certificate, as PEM files",
            (
                _BOOTSTRAP,
                Question("ssl.certificate.location", "Certificate file"),
                Question("ssl.key.location", "Key file (PKCS#8)"),
                Question("ssl.key.password", "Password of the key", optional=True, secret=True),
                _CA,
            ),
            _TLS,
        ),
        Way(
            "Client certificate, as PKCS#12",
            (
                _BOOTSTRAP,
                Question("ssl.keystore.location", "Key store file"),
                Question("ssl.keystore.password", "Its password", secret=True),
                _CA,
            ),
            _TLS,
        ),
        Way(
            "OIDC, client credentials",
            (
                _BOOTSTRAP,
                Question("sasl.oauthbearer.token.endpoint.url", "URL of the token endpoint"),
                Question("sasl.oauthbearer.client.id", "Client id"),
                Question("sasl.oauthbearer.client.secret", "Client secret", secret=True),
                Question("sasl.oauthbearer.scope", "Scope", optional=True),
                _CA,
            ),
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
            },
        ),
    ),
)

_URL = Question("url", "URL of its API, as for Confluent's clients")
REGISTRY = Server(
    "registry",
    "Schema registry",
    (
        _EMBEDDED,
        Way("Without a login", (_URL, _CA)),
        Way(
            "User and password",
            (_URL, Question("basic.auth.user.info", "user:password", secret=True), _CA),
            {"basic.auth.credentials.source": "USER_INFO"},
        ),
        Way(
            "Token",
            (_URL, Question("bearer.auth.token", "Token", secret=True), _CA),
            {"bearer.auth.credentials.source": "STATIC_TOKEN"},
        ),
        Way(
            "Client certificate",
            (
                _URL,
                Question("ssl.certificate.location", "Certificate file (PEM)"),
                Question("ssl.key.location", "Key file (PEM)"),
                _CA,
            ),
        ),
        Way(
            "AWS Glue, with credentials from the environment, a profile or a role",
            (
                Question("glue.region", "Region", default="us-east-1"),
                Question("glue.registry-name", "Name of the registry", default="default-registry"),
            ),
            {"type": "glue"},
        ),
    ),
)

_REGION = Question("s3.region", "Region", default="us-east-1")
_KEYS = (
    Question("s3.access-key-id", "Access key"),
    Question("s3.secret-access-key", "Secret key", secret=True),
)
_BUCKET = Question("warehouse", "Warehouse, such as s3://bucket/folder")
_GOOGLE = Question("warehouse", "Warehouse, such as gs://bucket/folder")
_TOKEN = Question("gcs.oauth2.token", "Token", secret=True)
_EXPIRY = Question("gcs.oauth2.token-expires-at", "Its expiry, in epoch milliseconds")
_AZURE = Question("warehouse", "Warehouse: abfss://container@account.dfs.core.windows.net/folder")
_ACCOUNT_KEY = Question("adls.account-key", "Key of the account", secret=True)
_SAS = Question("adls.sas-token", "Shared access signature (SAS)", secret=True)
STORAGE = (
    Way("Amazon S3, with credentials from the environment, a profile or a role", (_BUCKET, _REGION)),
    Way("Amazon S3, with keys", (_BUCKET, _REGION, *_KEYS)),
    Way("Another S3-compatible store", (_BUCKET, Question("s3.endpoint", "Its URL"), *_KEYS, _REGION)),
    Way("Google Cloud Storage, with the login of the environment", (_GOOGLE,)),
    Way("Google Cloud Storage, with a token", (_GOOGLE, _TOKEN, _EXPIRY)),
    Way("Azure, with the account's key", (_AZURE, _ACCOUNT_KEY)),
    Way("Azure, with a shared access signature", (_AZURE, _SAS)),
    Way("A folder", (Question("warehouse", "Warehouse, such as file:///data/lake"),)),
)
_URI = Question("uri", "URL of its API, such as https://catalog.example/api/catalog")
_WAREHOUSE_NAME = Question("warehouse", "Warehouse, by its name in the catalog", optional=True)
_LENT = Way("Where the catalog says, with credentials it vends", (_WAREHOUSE_NAME,))
_OAUTH = Question("oauth2-server-uri", "URL of the token endpoint, if it is another server", optional=True)


def _stored(kind: str, text: str, *questions: Question, storage: tuple[Way, ...] = STORAGE) -> Way:
    """A catalog of a type, with a choice of where tables are stored."""
    return Way(text, questions, {"type": kind}, storage, "Where are tables stored?")


def _rest(text: str, *questions: Question) -> Way:
    return _stored("rest", text, _URI, *questions, storage=(_LENT, *STORAGE))


CATALOG = Server(
    "catalog",
    "Iceberg catalog",
    (
        Way("SQLite and a local folder"),
        _rest("REST, without a login"),
        _rest(
            "REST, with client credentials (Polaris, Lakekeeper, Unity…)",
            Question("credential", "client-id:client-secret", secret=True),
            _OAUTH,
            Question("scope", "Scope", optional=True),
        ),
        _rest("REST, with a token", Question("token", "Token", secret=True)),
        Way(
            "Amazon S3 Tables, with credentials from the environment, a profile or a role",
            (
                Question(
                    "rest.signing-region",
                    "Region",
                    default="us-east-1",
                    also={"uri": "https://s3tables.{}.amazonaws.com/iceberg", "s3.region": "{}"},
                ),
                Question("warehouse", "ARN of the table bucket"),
            ),
            {"type": "rest", "rest.sigv4-enabled": "true", "rest.signing-name": "s3tables"},
        ),
        _stored(
            "glue", "AWS Glue", Question("glue.region", "Region", default="us-east-1"), storage=STORAGE[:3]
        ),
        _stored(
            "hive",
            "Hive Metastore",
            Question("uri", "Its address, such as thrift://metastore.example:9083"),
        ),
        _stored(
            "sql",
            "PostgreSQL",
            Question(
                "uri",
                "Its URI, such as postgresql+psycopg2://user:password@db.example:5432/lake",
                secret=True,
            ),
        ),
    ),
)
SERVERS = (KAFKA, REGISTRY, CATALOG)


def further_catalog(name: str) -> Server:
    """A further catalog: like ``[catalog]``, but never embedded."""
    return Server(f"catalogs.{name}", f"Iceberg catalog {name}", CATALOG.ways[1:])


def answer_way(
    way: Way, ask: Callable[[Question], str], choose: Callable[[str, tuple[Way, ...]], Way]
) -> Answers:
    """The properties of a way: fixed properties, and the answers of ``ask`` that are not empty."""
    answers = dict(way.fixed)
    for question in way.questions:
        if answer := ask(question).strip():
            answers[question.key] = answer
            answers |= {key: template.format(answer) for key, template in question.also.items()}
    if way.then:
        answers |= answer_way(choose(way.then_text, way.then), ask, choose)
    return answers


def secrets_of(answers: Mapping[str, str]) -> list[str]:
    """Names of the properties that contain a secret, whole or in part."""
    return [key for key, value in answers.items() if mask_property(key, value) != value]


def settings_text(sections: Mapping[str, Answers], *, secrets_too: bool, prefix: str = PREFIX) -> str:
    """The settings file, a section per server; without ``secrets_too`` variables replace secrets."""
    lines = [
        "# `tabletopic config` shows the settings in force, `tabletopic doctor` checks them.",
        '# A section [topics.NAME] may hold settings of a topic, such as commit_interval_ms = "10s".',
    ]
    for server in SERVERS:
        answers = sections.get(server.section, {})
        lines += ["", *section_lines(server, answers, secrets_too=secrets_too, prefix=prefix)]
    return "\n".join([*lines, ""])


def section_lines(server: Server, answers: Answers, *, secrets_too: bool, prefix: str = PREFIX) -> list[str]:
    """The lines of one section, as in ``settings_text``."""
    if not answers:
        return [f"# {server.text}: the one that `tabletopic up` starts"]
    hidden = () if secrets_too else secrets_of(answers)
    return [
        f"# {server.text}",
        f"[{server.section}]",
        *(
            secret_line(server.section, key, prefix)
            if key in hidden
            else f"{key if _BARE.fullmatch(key) else _toml_text(key)} = {_toml_text(value)}"
            for key, value in answers.items()
        ),
    ]


def secret_line(section: str, key: str, prefix: str) -> str:
    """The comment in place of a secret: the variable to set."""
    return f"# {key}: set {prefix}{variable_name(section, key)}"


def _toml_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")  # JSON may have it as it is
