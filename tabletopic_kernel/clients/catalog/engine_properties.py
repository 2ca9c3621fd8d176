"""Translates PyIceberg's catalog properties for Spark's catalog and DuckDB's secret: one table for both.

``[catalog]`` is written once, in PyIceberg's names. A property that an engine does not have is an error that
says so, never a wrong connection: a query that reads elsewhere is worse than none.

One module, because all stores and engines are side by side in one table.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from tabletopic_kernel.model.errors import SettingsError, Trouble
from tabletopic_kernel.model.settings.sections import DEFAULT_CATALOG_NAME

_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
_S3_FILES = "org.apache.iceberg.aws.s3.S3FileIO"
_GCS_FILES = "org.apache.iceberg.gcp.gcs.GCSFileIO"
_GLUE = "org.apache.iceberg.aws.glue.GlueCatalog"
IO = "PyIceberg's client"  # instead of an option of DuckDB's secret


@dataclass(frozen=True)
class Row:
    """A property in PyIceberg, in Iceberg's Java catalogs, and in DuckDB's secret; None: it has none.

    ``IO``: DuckDB reads that store through PyIceberg's client, which has the property.
    """

    pyiceberg: str
    spark: str | None = None
    duckdb: str | None = None
    note: str = ""


# If several translate to the same property, the first one that is set wins.
TABLE = (
    Row("warehouse", "warehouse"),
    Row("credential", "credential", note="REST: client id and secret"),
    Row("token", "token", note="REST"),
    Row("oauth2-server-uri", "oauth2-server-uri", note="REST"),
    Row("scope", "scope", note="REST"),
    Row("audience", "audience", note="REST"),
    Row("resource", "resource", note="REST"),
    Row("prefix", "prefix", note="REST"),
    Row("rest.sigv4-enabled", "rest.sigv4-enabled", note="REST behind AWS"),
    Row("rest.signing-region", "rest.signing-region", note="REST behind AWS"),
    Row("rest.signing-name", "rest.signing-name", note="REST behind AWS"),
    Row("client.access-key-id", "rest.access-key-id", note="REST behind AWS"),
    Row("client.secret-access-key", "rest.secret-access-key", note="REST behind AWS"),
    Row("client.session-token", "rest.session-token", note="REST behind AWS"),
    Row("glue.endpoint", "glue.endpoint"),
    Row("glue.id", "glue.id"),
    Row("glue.skip-archive", "glue.skip-archive"),
    Row("s3.endpoint", "s3.endpoint", "ENDPOINT"),
    Row("s3.access-key-id", "s3.access-key-id", "KEY_ID"),
    Row("client.access-key-id", "s3.access-key-id", "KEY_ID"),
    Row("s3.secret-access-key", "s3.secret-access-key", "SECRET"),
    Row("client.secret-access-key", "s3.secret-access-key", "SECRET"),
    Row("s3.session-token", "s3.session-token", "SESSION_TOKEN"),
    Row("client.session-token", "s3.session-token", "SESSION_TOKEN"),
    Row("s3.region", "client.region", "REGION"),
    Row("client.region", "client.region", "REGION"),
    Row("glue.region", "client.region"),
    Row("s3.role-arn", "client.assume-role.arn", note="DuckDB: keys of the role, by boto3"),
    Row("client.role-arn", "client.assume-role.arn", note="DuckDB: keys of the role, by boto3"),
    Row("s3.force-virtual-addressing", "s3.path-style-access", "URL_STYLE", "inverted in Spark"),
    Row("s3.server-side-encryption", "s3.sse.type"),
    Row("s3.sse-kms-key-id", "s3.sse.key"),
    Row("gcs.project-id", "gcs.project-id"),
    Row("gcs.service.host", "gcs.service.host", IO),
    Row("gcs.oauth2.token", "gcs.oauth2.token", IO),
    Row("gcs.oauth2.token-expires-at", "gcs.oauth2.token-expires-at", IO),
    Row("adls.account-name", None, IO),
    Row("adls.account-key", None, IO),
    Row("adls.sas-token", None, IO),
    Row("adls.blob-storage-authority", None, IO),
    Row("adls.dfs-storage-authority", None, IO),
    Row("adls.blob-storage-scheme", None, IO),
    Row("adls.dfs-storage-scheme", None, IO),
)
# For catalogs or storage that Spark reaches in other ways, or through other programs of the same name.
_OF_AWS = ("s3.", "client.", "glue.", "rest.sigv4-", "rest.signing-")
_NO_SPARK = ("py-catalog-impl", "py-io-impl", "s3.signer", "auth.", "ssl.", "hive.kerberos")
# Options that lead PostgreSQL's own client to another database; its driver for Java ignores them.
_PLACE = frozenset({"host", "hostaddr", "port", "dbname", "service"})
_GCS = ("gs://", "gcs://")
_AZURE = ("abfs://", "abfss://", "wasb://", "wasbs://")


def catalog_type(properties: Mapping[str, str]) -> str:
    """``rest``, ``sql``, ``hive``, ``glue``…: as set, or as PyIceberg infers it from the address.

    >>> catalog_type({"uri": "thrift://h:9083"}), catalog_type({"uri": "sqlite:////c.db"})
    ('hive', 'sql')
    """
    if "type" in properties:
        return properties["type"].lower()
    scheme = properties.get("uri", "").partition("://")[0]
    if scheme in ("http", "https"):
        return "rest"
    return "hive" if scheme == "thrift" else "sql"


def is_on_s3(properties: Mapping[str, str]) -> bool:
    """Whether tables are on S3, going by the properties."""
    place = properties.get("warehouse", "")
    return place.startswith(("s3://", "s3a://", "s3n://")) or "s3.endpoint" in properties


def is_on_gcs(properties: Mapping[str, str]) -> bool:
    """Whether tables are on Google Cloud Storage, going by the properties."""
    return _is_in(properties, _GCS, "gcs.")


def _is_in(properties: Mapping[str, str], schemes: tuple[str, ...], prefix: str) -> bool:
    """Whether tables are in stores of ``schemes``: by the warehouse, else by other properties."""
    place = properties.get("warehouse", "")
    has_location = "://" in place or place.startswith(("/", "file:"))
    return place.startswith(schemes) if has_location else any(name.startswith(prefix) for name in properties)


# --- Spark ------------------------------------------------------------------------------------------------


def spark_catalog(properties: Mapping[str, str], beside: Iterable[Mapping[str, str]] = ()) -> dict[str, str]:
    """Spark's properties of a catalog, ``beside`` others of the session; raises SettingsError."""
    if not properties:
        return {}
    keys = java_properties_of_aws(properties)
    if catalog_type(properties) == "glue" and any(
        catalog_type(other) == "glue" and java_properties_of_aws(other) != keys for other in beside
    ):
        raise _not_for_spark(
            "cannot be passed to Spark: its Glue client takes the keys of one catalog only, and another "
            "catalog comes first"
        )
    names = {row.pyiceberg for row in TABLE}
    for name in properties:
        is_unknown = name.startswith("gcs.") and name not in names and is_on_gcs(properties)
        if name.startswith(_NO_SPARK) or is_unknown:
            raise _not_for_spark(f"{name} cannot be passed to Spark")
    if _is_in(properties, _AZURE, "adls."):
        raise _not_for_spark("Spark has no client for Azure storage here")
    catalog = {
        "cache-enabled": "false",  # else Spark does not see PyIceberg's commits
        **_kind(properties),
        **_translated(properties),
        **{key: value for key, value in properties.items() if key.startswith("header.")},
    }
    if is_on_s3(properties):
        catalog |= {"io-impl": _S3_FILES, "s3.path-style-access": _path_style(properties)}
    elif is_on_gcs(properties):
        catalog["io-impl"] = _GCS_FILES
    prefix = f"spark.sql.catalog.{properties.get('name', DEFAULT_CATALOG_NAME)}"
    conf = {f"{prefix}.{key}": value for key, value in catalog.items()}
    return {"spark.sql.extensions": _EXTENSIONS, prefix: "org.apache.iceberg.spark.SparkCatalog", **conf}


