"""PyIceberg's catalog properties for Spark and DuckDB."""

import sys

import pytest

from tabletopic_kernel.clients.catalog.engine_properties import (
    catalog_type,
    duckdb_secret,
    is_on_s3,
    java_properties_of_aws,
    spark_catalog,
    spark_extras,
)
from tabletopic_kernel.model.errors import SettingsError

S3 = {
    "warehouse": "s3://lake/w", "s3.endpoint": "http://127.0.0.1:9", "s3.access-key-id": "key",
    "s3.secret-access-key": "secret", "s3.region": "eu-central-1",
}  # fmt: skip


def of_spark(properties: dict[str, str]) -> dict[str, str]:
    """Properties of Spark's catalog without the prefix."""
    prefix = "spark.sql.catalog.lake."
    conf = spark_catalog(properties)
    return {key.removeprefix(prefix): value for key, value in conf.items() if key.startswith(prefix)}


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        (
            {"type": "sql", "uri": "sqlite:////d/c.db?timeout=30", "warehouse": "file:///d/w"},
            {"type": "jdbc", "uri": "jdbc:sqlite:/d/c.db?busy_timeout=30000", "warehouse": "file:///d/w"},
        ),
        (
            {"uri": "postgresql+psycopg2://me:p%40w@db:5433/lake?sslmode=require"},
            {
                "type": "jdbc",
                "uri": "jdbc:postgresql://db:5433/lake?sslmode=require",
                "jdbc.user": "me",
                "jdbc.password": "p@w",
            },
        ),
        (  # the driver decodes them
            {"uri": "postgresql://[::1]/my%20lake?options=-c%20search_path%3Da%26b"},
            {"type": "jdbc", "uri": "jdbc:postgresql://[::1]/my%20lake?options=-c%20search_path%3Da%26b"},
        ),
        ({"uri": "thrift://h:9083"}, {"type": "hive", "uri": "thrift://h:9083"}),
        (
            {
                "uri": "https://c",
                "credential": "a:b",
                "oauth2-server-uri": "https://t",
                "header.x-tenant": "1",
            },
            {
                "type": "rest",
                "uri": "https://c",
                "credential": "a:b",
                "oauth2-server-uri": "https://t",
                "header.x-tenant": "1",
            },
        ),
        (
            {"type": "glue", "glue.region": "eu-west-1", "glue.endpoint": "http://g"},
            {
                "catalog-impl": "org.apache.iceberg.aws.glue.GlueCatalog",
                "client.region": "eu-west-1",
                "glue.endpoint": "http://g",
            },
        ),
        (
            {"uri": "https://c", **S3},
            {
                "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
                "client.region": "eu-central-1",
                "s3.access-key-id": "key",
                "s3.path-style-access": "true",
            },
        ),
        (
            {
                "uri": "https://c",
                "warehouse": "s3://lake/w",
                "s3.role-arn": "arn:r",
                "client.region": "eu-west-1",
            },
            {
                "client.factory": "org.apache.iceberg.aws.AssumeRoleAwsClientFactory",
                "client.assume-role.arn": "arn:r",
                "client.assume-role.region": "eu-west-1",
                "s3.path-style-access": "false",
            },
        ),
        (
            {
                "uri": "https://c",
                "warehouse": "gs://lake/w",
                "gcs.service.host": "http://g",
                "gcs.oauth2.token": "t",
                "gcs.oauth2.token-expires-at": "1",
                "gcs.project-id": "p",
            },
            {
                "io-impl": "org.apache.iceberg.gcp.gcs.GCSFileIO",
                "gcs.service.host": "http://g",
                "gcs.oauth2.token": "t",
                "gcs.oauth2.token-expires-at": "1",
                "gcs.project-id": "p",
            },
        ),
        (
            {"uri": "https://c", "warehouse": "file:///w", "gcs.oauth2.token": "t", "adls.account-key": "k"},
            {"io-impl": None, "adls.account-key": None},
        ),
    ],
    ids=["SQLite", "PostgreSQL", "quoted", "Hive", "REST", "Glue", "S3", "role", "Google", "a folder"],
)
def test_spark_opens_the_same_catalog(properties: dict[str, str], expected: dict[str, str | None]) -> None:
    """By the names of Iceberg's Java library."""
    found = of_spark(properties)
    assert {key: found.get(key) for key in expected} == expected
    assert found["cache-enabled"] == "false"


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"uri": "mysql://db/lake"}, "a catalog in mysql"),
        ({"type": "bigquery"}, "a catalog of type bigquery"),
        (
            {"uri": "https://c", "warehouse": "abfss://lake@acme.dfs.core.windows.net/w"},
            "client for Azure storage",
        ),
        ({"uri": "https://c", "warehouse": "prod", "adls.account-key": "k"}, "client for Azure storage"),
        (
            {"uri": "https://c", "warehouse": "gs://lake", "gcs.session-kwargs": "{}"},
            "gcs.session-kwargs cannot",
        ),
        ({"py-catalog-impl": "my.Catalog"}, "py-catalog-impl cannot be passed to Spark"),
        ({"type": "sql", "uri": "not an address"}, "not a database address"),
        ({"uri": "postgresql:///lake?host=db"}, "host after the question mark; write postgresql://HOST"),
    ],
)
def test_what_spark_cannot_open_is_said(properties: dict[str, str], message: str) -> None:
    """It was taken for a SQLite file before."""
    with pytest.raises(SettingsError, match=message) as caught:
        spark_catalog(properties)
    assert "not an address" not in str(caught.value)  # it may hold a password


