"""The questions of ``tabletopic init``: the ways to reach a server, and the properties that each needs.

The ways are data in one table; a table in docs/your-servers.md is generated from it. The properties are
librdkafka's, the registry client's and PyIceberg's, under their own names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tabletopic_kernel.model.redact import mask_property
from tabletopic_kernel.model.settings.names import variable_name
from tabletopic_kernel.workbench.config import PREFIX

Answers = dict[str, str]


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
    """One way to reach a server: the choice, the properties it implies, and the questions."""

    text: str
    fixed: Mapping[str, str] = field(default_factory=dict)
    questions: tuple[Question, ...] = ()
    then: tuple[Way, ...] = ()  # a choice among these follows the questions
    then_text: str = ""


@dataclass(frozen=True)
class Server:
    """A section of the settings file; its first way is the embedded server, with no properties."""

    section: str
    text: str
    ways: tuple[Way, ...]


_EMBEDDED = Way("Local, started by `tabletopic up`")
_BOOTSTRAP = Question("bootstrap.servers", "Brokers, as host:port separated by commas")
_CA = Question("ssl.ca.location", "CA certificate file, if the system does not trust it", optional=True)
_USER = (
    Question("sasl.username", "User"),
    Question("sasl.password", "Password", secret=True),
)
_MECHANISM = Question(
    "sasl.mechanism",
    "Mechanism",
    default="SCRAM-SHA-512",
    choices=("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"),
)

KAFKA = Server(
    "kafka",
    "Kafka",
    (
        _EMBEDDED,
        Way("Without a login", {}, (_BOOTSTRAP,)),
        Way("TLS", {"security.protocol": "SSL"}, (_BOOTSTRAP, _CA)),
        Way(
            "TLS, user and password", {"security.protocol": "SASL_SSL"}, (_BOOTSTRAP, _MECHANISM, *_USER, _CA)
        ),
        Way(
            "User and password, without TLS",
            {"security.protocol": "SASL_PLAINTEXT"},
            (_BOOTSTRAP, _MECHANISM, *_USER),
        ),
        Way(
            "Client certificate, as PEM files",
            {"security.protocol": "SSL"},
            (
                _BOOTSTRAP,
                Question("ssl.certificate.location", "Certificate file"),
                Question("ssl.key.location", "Key file (PKCS#8)"),
                Question("ssl.key.password", "Password of the key", optional=True, secret=True),
                _CA,
            ),
        ),
        Way(
            "Client certificate, as PKCS#12",
            {"security.protocol": "SSL"},
            (
                _BOOTSTRAP,
                Question("ssl.keystore.location", "Key store file"),
                Question("ssl.keystore.password", "Its password", secret=True),
                _CA,
            ),
        ),
        Way(
            "OIDC, client credentials",
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
            },
            (
                _BOOTSTRAP,
                Question("sasl.oauthbearer.token.endpoint.url", "URL of the token endpoint"),
                Question("sasl.oauthbearer.client.id", "Client id"),
                Question("sasl.oauthbearer.client.secret", "Client secret", secret=True),
                Question("sasl.oauthbearer.scope", "Scope", optional=True),
                _CA,
            ),
        ),
    ),
)

_URL = Question("url", "URL of its API, as for Confluent's clients")
REGISTRY = Server(
    "registry",
    "Schema registry",
    (
        _EMBEDDED,
        Way("Without a login", {}, (_URL, _CA)),
        Way(
            "User and password",
            {"basic.auth.credentials.source": "USER_INFO"},
            (_URL, Question("basic.auth.user.info", "user:password", secret=True), _CA),
        ),
        Way(
            "Token",
            {"bearer.auth.credentials.source": "STATIC_TOKEN"},
            (_URL, Question("bearer.auth.token", "Token", secret=True), _CA),
        ),
        Way(
            "Client certificate",
            {},
            (
                _URL,
                Question("ssl.certificate.location", "Certificate file (PEM)"),
                Question("ssl.key.location", "Key file (PEM)"),
                _CA,
            ),
        ),
        Way(
            "AWS Glue, with credentials from the environment, a profile or a role",
            {"type": "glue"},
            (
                Question("glue.region", "Region", default="us-east-1"),
                Question("glue.registry-name", "Name of the registry", default="default-registry"),
            ),
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
_AZURE = Question("warehouse", "Warehouse: abfss://container@account.dfs.core.windows.net/folder")
STORAGE = (
    Way(
        "Amazon S3, with credentials from the environment, a profile or a role",
        {},
        (_BUCKET, _REGION),
    ),
    Way("Amazon S3, with keys", {}, (_BUCKET, _REGION, *_KEYS)),
    Way(
        "Another S3-compatible store",
        {},
        (_BUCKET, Question("s3.endpoint", "Its URL"), *_KEYS, _REGION),
    ),
    Way("Google Cloud Storage, with the login of the environment", {}, (_GOOGLE,)),
    Way(
        "Google Cloud Storage, with a token",
        {},
        (
            _GOOGLE,
            Question("gcs.oauth2.token", "Token", secret=True),
            Question("gcs.oauth2.token-expires-at", "Its expiry, in milliseconds since 1970"),
        ),
    ),
    Way(
        "Azure, with the account's key",
        {},
        (_AZURE, Question("adls.account-key", "Key of the account", secret=True)),
    ),
    Way(
        "Azure, with a shared access signature",
        {},
        (_AZURE, Question("adls.sas-token", "Shared access signature (SAS)", secret=True)),
    ),
    Way("A folder", {}, (Question("warehouse", "Warehouse, such as file:///data/lake"),)),
)
_URI = Question("uri", "URL of its API, such as https://catalog.example/api/catalog")
_WAREHOUSE_NAME = Question("warehouse", "Warehouse, by its name in the catalog", optional=True)
_LENT = Way("Where the catalog says, with credentials it vends", {}, (_WAREHOUSE_NAME,))
_WHERE = "Where are tables stored?"
CATALOG = Server(
    "catalog",
    "Iceberg catalog",
    (
        Way("SQLite and a local folder"),
        Way(
            "REST, without a login",
            {"type": "rest"},
            (_URI,),
            (_LENT, *STORAGE),
            _WHERE,
        ),
        Way(
            "REST, with client credentials (Polaris, Lakekeeper, Unity…)",
            {"type": "rest"},
            (
                _URI,
                Question("credential", "client-id:client-secret", secret=True),
                Question(
                    "oauth2-server-uri", "URL of the token endpoint, if it is another server", optional=True
                ),
                Question("scope", "Scope", optional=True),
            ),
            (_LENT, *STORAGE),
            _WHERE,
        ),
        Way(
            "REST, with a token",
            {"type": "rest"},
            (_URI, Question("token", "Token", secret=True)),
            (_LENT, *STORAGE),
            _WHERE,
        ),
        Way(
            "Amazon S3 Tables, with credentials from the environment, a profile or a role",
            {"type": "rest", "rest.sigv4-enabled": "true", "rest.signing-name": "s3tables"},
            (
                Question(
                    "rest.signing-region",
                    "Region",
                    default="us-east-1",
                    also={"uri": "https://s3tables.{}.amazonaws.com/iceberg", "s3.region": "{}"},
                ),
                Question("warehouse", "ARN of the table bucket"),
            ),
        ),
        Way(
            "AWS Glue",
            {"type": "glue"},
            (Question("glue.region", "Region", default="us-east-1"),),
            STORAGE[:3],
            _WHERE,
        ),
        Way(
            "Hive Metastore",
            {"type": "hive"},
            (Question("uri", "Its address, such as thrift://metastore.example:9083"),),
            STORAGE,
            _WHERE,
        ),
        Way(
            "PostgreSQL",
            {"type": "sql"},
            (
                Question(
                    "uri",
                    "Its URI, such as postgresql+psycopg2://user:password@db.example:5432/lake",
                    secret=True,
                ),
            ),
            STORAGE,
            _WHERE,
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


def settings_text(sections: Mapping[str, Answers], *, secrets_too: bool) -> str:
    """The settings file, a section per server; without ``secrets_too`` variables replace secrets."""
    lines = [
        "# `tabletopic config` shows the settings in force, `tabletopic doctor` checks them.",
        '# A section [topics.NAME] may hold settings of a topic, such as commit_interval_ms = "10s".',
    ]
    for server in SERVERS:
        lines += ["", *section_lines(server, sections.get(server.section, {}), secrets_too=secrets_too)]
    return "\n".join([*lines, ""])


def section_lines(server: Server, answers: Answers, *, secrets_too: bool) -> list[str]:
    """The lines of one section, as in ``settings_text``."""
    if not answers:
        return [f"# {server.text}: the one that `tabletopic up` starts"]
    hidden = () if secrets_too else secrets_of(answers)
    return [
        f"# {server.text}",
        f"[{server.section}]",
        *(
            f"# {key}: set {PREFIX}{variable_name(server.section, key)}"
            if key in hidden
            else f"{_toml_key(key)} = {json.dumps(value, ensure_ascii=False)}"
            for key, value in answers.items()
        ),
    ]


def _toml_key(key: str) -> str:
    bare = key.replace("_", "").replace("-", "")
    return key if bare.isascii() and bare.isalnum() else json.dumps(key)