def _not_for_spark(cause: str) -> SettingsError:
    return SettingsError(Trouble(f"{cause}; query with --engine duckdb"))


def spark_extras(properties: Mapping[str, str]) -> tuple[str, ...]:
    """What Spark needs for this catalog besides every session's jars: ``aws``, ``gcp``, ``postgresql``.

    >>> spark_extras({"uri": "postgresql://db/lake", "warehouse": "s3://lake"})
    ('aws', 'postgresql')
    >>> spark_extras({"uri": "sqlite:////c.db", "warehouse": "file:///lake"})
    ()
    """
    kind, uri = catalog_type(properties), properties.get("uri", "")
    of_aws = is_on_s3(properties) or properties.get("warehouse", "").startswith("arn:aws")
    is_aws = kind == "glue" or of_aws or any(name.startswith(_OF_AWS) for name in properties)
    is_postgres = kind == "sql" and uri.startswith("postgresql")
    extras = {"aws": is_aws, "gcp": is_on_gcs(properties), "postgresql": is_postgres}
    return tuple(name for name, needed in extras.items() if needed)


def java_properties_of_aws(properties: Mapping[str, str]) -> dict[str, str]:
    """Java system properties with Glue's keys: its client takes none from a catalog's properties.

    >>> java_properties_of_aws({"type": "glue", "client.access-key-id": "k", "client.secret-access-key": "s"})
    {'aws.accessKeyId': 'k', 'aws.secretAccessKey': 's'}
    """
    if catalog_type(properties) != "glue":
        return {}
    names = {
        "aws.accessKeyId": "access-key-id",
        "aws.secretAccessKey": "secret-access-key",
        "aws.sessionToken": "session-token",
        "aws.profile": "profile-name",
    }
    # Like PyIceberg: a service's own keys before those for all services.
    values = {
        java: properties.get(f"glue.{name}") or properties.get(f"client.{name}")
        for java, name in names.items()
    }
    return {java: text for java, text in values.items() if text}


