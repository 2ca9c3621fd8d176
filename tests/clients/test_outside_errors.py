"""Each row of the table of errors matches an error raised by the row's library."""

# ruff: noqa: E501 - an error a line

from __future__ import annotations

import errno
import json
import os
import re
import sqlite3
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import botocore.exceptions as aws
import psycopg2
import psycopg2.errors
import pyarrow as pa
import pyarrow.fs as pafs
import pytest
import requests
from botocore.awsrequest import AWSResponse, HTTPHeaders
from hive_metastore import ttypes
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import ConfigResponse, TableResponse
from pyiceberg.catalog.rest.response import TokenResponse, _handle_non_200_response
from pyiceberg.exceptions import (
    NoSuchIcebergTableError,
    NoSuchPropertyException,
    NoSuchTableError,
    NotInstalledError,
    OAuthError,
    SignError,
    WaitingForLockException,
)
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.utils.properties import property_as_int
from sqlalchemy import create_engine
from sqlalchemy import exc as sql
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException
from thrift.transport.TTransport import TTransportException

from tabletopic_kernel.clients.outside_errors.rules import CATALOG, ROWS, STORAGE, Row, Verdict
from tabletopic_kernel.clients.outside_errors.sorting import plain, sort_error
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError, SettingsError
from tests.servers.answering_store import AnsweringStore

HTML = "<html><head><title>404 Not Found</title></head><body>nginx</body></html>"
_MET: set[int] = set()  # rows that a test has met


def raised(call: Callable[[], object]) -> Exception:
    """The error that a call raises."""
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def rest(
    status: int,
    body: str | None = None,
    kind: str = "SomeException",
    errors: dict[int, type[Exception]] | None = None,
) -> Exception:
    """PyIceberg's error for a REST catalog's response; by default the body is Iceberg's error.

    ``errors``: those that the request has for some statuses.
    """
    response = requests.Response()
    response.status_code, response.url = status, "http://catalog/v1/config"
    text = (
        f'{{"error": {{"message": "words", "type": "{kind}", "code": {status}}}}}' if body is None else body
    )
    response._content = text.encode()

    def answered() -> None:
        try:
            response.raise_for_status()
        except requests.HTTPError as error:
            _handle_non_200_response(error, errors or {})

    return raised(answered)