def test_types_by_address() -> None:
    """As PyIceberg reads them."""
    assert [catalog_type({"uri": uri}) for uri in ("http://c", "thrift://h", "postgresql://d", "")] == [
        "rest", "hive", "sql", "sql",
    ]  # fmt: skip
    assert not is_on_s3({"warehouse": "file:///w"})


ENVIRON = {"AWS_ACCESS_KEY_ID": "env", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t"}


@pytest.mark.parametrize(
    ("properties", "environ", "expected"),
    [
        (
            S3, ENVIRON,
            {
                "KEY_ID": "key", "SECRET": "secret", "REGION": "eu-central-1", "URL_STYLE": "path",
                "USE_SSL": "false",
            },
        ),
        (
            {"client.access-key-id": "k", "client.region": "eu-west-1"},
            {},
            {"KEY_ID": "k", "REGION": "eu-west-1"},
        ),
        (
            {"s3.endpoint": "https://s3.example/"}, ENVIRON,
            {
                "KEY_ID": "env", "SESSION_TOKEN": "t", "REGION": "us-east-1", "ENDPOINT": "s3.example",
                "USE_SSL": "true",
            },
        ),
        ({"s3.anonymous": "true", "s3.region": "r"}, ENVIRON, {"KEY_ID": None, "URL_STYLE": "vhost"}),
        ({}, ENVIRON | {"AWS_REGION": "eu-north-1"}, {"REGION": "eu-north-1", "ENDPOINT": ""}),
    ],
    ids=["all written", "client.*", "keys of the environment", "anonymous", "nothing written"],
)  # fmt: skip
def test_duckdb_reads_with_the_same_keys(
    monkeypatch: pytest.MonkeyPatch,
    properties: dict[str, str],
    environ: dict[str, str],
    expected: dict[str, str | None],
) -> None:
    """Wherever PyIceberg finds them; endpoint, region and style in every case."""
    monkeypatch.setitem(sys.modules, "boto3", None)  # not installed
    found = duckdb_secret(properties, environ)
    assert {key: found.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("properties", "extras"),
    [
        ({"uri": "sqlite:////c.db", "warehouse": "file:///lake"}, ()),
        ({"uri": "thrift://h:9083"}, ()),
        ({"uri": "postgresql+psycopg2://db/lake", "warehouse": "s3://lake"}, ("aws", "postgresql")),
        ({"uri": "https://c", "s3.region": "eu-west-1"}, ("aws",)),
        ({"type": "rest", "uri": "https://c", "warehouse": "arn:aws:s3tables:r:1:bucket/b"}, ("aws",)),
        ({"type": "glue"}, ("aws",)),
        ({"uri": "sqlite:////c.db", "warehouse": "gs://lake"}, ("gcp",)),
        ({"uri": "https://c", "warehouse": "prod", "gcs.oauth2.token": "t"}, ("gcp",)),
        ({"uri": "https://c", "warehouse": "s3://lake", "gcs.oauth2.token": "t"}, ("aws",)),
    ],
)
def test_jars_beside_those_of_every_session(properties: dict[str, str], extras: tuple[str, ...]) -> None:
    """No more than a setting asks for: the bundle of AWS is 64 MB."""
    assert spark_extras(properties) == extras


def test_glue_finds_its_keys_in_java() -> None:
    """Its own before those of all of AWS; other catalogs take theirs as properties."""
    given = {"glue.access-key-id": "g", "client.access-key-id": "c", "client.secret-access-key": "s"}
    assert java_properties_of_aws({"type": "glue", **given}) == {
        "aws.accessKeyId": "g",
        "aws.secretAccessKey": "s",
    }
    assert java_properties_of_aws({"uri": "https://c", **given}) == {}