def _kind(properties: Mapping[str, str]) -> dict[str, str]:
    kind, uri = catalog_type(properties), properties.get("uri", "")
    if kind == "sql":
        return {"type": "jdbc", "jdbc.schema-version": "V1", **_jdbc(uri)}
    if kind == "glue":
        return {"catalog-impl": _GLUE}
    if kind in ("rest", "hive"):
        return {"type": kind, **({"uri": uri} if uri else {})}
    raise SettingsError(f"Spark cannot read a catalog of type {kind}; query with --engine duckdb")


def _jdbc(uri: str) -> dict[str, str]:
    try:
        url = make_url(uri)
    except ArgumentError as error:
        raise SettingsError(Trouble("uri is not a database address")) from error
    dialect = url.get_backend_name()
    if dialect == "sqlite":
        # Same file, different driver: sqlite:////x?timeout=30 (seconds) is jdbc:sqlite:/x?busy_timeout=30000.
        return {"uri": f"jdbc:sqlite:{url.database or ''}?busy_timeout=30000"}
    if dialect == "postgresql":
        return _jdbc_of_postgresql(url)
    raise SettingsError(f"Spark cannot read a catalog in {dialect}; query with --engine duckdb")


def _jdbc_of_postgresql(url: URL) -> dict[str, str]:
    if elsewhere := sorted(_PLACE.intersection(url.query)):
        raise SettingsError(
            Trouble(
                f"uri cannot be passed to Spark with {elsewhere[0]} after the question mark; write "
                "postgresql://HOST:PORT/DATABASE, or query with --engine duckdb"
            )
        )
    host = f"[{url.host}]" if url.host and ":" in url.host else url.host or "localhost"
    place = f"{host}{f':{url.port}' if url.port else ''}/{quote(url.database or '')}"
    options = "&".join(f"{name}={quote(str(value))}" for name, value in url.query.items())
    properties = {"uri": f"jdbc:postgresql://{place}{'?' * bool(options)}{options}"}
    login = {"jdbc.user": url.username, "jdbc.password": url.password}
    return properties | {name: value for name, value in login.items() if value is not None}