def aws_said(code: str, status: int = 400, operation: str = "UpdateTable", text: str = "words") -> Exception:
    """boto3's error for a response."""
    answer = {"Error": {"Code": code, "Message": text}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return aws.ClientError(answer, operation)  # type: ignore[arg-type]


def postgres(text: str, state: str | None = None, kind: str = "OperationalError") -> Exception:
    """SQLAlchemy's form of psycopg2's errors; those of a failed login have no SQLSTATE."""
    original = psycopg2.errors.lookup(state)(text) if state else psycopg2.OperationalError(text)
    if state:
        original.__setstate__({"pgcode": state})
    statement, parameters = "INSERT INTO iceberg_tables VALUES (%(secret)s)", {"secret": "parameter"}
    return sql.DBAPIError.instance(statement, parameters, original, psycopg2.Error)  # type: ignore[return-value]


def of_latin_server(text: str) -> Exception:
    """psycopg2's error for a server whose messages are in Latin-1, before the login."""
    said = f'connection to server at "db", port 5432 failed: FATAL:  {text}\n'.encode("latin-1")
    return raised(said.decode)


def refused_login(text: str) -> Exception:
    """libpq's text when a server rejects a login."""
    return postgres(f'connection to server at "127.0.0.1", port 5432 failed: FATAL:  {text}\n')


def sqlite(text: str, kind: type[sqlite3.Error] = sqlite3.OperationalError) -> Exception:
    """SQLAlchemy's form of SQLite's errors."""
    return sql.DBAPIError.instance("SELECT 1", {}, kind(text), sqlite3.Error)  # type: ignore[return-value]


def s3(text: str) -> Exception:
    """A message of PyArrow's S3, as recorded for this response."""
    return OSError(f"When listing objects under key 'x/' in bucket 'lake': {text}")


def gcs(status: str, reason: str, code: int, number: int | None = None) -> Exception:
    """A message of PyArrow's GCS, as recorded for this response."""
    text = (
        f"google::cloud::Status({status}: Permanent error, with a last message of {reason} error_info={{reason=x, "
        f"domain=global, metadata={{http_status_code={code}}}}})"
    )
    return OSError(number, text) if number else OSError(text)


def azure(code: str, text: str) -> Exception:
    """A message of PyArrow's Azure, as recorded for this response."""
    return OSError(
        "Check for Hierarchical Namespace support on 'https://acct.dfs.core.windows.net/lake' failed. "
        f"Azure Error: [{code}] {text}\n\nRequest ID: "
    )


def glue(body: bytes, ask: str = "load_table") -> Exception:
    """What PyIceberg and boto3 raise if AWS Glue's answer has this body, with status 200."""
    keys = {"glue.access-key-id": "a", "glue.secret-access-key": "b", "glue.region": "eu-west-1"}
    catalog = load_catalog("lake", type="glue", **keys)
    raw = SimpleNamespace(stream=lambda: [body])
    catalog.glue.meta.events.register(
        "before-send", lambda **_: AWSResponse("https://glue", 200, HTTPHeaders(), raw)
    )
    return raised(lambda: getattr(catalog, ask)(("default", "clicks") if ask == "load_table" else "default"))


def pydantic(model: type) -> Exception:
    """A page with status 200."""
    return raised(lambda: model.model_validate_json(HTML))  # type: ignore[attr-defined]


def newer(**metadata: object) -> list[Exception]:
    """What PyIceberg says of a table that it does not know, from a file and from a REST catalog."""
    whole = {
        "format-version": 3, "table-uuid": "7f1f5b3e-1a2b-4c3d-8e9f-000000000001", "location": "file:///x",
        "last-sequence-number": 0, "last-updated-ms": 1, "last-column-id": 1, "current-schema-id": 0,
        "schemas": [], "default-spec-id": 0, "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999, "default-sort-order-id": 0, "next-row-id": 0, **metadata,
    }  # fmt: skip
    response = json.dumps({"metadata-location": "x", "metadata": whole, "config": {}})
    return [
        raised(lambda: TableMetadataUtil.parse_raw(json.dumps(whole))),
        raised(lambda: TableResponse.model_validate_json(response)),
    ]


def schema_of(kind: str) -> list[dict[str, object]]:
    """Of one column."""
    field = {"id": 1, "name": "v", "required": False, "type": kind}
    return [{"type": "struct", "schema-id": 0, "fields": [field]}]


WAIT: list[tuple[str, str, Exception]] = [
    # whoever was asked is "?"
    (CATALOG, "invalid response", pydantic(TableResponse)),
    (CATALOG, "commit less often", rest(429)),
    (CATALOG, "is it running", rest(503)),
    (CATALOG, "is it running", rest(502, HTML)),
    (CATALOG, "is it running", rest(500, "")),
    (CATALOG, "is it running", rest(408)),
    (CATALOG, "is it running", SignError("words")),
    (CATALOG, "is it running", WaitingForLockException("Wait on lock for default.clicks")),
    (CATALOG, "does the folder", sqlite("unable to open database file")),
    (CATALOG, "may you write to the file", sqlite("attempt to write a readonly database")),
    (CATALOG, "another program", sqlite("database is locked")),
    (CATALOG, "make room", sqlite("database or disk is full")),
    (CATALOG, "is it running", sqlite("disk I/O error")),
    (CATALOG, "replica", postgres("cannot execute INSERT in a read-only transaction\n", "25006")),
    (CATALOG, "connection limit", refused_login("sorry, too many clients already")),
    (CATALOG, "is it running", refused_login("the database system is starting up")),
    (CATALOG, "is it running", postgres("terminating connection due to administrator command\n", "57P01")),
    (CATALOG, "is it running", postgres("canceling statement due to lock timeout\n", "55P03")),
    (CATALOG, "is it running", postgres("could not serialize access\n", "40001")),
    (CATALOG, "is it running", postgres("server closed the connection unexpectedly\n\tThis probably means…")),
    (
        CATALOG,
        "is it running",
        postgres('could not translate host name "db" to address: Name or service not known\n'),
    ),
    (CATALOG, "is it running", sql.TimeoutError("QueuePool limit of size 5 reached", code="3o7r")),
    (CATALOG, "is it running", psycopg2.OperationalError("words")),
    ("?", "is it", aws.EndpointConnectionError(endpoint_url="https://glue")),
    ("?", "is it", aws.ReadTimeoutError(endpoint_url="https://glue")),
    ("?", "is it", aws.CredentialRetrievalError(provider="iam-role", error_msg="words")),
    ("?", "higher quota", aws_said("ThrottlingException")),
    ("?", "higher quota", aws_said("TooManyRequestsException", 429)),
    ("?", "is it", aws_said("InternalServiceException", 500)),
    ("?", "is it", aws_said("OperationTimeoutException", 400)),
    ("?", "is it", aws_said("503", 503)),
    (CATALOG, "is it running", TTransportException(TTransportException.NOT_OPEN, "Could not connect")),
    (CATALOG, "is it running", TTransportException(TTransportException.END_OF_FILE, "TSocket read 0 bytes")),
    (CATALOG, "is it running", ttypes.MetaException(message="javax.jdo.JDOException\n\tat x")),
    (CATALOG, "is it running", ttypes.NoSuchLockException(message="No such lock lockid:1")),
    (CATALOG, "is it running", TApplicationException(6, "Internal error processing get_table")),
    (STORAGE, "commit less often", s3("AWS Error SLOW_DOWN during ListObjectsV2 operation: words")),
    (STORAGE, "reachable", s3("AWS Error INTERNAL_FAILURE during PutObject operation: words")),
    (
        STORAGE,
        "reachable",
        s3("AWS Error UNKNOWN (HTTP status 503) during HeadObject operation: No response body."),
    ),
    (STORAGE, "reachable", s3("AWS Error NETWORK_CONNECTION during PutObject operation: curlCode: 7, words")),
    (STORAGE, "reachable", gcs("UNAVAILABLE", "words", 503)),
    (STORAGE, "commit less often", gcs("RESOURCE_EXHAUSTED", "words", 429)),
    (STORAGE, "were files of the table deleted", gcs("NOT_FOUND", "Not Found", 404, errno.ENOENT)),
    (STORAGE, "commit less often", azure("ServerBusy", "503 The server is busy.")),
    (
        STORAGE,
        "reachable",
        azure("", "Fail to get a new connection for: http://127.0.0.1:9. Could not connect"),
    ),
    (
        STORAGE,
        "reachable",
        pa.lib.ArrowException("Unknown error: Check for Hierarchical Namespace support on 'x'"),
    ),
    (STORAGE, "make room", OSError(errno.ENOSPC, "No space left on device")),
    (
        STORAGE,
        "make room",
        OSError("[Errno 28] Error writing bytes to file. Detail: [errno 28] No space left"),
    ),
    (CATALOG, "is it running", of_latin_server("das Datenbanksystem f\u00e4hrt hoch")),
    (CATALOG, "invalid response", raised(lambda: {}["Table"])),
    ("?", "invalid response", glue(b"null")),
    ("?", "invalid response", glue(b"[]")),
    ("?", "invalid response", glue(b'{"Table": []}')),
    ("?", "invalid response", glue(b"{}", "list_tables")),
    ("?", "invalid response", glue(b'{"TableList": 5}', "list_tables")),
    (CATALOG, "invalid response", glue(b'{"Table": {"Name": "clicks"}}')),
    (CATALOG, "invalid response", raised(lambda: {}["access_token"])),
    ("?", "invalid response", raised(b"<h1>Wartungsarbeiten l\xe4nger</h1>".decode)),
    (CATALOG, "being restarted", rest(404, HTML, errors={404: NoSuchTableError})),
    (CATALOG, "path in [catalog] uri", rest(404, HTML)),
    (CATALOG, "path in [catalog] uri", rest(405, HTML)),
    (CATALOG, "path in [catalog] uri", pydantic(ConfigResponse)),
    (CATALOG, "oauth2-server-uri", pydantic(TokenResponse)),
    (STORAGE, "may you write there", PermissionError(errno.EACCES, "Permission denied", "/lake/x")),
    (STORAGE, "may you write there", OSError(errno.EROFS, "Read-only file system", "/lake/x")),
    (STORAGE, "is its disk mounted", FileNotFoundError("Cannot open file, does not exist: file:///lake/x")),
    (STORAGE, "is its disk mounted", OSError(errno.EIO, "Input/output error")),
    ("?", "is it", ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")),
    ("?", "is it", TimeoutError("timed out")),
    ("?", "is it", requests.exceptions.ReadTimeout("Read timed out. (read timeout=60)")),
    ("?", "is it", ssl.SSLEOFError("EOF occurred in violation of protocol")),
]

ACT: list[tuple[str, str, Exception]] = [
    ("the table", "TBLPROPERTIES", raised(lambda: property_as_int({"commit.retry.num-retries": "x"}, "commit.retry.num-retries"))),
    ("the table", "TBLPROPERTIES", ValueError("Unsupported codec: GZIP")),
    *(("the table", "type: 'variant'", one) for one in newer(schemas=schema_of("variant"))),
    *(("the table", "another --table", one) for one in newer(schemas=schema_of("geometry(OGC:CRS84)"))),
    *(("the table", "tags: 1, 2, 3", one) for one in newer(**{"format-version": 4})),
    (CATALOG, "credential, scope", OAuthError("invalid_client: Credentials given were invalid")),
    (CATALOG, "credential, token", rest(401)),
    (CATALOG, "credential, token", rest(401, HTML)),
    (CATALOG, "has expired", rest(419)),
    (CATALOG, "the right", rest(403)),
    (CATALOG, "another catalog", rest(501, "")),
    (CATALOG, "another catalog", NotImplementedError("Server does not support endpoint: POST /v1/x")),
    (CATALOG, "would be refused as well", rest(400)),
    (CATALOG, "would be refused as well", rest(422)),
    (CATALOG, "not an Iceberg table", NoSuchIcebergTableError("Property table_type is hive, expected iceberg: a.b")),
    (CATALOG, "not an Iceberg table", NoSuchPropertyException("Property table_type missing, could not determine type")),
    (CATALOG, "that of a catalog", sqlite("file is not a database", sqlite3.DatabaseError)),
    (CATALOG, "that of a catalog", sqlite("no such table: iceberg_tables")),
    (CATALOG, "user and password", refused_login('password authentication failed for user "lake"')),
    (CATALOG, "user and password", refused_login('no pg_hba.conf entry for host "127.0.0.1", user "lake"')),
    (CATALOG, "user and password", postgres("connection to server failed: fe_sendauth: no password supplied\n")),
    (CATALOG, "create that database", refused_login('database "nodb" does not exist')),
    (CATALOG, "GRANT USAGE, CREATE", postgres("permission denied for schema public\n", "42501")),
    (CATALOG, "GRANT SELECT, INSERT", postgres("permission denied for table iceberg_tables\n", "42501")),
    (CATALOG, "sslmode", postgres("connection failed: SSL error: certificate verify failed\n")),
    (CATALOG, "sslmode", postgres("server does not support SSL, but SSL was required\n")),
    (CATALOG, "correct .catalog. uri", postgres('invalid dsn: invalid connection option "nosuch"\n')),
    (CATALOG, "init_catalog_tables", postgres('relation "iceberg_tables" does not exist\n', "42P01")),
    (CATALOG, "that Iceberg's SQL catalog can use", postgres("value too long for type\n", "22001")),
    ("?", "a profile, or a role", aws.NoCredentialsError()),
    ("?", "a profile, or a role", aws.PartialCredentialsError(provider="env", cred_var="AWS_SECRET_ACCESS_KEY")),
    ("?", "aws sso login", aws.UnauthorizedSSOTokenError()),
    ("?", "the clock", aws_said("InvalidSignatureException", text="Signature expired: 20260101T000000Z is now")),
    ("?", "AWS session has expired", aws_said("ExpiredTokenException")),
    ("?", "access key, secret key", aws_said("UnrecognizedClientException")),
    ("?", "access key, secret key", aws_said("InvalidSignatureException")),
    ("?", "IAM", aws_said("AccessDeniedException")),
    ("?", "higher quota", aws_said("ResourceNumberLimitExceededException")),
    ("?", "would be refused as well", aws_said("InvalidInputException")),
    ("?", "AWS_CA_BUNDLE", aws.SSLError(endpoint_url="https://glue", error="[SSL: CERTIFICATE_VERIFY_FAILED]")),
    ("?", "REQUESTS_CA_BUNDLE", requests.exceptions.SSLError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed")),
    ("?", "does not accept TLS", requests.exceptions.SSLError("[SSL: WRONG_VERSION_NUMBER] wrong version number")),
    (CATALOG, "right, on the database", ttypes.MetaException(message="AccessControlException Permission denied: x")),
    (CATALOG, "lacks the jars", ttypes.MetaException(message="No FileSystem for scheme \"s3a\"")),
    (CATALOG, "version 2.3", TApplicationException(1, "Invalid method name: 'get_table_req'")),
    (CATALOG, "Thrift port", TProtocolException(TProtocolException.BAD_VERSION, "Missing version, bad version")),
    (CATALOG, "would be refused as well", ttypes.InvalidObjectException(message="clicks is not a valid object name")),
    (STORAGE, "create that bucket", s3("AWS Error NO_SUCH_BUCKET during ListObjectsV2 operation: words")),
    (STORAGE, "create that bucket", gcs("NOT_FOUND", "The specified bucket does not exist.", 404, errno.ENOENT)),
    (STORAGE, "create that bucket", azure("ContainerNotFound", "404 The specified container does not exist.")),
    (STORAGE, "set s3.region", s3("AWS Error UNKNOWN (HTTP status 301) during HeadObject operation: words")),
    (STORAGE, "the clock", s3("AWS Error REQUEST_TIME_TOO_SKEWED during PutObject operation: words")),
    (STORAGE, "s3.access-key-id", s3("AWS Error INVALID_ACCESS_KEY_ID during PutObject operation: words")),
    (STORAGE, "s3.access-key-id", s3("AWS Error SIGNATURE_DOES_NOT_MATCH during PutObject operation: words")),
    (STORAGE, "create that bucket", gcs("NOT_FOUND", "Not Found error_info={metadata={gcloud-cpp.retry.function=CreateResumableUpload}}", 404, errno.ENOENT)),
    (STORAGE, "gcs.oauth2.token", gcs("UNAUTHENTICATED", "words", 401, errno.EACCES)),
    (STORAGE, "gcs.oauth2.token", OSError("google::cloud::Status(UNKNOWN: Could not create a OAuth2 access token to authenticate the request.)")),
    (STORAGE, "adls.account-key", azure("AuthenticationFailed", "403 Forbidden")),
    (STORAGE, "adls.account-key", azure("AuthorizationFailure", "403 Server failed to authenticate the request.")),
    (STORAGE, "adls.account-key", pa.lib.ArrowException("Unknown error: Check for Hierarchical Namespace support on 'http://x/lake' failed: St13runtime_error: Unexpected character in Base64 encoded string")),
    (STORAGE, "may its keys", s3("AWS Error ACCESS_DENIED during HeadObject operation: No response body.")),
    (STORAGE, "Storage Object User", gcs("PERMISSION_DENIED", "words", 403, errno.EACCES)),
    (STORAGE, "network rules", azure("AuthorizationFailure", "403 This request is not authorized to perform this operation.")),
    (STORAGE, "Blob Data Contributor", azure("AuthorizationPermissionMismatch", "403 Forbidden")),
    (STORAGE, "raise the quota", s3("AWS Error UNKNOWN (HTTP status 403) during PutObject operation: Unable to parse ExceptionName: QuotaExceeded Message: w")),
    (STORAGE, "kms-key-id", s3("AWS Error UNKNOWN (HTTP status 400) during PutObject operation: Unable to parse ExceptionName: KMS.DisabledException Message: w")),
    (STORAGE, "bucket's name", s3("AWS Error UNKNOWN (HTTP status 400) during PutObject operation: Unable to parse ExceptionName: InvalidBucketName Message: w")),
    (STORAGE, "s3.region, s3.endpoint", s3("AWS Error UNKNOWN (HTTP status 400) during HeadObject operation: No response body.")),
]  # fmt: skip

SETTING: list[tuple[str, Exception]] = [
    (r"tabletopic\[glue\]", NotInstalledError("AWS glue support not installed: pip install 'pyiceberg[glue]'")),
    (r"tabletopic\[glue\]", ModuleNotFoundError("No module named 'boto3'")),
    (r"hive-kerberos", ModuleNotFoundError("No module named 'kerberos'")),
    (r"tabletopic\[hive\]", NotInstalledError("Apache Hive support not installed: pip install 'pyiceberg[hive]'")),
    (r"tabletopic\[postgres\]", ModuleNotFoundError("No module named 'psycopg2'")),
    ("newer pyarrow", ImportError("pyarrow version >= 20.0.0 required for AzureFileSystem support")),
    ("install it beside", ModuleNotFoundError("No module named 'pymysql'")),
    (r"postgresql\+psycopg2://", raised(lambda: create_engine("postgres://u@h/db"))),
    ("correct uri", raised(lambda: create_engine("nonsense"))),
    ("glue.region", aws.NoRegionError()),
    ("the profile", aws.ProfileNotFound(profile="prod")),
    ("correct the region", aws.InvalidRegionError(region_name="eu_west_1")),
    ("set warehouse", ValueError("No default path is set, please specify a location when creating a table")),
    ("begin warehouse with", raised(lambda: PyArrowFileIO({}).new_input("s4://lake/x"))),
    ("endpoint's URL", ValueError("Invalid endpoint: glue.local")),
    ("set uri", raised(lambda: load_catalog("lake", type="sql"))),
    ("set type", raised(lambda: load_catalog("lake", uri="mongodb://host"))),
    ("https://", requests.exceptions.MissingSchema("Invalid URL 'catalog/v1/config': No scheme supplied.")),
]  # fmt: skip

BUGS: list[Exception] = [
    KeyError("x"),
    raised(lambda: {}["x"]),
    raised(lambda: None.get("x")),  # type: ignore[attr-defined]
    ValueError("x"),
    AssertionError("x"),
    TypeError("x"),
    sql.InvalidRequestError("A transaction is already begun on this Session."),
    sqlite("Cannot operate on a closed database.", sqlite3.ProgrammingError),
    sql.StatementError("words", "SELECT 1", {}, ValueError("x")),
    aws.ParamValidationError(report='Missing required parameter in input: "Name"'),
]


def ids(value: object) -> str | None:
    """Class and text of an error; its other attributes say little."""
    return f"{type(value).__name__}: {str(value)[:50]}" if isinstance(value, Exception) else ""


def sort(error: Exception, asked: str = CATALOG) -> Row:
    """The row that matches an error, recorded as used."""
    found = sort_error(error, asked)
    assert found is not None, f"taken for a fault of ours: {error!r}"
    _MET.add(ROWS.index(found.row))
    return found.row


@pytest.mark.parametrize(("who", "remedy", "error"), WAIT, ids=ids)
@pytest.mark.parametrize("asked", [CATALOG, STORAGE])
def test_an_outage_is_waited_out(asked: str, who: str, remedy: str, error: Exception) -> None:
    """It is whose it is, also where the other was asked; the message is one line with what to look at."""
    found = sort_error(error, asked)
    sort(error)
    assert found is not None
    told = found.error()
    assert type(told) is RetryableError
    assert found.who == (asked if who == "?" else who)
    assert str(told).startswith(f"{found.who} ")
    if who != "?" or asked == CATALOG:
        assert remedy in str(told)
    assert_clean(str(told))


@pytest.mark.parametrize(("who", "remedy", "error"), ACT, ids=ids)
@pytest.mark.parametrize("asked", [CATALOG, STORAGE])
def test_a_mistake_is_told_with_its_remedy(asked: str, who: str, remedy: str, error: Exception) -> None:
    """It stops the topic, as the next try would be refused too."""
    found = sort_error(error, asked)
    sort(error)
    assert found is not None
    told = found.error()
    assert type(told) is ActionNeededError
    assert found.who == (asked if who == "?" else who)
    assert str(told).startswith(f"{found.who} ")
    assert re.search(remedy, str(told)), told
    assert_clean(str(told))


@pytest.mark.parametrize(("remedy", "error"), SETTING, ids=ids)
def test_a_setting_that_cannot_be_is_named(remedy: str, error: Exception) -> None:
    """Whatever a server would say."""
    row = sort(error)
    told = sort_error(error, CATALOG)
    assert row.setting
    assert told is not None
    with pytest.raises(SettingsError, match=rf"^\[catalog\] .*{remedy}"):
        raise told.error()
    assert_clean(str(told.error()))


@pytest.mark.parametrize("error", BUGS, ids=ids)
def test_a_fault_of_ours_is_nobody_else_s(error: Exception) -> None:
    """No server is waited for."""
    assert sort_error(error, CATALOG) is None


def assert_clean(text: str) -> None:
    """Check for one line, without statements, parameters, pages or links."""
    assert "\n" not in text
    assert len(text) < 600
    for part in (
        "INSERT INTO",
        "parameter",
        "<html",
        "errors.pydantic",
        "sqlalche.me",
        "error_info",
        "object at",
    ):
        assert part not in text


# --- by servers -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store() -> Iterator[AnsweringStore]:
    """A server with the given responses."""
    with AnsweringStore() as store:
        yield store


@pytest.mark.parametrize(
    ("code", "status", "remedy"),
    [
        ("NoSuchBucket", 404, "create that bucket"),
        ("AccessDenied", 403, "may its keys"),
        ("InvalidAccessKeyId", 403, "s3.access-key-id"),
        ("SignatureDoesNotMatch", 403, "s3.secret-access-key"),
        ("ExpiredToken", 400, "s3.session-token"),
        ("AuthorizationHeaderMalformed", 400, "s3.region"),
        ("PermanentRedirect", 301, "s3.region"),
        ("QuotaExceeded", 403, "make room"),
        ("InvalidBucketName", 400, "bucket's name"),
    ],
)
def test_s3_s_refusals_are_told(store: AnsweringStore, code: str, status: int, remedy: str) -> None:
    """Both where PyArrow has the answer's body and where it has none, as to HEAD."""
    store.aws_error(code, status, x_amz_bucket_region="eu-west-1")
    keys = {"s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.region": "us-east-1"}
    io = PyArrowFileIO({"s3.endpoint": f"http://{store.address}", **keys})

    def put() -> None:
        with io.new_output("s3://lake/folder/file").create(overwrite=True) as stream:
            stream.write(b"x")

    found = sort_error(raised(put), CATALOG)
    assert found is not None
    assert (found.who, found.verdict) == (STORAGE, Verdict.ACT)
    assert remedy in str(found.error())
    if code != "NoSuchBucket":  # to HEAD that is a file that is not there
        bare = sort_error(raised(lambda: len(io.new_input("s3://lake/folder/file"))), CATALOG)
        assert bare is not None
        assert (bare.who, bare.verdict) == (STORAGE, Verdict.ACT)


@pytest.mark.parametrize(
    ("code", "status", "remedy"),
    [
        ("AuthenticationFailed", 403, "keys"),
        ("AuthorizationPermissionMismatch", 403, "Blob Data Contributor"),
        ("ContainerNotFound", 404, "create that bucket"),
    ],
)
def test_azure_s_refusals_are_told(store: AnsweringStore, code: str, status: int, remedy: str) -> None:
    """They are the storage's."""
    store.aws_error(code, status, x_ms_error_code=code)
    place = {"blob_storage_authority": store.address, "dfs_storage_authority": store.address}
    schemes = {"blob_storage_scheme": "http", "dfs_storage_scheme": "http"}
    files = pafs.AzureFileSystem(account_name="acct", account_key="a2V5", **place, **schemes)
    found = sort_error(raised(lambda: files.open_output_stream("lake/file").close()), CATALOG)
    assert found is not None
    assert (found.who, found.verdict) == (STORAGE, Verdict.ACT)
    assert remedy in str(found.error())


def test_a_server_that_is_away_is_named_by_its_address() -> None:
    """And not by what requests or urllib3 are made of."""
    error = raised(lambda: requests.get("http://127.0.0.1:9/v1/config", timeout=5))
    assert plain(error).startswith("127.0.0.1:9: Failed to establish a new connection")
    assert sort(error).verdict is Verdict.WAIT


def test_a_file_that_may_not_be_written_is_the_storage_s(tmp_path: Path) -> None:
    """As PyArrow tells of it."""
    (tmp_path / "file").write_text("x")
    error = raised(lambda: pafs.LocalFileSystem().open_output_stream(str(tmp_path / "file" / "below")))
    found = sort_error(error, CATALOG)
    assert found is not None
    assert (found.who, found.verdict) == (STORAGE, Verdict.WAIT)


def test_keys_that_the_catalog_lends_may_be_refused() -> None:
    """Other ones come with the next look at the table; a bucket that is not there does not."""
    keys = sort_error(s3("AWS Error ACCESS_DENIED during PutObject operation: words"), STORAGE, lent=True)
    bucket = sort_error(s3("AWS Error NO_SUCH_BUCKET during PutObject operation: words"), STORAGE, lent=True)
    assert keys is not None
    assert bucket is not None
    assert (keys.verdict, bucket.verdict) == (Verdict.WAIT, Verdict.ACT)


def test_what_pyiceberg_wraps_is_known_by_its_cause() -> None:
    """It says "access denied" and leaves out why."""
    error = PermissionError("Cannot create file, access denied: s3://lake/x")
    error.__cause__ = s3("AWS Error INVALID_ACCESS_KEY_ID during PutObject operation: words")
    assert "s3.access-key-id" in sort(error).remedy


def test_an_error_of_ours_that_a_server_s_led_to_stays_ours() -> None:
    """Only what libraries raise themselves is sorted."""
    error = KeyError("x")
    error.__cause__ = ConnectionResetError()
    assert sort_error(error, CATALOG) is None


def test_other_databases_drivers_tell_by_their_codes() -> None:
    """PyMySQL's number comes first, pg8000's code in a dictionary."""
    mysql = Exception(1045, "Access denied for user 'lake'@'h' (using password: YES)")
    pg8000 = Exception({"S": "FATAL", "C": "3D000", "M": 'database "x" does not exist'})
    for original, remedy in ((mysql, "user and password"), (pg8000, "create that database")):
        assert remedy in sort(sql.OperationalError("SELECT 1", {}, original)).remedy


HOSTILE = [
    "http_requests", "kms_audit", "expiredtokens", "quotaexceeded", "access_denied", "no_such_bucket", "ssl", "certificate_verify_failed", "password_authentication_failed", "404", "slow_down", "invalidtoken", "permanentredirect", "namespace_support", "bucket", "no_space_left", "authenticationfailed", "errno_28", "too_many_clients", "read-only_transaction", "azure", "google::cloud::status", "hdfs",
]  # fmt: skip


def passing(name: str) -> list[Exception]:
    """Errors that pass without a person, with ``name`` in path, key, bucket, topic and table."""
    path, where = f"/lake/{name}/metadata/{name}.avro", f"for key 'lake/{name}/data' in bucket '{name}'"
    arrow = f"Failed to open local file '{path}'. Detail: [errno 28] No space left on device"
    network = "AWS Error NETWORK_CONNECTION during PutObject operation: curlCode: 7, Couldn't connect"
    denied = PermissionError(f"Cannot create file, access denied: s3://{name}/{name}")
    denied.__cause__ = OSError(
        f"When uploading part {where}: AWS Error SLOW_DOWN during UploadPart operation: w"
    )
    return [
        OSError(errno.ENOSPC, "No space left on device", path),
        OSError(errno.EDQUOT, "Disk quota exceeded", path),
        OSError(errno.ENOSPC, arrow),
        OSError(errno.EIO, "Input/output error", path),
        FileNotFoundError(f"Cannot open file, does not exist: file://{path}"),
        OSError(f"When completing multiple part upload {where}: {network}"),
        OSError(
            f"When completing multiple part upload {where}: AWS Error INTERNAL_FAILURE during X operation: w"
        ),
        denied,
        gcs("UNAVAILABLE", f"cannot reach https://storage.googleapis.com/{name}/{name}", 503),
        OSError(
            f"GetProperties for 'https://a.dfs.core.windows.net/{name}/{name}' failed. Azure Error: [ServerBusy] w"
        ),
        requests.exceptions.ReadTimeout(
            f"HTTPConnectionPool(host='{name}', port=80): Read timed out. url: /{name}"
        ),
        rest(503, f'{{"error": {{"message": "table {name}", "type": "X", "code": 503}}}}'),
        aws_said("InternalServiceException", 500, text=f"table {name}"),
        ttypes.MetaException(message=f'cannot reach "{name}": java.io.IOException'),
        postgres(f'could not translate host name "{name}" to address\n'),
    ]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_decide_nothing(name: str) -> None:
    """A topic may be called like an error."""

    def verdicts(name: str) -> list[object]:
        sorted_errors = [sort_error(error, STORAGE) for error in passing(name)]
        return [found and (found.verdict, found.who, found.row.lead, found.remedy) for found in sorted_errors]

    assert verdicts(name) == verdicts("clicks")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a file system")
def test_a_disk_without_free_inodes_is_full(tmp_path: Path) -> None:
    """Under a table that is called like an error, too."""
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "nr_inodes=2", "none", tmp_path], check=False)
    if mounted.returncode:
        pytest.skip("this machine does not allow it")
    try:
        (tmp_path / "http_requests").mkdir()
        output = PyArrowFileIO({}).new_output(f"file://{tmp_path}/http_requests/kms_audit.avro")
        error = raised(lambda: output.create(overwrite=True))
    finally:
        subprocess.run(["umount", tmp_path], check=True)
    found = sort_error(error, STORAGE)
    assert found is not None
    assert "http_requests" in found.text
    assert (found.verdict, found.row.lead) == (Verdict.WAIT, "is full")


def test_every_row_is_met() -> None:
    """A row that no error of these tests leads to is not known to work."""
    for _, _, error in WAIT + ACT:
        sort(error)
    for _, error in SETTING:
        sort(error)
    optional = {
        "google.auth.exceptions.DefaultCredentialsError",
        "azure.core.exceptions.ClientAuthenticationError",
    }
    left = [
        (row.kinds, row.says.pattern)
        for number, row in enumerate(ROWS)
        if number not in _MET
        and row.verdict is not Verdict.BUG
        and not optional & {*row.kinds}
        and row.kinds[0] != "aiohttp."
    ]
    assert left == []


def test_texts_hold_no_secrets() -> None:
    """Addresses with a login may stand in any library's message."""
    found = sort_error(OSError("https://me:s3cret@store/x does not respond"), STORAGE)
    assert found is not None
    assert "s3cret" not in str(found.error())