def _translated(properties: Mapping[str, str]) -> dict[str, str]:
    spark: dict[str, str] = {}
    for row in TABLE:
        if row.spark and row.pyiceberg in properties and row.duckdb != "URL_STYLE":
            spark.setdefault(row.spark, properties[row.pyiceberg])
    if "client.assume-role.arn" in spark:
        spark["client.factory"] = "org.apache.iceberg.aws.AssumeRoleAwsClientFactory"
        spark.setdefault("client.assume-role.region", spark.get("client.region", ""))
    return spark


def _path_style(properties: Mapping[str, str]) -> str:
    virtual = properties.get("s3.force-virtual-addressing", "").lower() == "true"
    return "true" if "s3.endpoint" in properties and not virtual else "false"


# --- DuckDB -----------------------------------------------------------------------------------------------


def duckdb_secret(properties: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Options of DuckDB's S3 secret; without keys in ``properties``, those of the environment or of boto3.

    PyIceberg and Spark themselves look in the same places: variables, profiles, roles of machines and pods.
    """
    options: dict[str, str] = {}
    for row in TABLE:
        if row.duckdb not in (None, IO, "URL_STYLE") and properties.get(row.pyiceberg):
            options.setdefault(row.duckdb, properties[row.pyiceberg])
    endpoint = (
        options.get("ENDPOINT") or environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL", "")
    )
    if "KEY_ID" not in options and properties.get("s3.anonymous", "").lower() != "true":
        options |= _keys_of(properties, environ)
    options.setdefault(
        "REGION", environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    )
    return {
        **options,
        "ENDPOINT": endpoint.partition("://")[2].rstrip("/") or endpoint,
        "USE_SSL": "false" if endpoint.startswith("http://") else "true",
        "URL_STYLE": "path"
        if endpoint and _path_style({**properties, "s3.endpoint": endpoint}) == "true"
        else "vhost",
    }


def maintains_itself(properties: Mapping[str, str]) -> bool:
    """Whether the catalog itself compacts and expires its tables, like S3 Tables.

    >>> maintains_itself({"rest.signing-name": "s3tables"}), maintains_itself({"warehouse": "s3://lake"})
    (True, False)
    """
    arn = properties.get("warehouse", "")
    return properties.get("rest.signing-name") == "s3tables" or arn.startswith("arn:aws:s3tables:")


def keeps_versions(properties: Mapping[str, str]) -> bool:
    """Whether the catalog has versions of tables that are not in the metadata, like Nessie.

    Files that no snapshot reaches may be in use there: on another branch of the catalog, or in its history.

    >>> keeps_versions({"nessie.is-nessie-catalog": "true"}), keeps_versions({"type": "rest"})
    (True, False)
    """
    return any(key.startswith("nessie.") for key in properties)


def _keys_of(properties: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    names = {
        "KEY_ID": "AWS_ACCESS_KEY_ID",
        "SECRET": "AWS_SECRET_ACCESS_KEY",
        "SESSION_TOKEN": "AWS_SESSION_TOKEN",
    }
    role = properties.get("s3.role-arn") or properties.get("client.role-arn")
    if not role and environ.get(names["KEY_ID"]):
        return {option: environ[name] for option, name in names.items() if environ.get(name)}
    return _keys_of_boto(role, properties)


def _keys_of_boto(role: str | None, properties: Mapping[str, str]) -> dict[str, str]:
    """Keys that boto3 finds (a profile's, a machine's, a pod's) or lends for ``role``; none without boto3."""
    try:
        import boto3  # noqa: PLC0415 - of the extra [glue]; without it there are the other ways
    except ImportError:
        return {}
    profile = properties.get("s3.profile-name") or properties.get("client.profile-name")
    session = boto3.Session(profile_name=profile, region_name=properties.get("s3.region"))
    if role:
        lent = session.client("sts").assume_role(RoleArn=role, RoleSessionName="tabletopic")["Credentials"]
        return {
            "KEY_ID": lent["AccessKeyId"],
            "SECRET": lent["SecretAccessKey"],
            "SESSION_TOKEN": lent["SessionToken"],
        }
    if (credentials := session.get_credentials()) is None:
        return {}
    keys = credentials.get_frozen_credentials()
    secrets = {"KEY_ID": keys.access_key, "SECRET": keys.secret_key, "SESSION_TOKEN": keys.token}
    return {option: value for option, value in secrets.items() if value}
