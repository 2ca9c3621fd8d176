"""Each rule of the table of errors matches an error raised by the rule's library, whatever its names are."""

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
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import botocore.exceptions as aws
import psycopg2
import psycopg2.errors
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
import requests
from botocore.awsrequest import AWSResponse, HTTPHeaders
from botocore.config import Config
from hive_metastore import ttypes
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import ConfigResponse, TableResponse
from pyiceberg.catalog.rest.response import TokenResponse, _handle_non_200_response
from pyiceberg.exceptions import (
    BadRequestError,
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
from sqlalchemy import create_engine, text
from sqlalchemy import exc as sql
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException
from thrift.transport.TTransport import TTransportException

from tabletopic_kernel.clients.outside_errors.rules import CATALOG, CODES, STORAGE, TEXTS
from tabletopic_kernel.clients.outside_errors.sorting import _names, _rule, _text, plain, sort_error
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError, SettingsError, Trouble, Verdict
from tests.servers.answering_store import AnsweringStore
from tests.servers.certificates import Authority
from tests.servers.http_server import Handler, HttpServer

HTML = "<html><head><title>404 Not Found</title></head><body>nginx</body></html>"
HOSTILE = [
    "http_requests", "kms_audit", "expiredtokens", "quotaexceeded", "access_denied", "no_such_bucket", "ssl",
    "certificate_verify_failed", "password_authentication_failed", "404", "slow_down", "invalidtoken", "bucket",
    "permanentredirect", "no_space_left", "authenticationfailed", "errno_28", "25006", "read-only_transaction",
    "base64", "azure", "google::cloud::status", "sasl", "accesscontrolexception", "AWS_Error_ACCESS_DENIED",
]  # fmt: skip
Case = tuple[str, str, str, Exception]  # verdict, system ("?": the one called), part of the remedy, error


def raised(call: Callable[[], object]) -> Exception:
    """The error that a call raises."""
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def led(error: Exception, cause: Exception) -> Exception:
    """An error with its cause."""
    error.__cause__ = cause
    return error


def rest(
    status: int, body: str | None = None, name: str = "", errors: dict[int, type[Exception]] | None = None
) -> Exception:
    """PyIceberg's error for a REST catalog's response; by default the body is Iceberg's error."""
    response = requests.Response()
    response.status_code, response.url = status, f"http://catalog/v1/{name}"
    error = {"message": f"words of {name}", "type": f"{name}Exception", "code": status}
    response._content = (json.dumps({"error": error}) if body is None else body).encode()

    def answered() -> None:
        try:
            response.raise_for_status()
        except requests.HTTPError as error:
            _handle_non_200_response(error, errors or {})

    return raised(answered)


def aws_error(code: str, status: int = 400, text: str = "words") -> Exception:
    """boto3's error for a response."""
    answer = {"Error": {"Code": code, "Message": text}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return aws.ClientError(answer, "UpdateTable")  # type: ignore[arg-type]


def postgres(text: str, state: str | None = None) -> Exception:
    """SQLAlchemy's form of psycopg2's errors; those of a failed login have no SQLSTATE."""
    original = psycopg2.errors.lookup(state)(text) if state else psycopg2.OperationalError(text)
    if state:
        original.__setstate__({"pgcode": state})
    statement, parameters = "INSERT INTO iceberg_tables VALUES (%(secret)s)", {"secret": "parameter"}
    return sql.DBAPIError.instance(statement, parameters, original, psycopg2.Error)  # type: ignore[return-value]


def login(text: str) -> Exception:
    """libpq's text when a server rejects a login."""
    return postgres(f'connection to server at "127.0.0.1", port 5432 failed: FATAL:  {text}\n')


@cache
def glue_catalog() -> tuple[Any, list[bytes]]:
    """A catalog in AWS Glue, and the body of its answers."""
    keys = {"glue.access-key-id": "a", "glue.secret-access-key": "b", "glue.region": "eu-west-1"}
    catalog: Any = load_catalog("lake", type="glue", **keys)
    bodies: list[bytes] = []
    raw = SimpleNamespace(stream=lambda: list(bodies))
    catalog.glue.meta.events.register(
        "before-send", lambda **_: AWSResponse("https://glue", 200, HTTPHeaders(), raw)
    )
    return catalog, bodies


def glue(body: bytes, ask: str = "load_table") -> Exception:
    """What PyIceberg and boto3 raise if AWS Glue's answer has this body, with status 200."""
    catalog, bodies = glue_catalog()
    bodies[:] = [body]
    return raised(lambda: getattr(catalog, ask)(("default", "clicks") if ask == "load_table" else "default"))


def newer(kind: str = "long", **metadata: object) -> list[Exception]:
    """What PyIceberg says of a table that it does not know, from a file and from a REST catalog."""
    schema = {
        "type": "struct",
        "schema-id": 0,
        "fields": [{"id": 1, "name": "v", "required": False, "type": kind}],
    }
    whole = {
        "format-version": 3, "table-uuid": "7f1f5b3e-1a2b-4c3d-8e9f-000000000001", "location": "file:///x",
        "last-sequence-number": 0, "last-updated-ms": 1, "last-column-id": 1, "current-schema-id": 0,
        "schemas": [schema], "default-spec-id": 0, "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999, "default-sort-order-id": 0, "next-row-id": 0, **metadata,
    }  # fmt: skip
    response = json.dumps({"metadata-location": "x", "metadata": whole, "config": {}})
    return [
        raised(lambda: TableMetadataUtil.parse_raw(json.dumps(whole))),
        raised(lambda: TableResponse.model_validate_json(response)),
    ]


def catalogs(n: str) -> list[Case]:
    """Errors of catalogs, with ``n`` as the name of all that has one."""
    latin = f'connection to server at "{n}", port 5432 failed: FATAL:  f\xe4hrt hoch\n'.encode("latin-1")
    return [
        ("wait", CATALOG, "invalid response", raised(lambda: TableResponse.model_validate_json(HTML))),
        ("wait", CATALOG, "path in [catalog] uri", raised(lambda: ConfigResponse.model_validate_json(HTML))),
        ("wait", CATALOG, "oauth2-server-uri", raised(lambda: TokenResponse.model_validate_json(HTML))),
        ("wait", CATALOG, "being restarted", rest(404, HTML, n, {404: NoSuchTableError})),
        ("wait", CATALOG, "path in [catalog] uri", rest(405, HTML, n)),
        ("wait", CATALOG, "commit less often", rest(429, name=n)),
        ("wait", CATALOG, "is it running", rest(503, name=n)),
        ("wait", CATALOG, "is it running", rest(502, HTML, n)),
        ("wait", CATALOG, "is it running", rest(500, "", n)),
        ("wait", CATALOG, "is it running", rest(408, name=n)),
        ("wait", CATALOG, "is it running", SignError("words")),
        ("wait", CATALOG, "is it running", WaitingForLockException(f"Wait on lock for default.{n}")),
        ("act", CATALOG, "credential, scope", OAuthError("invalid_client: Credentials given were invalid")),
        ("act", CATALOG, "credential, token", rest(401, name=n)),
        ("act", CATALOG, "credential, token", rest(401, HTML, n)),
        ("act", CATALOG, "has expired", rest(419, name=n)),
        ("act", CATALOG, "the right", rest(403, name=n)),
        ("act", CATALOG, "another catalog", rest(501, "", n)),
        ("act", CATALOG, "header.X-Iceberg-Access-Delegation", BadRequestError(f"IllegalArgumentException: Credential vending was requested for table {n}, but no credentials are available")),
        ("act", CATALOG, "another catalog", NotImplementedError(f"Server does not support endpoint: POST /v1/{n}")),
        ("act", CATALOG, "would be refused as well", rest(400, name=n)),
        ("act", CATALOG, "would be refused as well", rest(422, name=n)),
        ("act", CATALOG, "not an Iceberg table", NoSuchIcebergTableError(f"Property table_type is hive, expected iceberg: {n}.{n}")),
        ("act", CATALOG, "not an Iceberg table", NoSuchPropertyException("Property table_type missing, could not determine type")),
        ("act", "the table", "TBLPROPERTIES", raised(lambda: property_as_int({"commit.retry.num-retries": f"{n} s"}, "commit.retry.num-retries"))),
        ("act", "the table", "TBLPROPERTIES", ValueError("Unsupported codec: GZIP")),
        *(("act", "the table", "type: 'variant'", one) for one in newer("variant", location=f"file:///{n}")),
        *(("act", "the table", "another --table", one) for one in newer("geometry(OGC:CRS84)")),
        *(("act", "the table", "tags: 1, 2, 3", one) for one in newer(**{"format-version": 4})),
        ("wait", CATALOG, "replica", postgres("cannot execute INSERT in a read-only transaction\n", "25006")),
        ("wait", CATALOG, "connection limit", login("sorry, too many clients already")),
        ("wait", CATALOG, "is it running", login("the database system is starting up")),
        ("wait", CATALOG, "is it running", postgres("terminating connection due to administrator command\n", "57P01")),
        ("wait", CATALOG, "is it running", postgres("canceling statement due to lock timeout\n", "55P03")),
        ("wait", CATALOG, "is it running", postgres("could not serialize access\n", "40001")),
        ("wait", CATALOG, "is it running", postgres("SSL error: unexpected eof while reading\n")),
        ("wait", CATALOG, "is it running", postgres(f'could not translate host name "{n}" to address: Name or service not known\n')),
        ("wait", CATALOG, "is it running", sql.TimeoutError("QueuePool limit of size 5 reached", code="3o7r")),
        ("wait", CATALOG, "is it running", psycopg2.OperationalError("words")),
        ("wait", CATALOG, "is it running", raised(latin.decode)),
        ("act", CATALOG, "user and password", login(f'password authentication failed for user "{n}"')),
        ("act", CATALOG, "user and password", login(f'no pg_hba.conf entry for host "127.0.0.1", user "{n}"')),
        ("act", CATALOG, "user and password", login(f'role "{n}" does not exist')),
        ("act", CATALOG, "user and password", postgres("connection to server failed: fe_sendauth: no password supplied\n")),
        ("act", CATALOG, "create that database", login(f'database "{n}" does not exist')),
        ("act", CATALOG, "GRANT USAGE, CREATE", postgres(f"permission denied for schema {n}\n", "42501")),
        ("act", CATALOG, "GRANT SELECT, INSERT", postgres("permission denied for table iceberg_tables\n", "42501")),
        ("act", CATALOG, "sslmode", postgres("connection failed: SSL error: certificate verify failed\n")),
        ("act", CATALOG, "sslmode", postgres("server does not support SSL, but SSL was required\n")),
        ("act", CATALOG, "correct [catalog] uri", postgres(f'invalid dsn: invalid connection option "{n}"\n')),
        ("act", CATALOG, "init_catalog_tables", postgres('relation "iceberg_tables" does not exist\n', "42P01")),
        ("act", CATALOG, "that Iceberg's SQL catalog can use", postgres("value too long for type\n", "22001")),
        ("act", CATALOG, "user and password", sql.OperationalError("SELECT 1", {}, Exception(1045, f"Access denied for user '{n}'@'h'"))),  # PyMySQL
        ("act", CATALOG, "create that database", sql.OperationalError("SELECT 1", {}, Exception({"C": "3D000", "M": n}))),  # pg8000
        ("wait", CATALOG, "is it running", TTransportException(TTransportException.NOT_OPEN, f"Could not connect to any of [('{n}', 9083)]")),
        ("wait", CATALOG, "is it running", TTransportException(TTransportException.END_OF_FILE, "TSocket read 0 bytes")),
        ("wait", CATALOG, "is it running", ttypes.MetaException(message=f'javax.jdo.JDOException: "{n}"\n\tat x')),
        ("wait", CATALOG, "is it running", ttypes.NoSuchLockException(message="No such lock lockid:1")),
        ("wait", CATALOG, "is it running", TApplicationException(6, "Internal error processing get_table")),
        ("act", CATALOG, "right, on the database", ttypes.MetaException(message=f'AccessControlException Permission denied: inode="/{n}"')),
        ("act", CATALOG, "add them there", ttypes.MetaException(message='No FileSystem for scheme "s3a"')),
        ("act", CATALOG, "version 2.3", TApplicationException(1, "Invalid method name: 'get_table_req'")),
        ("act", CATALOG, "Thrift port", TProtocolException(TProtocolException.BAD_VERSION, "Missing version, bad version")),
        ("act", CATALOG, "Thrift port", TTransportException(TTransportException.NOT_OPEN, "Bad SASL negotiation status: 3")),
        ("act", CATALOG, "would be refused as well", ttypes.InvalidObjectException(message=f"{n} is not a valid object name")),
        ("wait", "?", "is it", aws.EndpointConnectionError(endpoint_url=f"https://{n}")),
        ("wait", "?", "is it", aws.ReadTimeoutError(endpoint_url=f"https://{n}")),
        ("wait", "?", "is it", aws.CredentialRetrievalError(provider="iam-role", error_msg=n)),
        ("wait", "?", "higher quota", aws_error("ThrottlingException", text=n)),
        ("wait", "?", "higher quota", aws_error("TooManyRequestsException", 429, n)),
        ("wait", "?", "is it", aws_error("InternalServiceException", 500, n)),
        ("wait", "?", "is it", aws_error("OperationTimeoutException", 400, n)),
        ("wait", "?", "is it", aws_error("503", 503, n)),
        ("wait", "?", "invalid response", glue(b"null")),
        ("wait", "?", "invalid response", glue(b"[]")),
        ("wait", "?", "invalid response", glue(b'{"Table": []}')),
        ("wait", "?", "invalid response", glue(b"{}", "list_tables")),
        ("wait", "?", "invalid response", glue(b'{"TableList": 5}', "list_tables")),
        ("wait", CATALOG, "invalid response", glue(b'{"Table": {"Name": "clicks"}}')),
        ("wait", CATALOG, "invalid response", raised(lambda: {}["access_token"])),
        ("wait", "?", "invalid response", raised(b"<h1>Wartungsarbeiten l\xe4nger</h1>".decode)),
        ("act", "?", "a profile, or a role", aws.NoCredentialsError()),
        ("act", "?", "a profile, or a role", aws.PartialCredentialsError(provider="env", cred_var="AWS_SECRET_ACCESS_KEY")),
        ("act", "?", "aws sso login", aws.UnauthorizedSSOTokenError()),
        ("act", "?", "the clock", aws_error("InvalidSignatureException", text="Signature expired: 20260101T000000Z is now")),
        ("act", "?", "AWS session has expired", aws_error("ExpiredTokenException", text=n)),
        ("act", "?", "access key, secret key", aws_error("UnrecognizedClientException", text=n)),
        ("act", "?", "access key, secret key", aws_error("InvalidSignatureException", text=n)),
        ("act", "?", "IAM", aws_error("AccessDeniedException", text=n)),
        ("act", "?", "higher quota", aws_error("ResourceNumberLimitExceededException", text=n)),
        ("act", "?", "would be refused as well", aws_error("InvalidInputException", text=n)),
    ]  # fmt: skip


def stores(n: str) -> list[Case]:
    """Errors of storage, as recorded, with ``n`` in each path, key, bucket and table."""
    path = f"/lake/{n}/metadata/{n}.avro"

    def s3(text: str) -> Exception:
        return OSError(
            f"When completing multiple part upload for key 'lake/{n}/o'x/{n}' in bucket '{n}': AWS Error {text}"
        )

    def gcs(status: str, said: str, number: int | None = None, call: str = "GetObjectMetadata") -> Exception:
        more = f"error_info={{reason=, domain=, metadata={{gcloud-cpp.retry.function={call}, gcloud-cpp.retry.original-message={said}}}}}"
        text = f"google::cloud::Status({status}: Permanent error, with a last message of {said} {more})"
        return OSError(number, f"{text}. Detail: [errno {number}]") if number else OSError(text)

    def azure(code: str, said: str) -> Exception:
        return OSError(
            f"GetProperties failed for 'http://h/acct/{n}/{n}'. Azure Error: [{code}] {said}\n\nRequest ID: "
        )

    put = "during PutObject operation:"
    unknown = "during CreateMultipartUpload operation: Unable to parse ExceptionName:"
    return [
        ("wait", STORAGE, "commit less often", s3(f"SLOW_DOWN {put} words")),
        ("wait", STORAGE, "reachable", s3(f"INTERNAL_FAILURE {put} words")),
        ("wait", STORAGE, "reachable", s3("UNKNOWN (HTTP status 503) during HeadObject operation: No response body.")),
        ("wait", STORAGE, "reachable", s3(f"NETWORK_CONNECTION {put} curlCode: 7, Could not connect")),
        ("wait", STORAGE, "commit less often", led(PermissionError(f"Cannot create file, access denied: s3://{n}/{n}"), s3(f"SLOW_DOWN {put} words"))),
        ("act", STORAGE, "s3.access-key-id", led(PermissionError(f"Cannot create file, access denied: s3://{n}/{n}"), s3(f"INVALID_ACCESS_KEY_ID {put} words"))),
        ("act", STORAGE, "create that bucket", s3(f"NO_SUCH_BUCKET {put} words")),
        ("act", STORAGE, "set s3.region", s3(f"UNKNOWN (HTTP status 301) {put} words")),
        ("act", STORAGE, "set s3.region", s3(f"ACCESS_DENIED during HeadObject operation: No response body. Looks like the configured region is 'x' while the bucket is located in '{n}'.")),
        ("act", STORAGE, "does not accept TLS", s3(f"NETWORK_CONNECTION {put} curlCode: 35, TLS connect error: error:0A00010B:SSL routines::wrong version number")),
        ("act", STORAGE, "the clock", s3(f"REQUEST_TIME_TOO_SKEWED {put} words")),
        ("act", STORAGE, "s3.access-key-id", s3(f"SIGNATURE_DOES_NOT_MATCH {put} words")),
        ("act", STORAGE, "may its keys", s3("ACCESS_DENIED during HeadObject operation: No response body.")),
        ("act", STORAGE, "raise the quota", s3(f"UNKNOWN (HTTP status 403) {unknown} QuotaExceeded Message: w")),
        ("act", STORAGE, "kms-key-id", s3(f"UNKNOWN (HTTP status 400) {unknown} KMS.DisabledException Message: w")),
        ("act", STORAGE, "bucket's name", s3(f"UNKNOWN (HTTP status 400) {unknown} InvalidBucketName Message: w")),
        ("act", STORAGE, "s3.region, s3.endpoint", s3("UNKNOWN (HTTP status 400) during HeadObject operation: No response body.")),
        ("wait", STORAGE, "reachable", gcs("UNAVAILABLE", f"https://h/{n}/{n}")),
        ("wait", STORAGE, "commit less often", gcs("RESOURCE_EXHAUSTED", "words")),
        ("wait", STORAGE, "were files of the table deleted", gcs("NOT_FOUND", f"No such object: {n}/{n}", errno.ENOENT)),
        ("act", STORAGE, "create that bucket", gcs("NOT_FOUND", "The specified bucket does not exist.", errno.ENOENT)),
        ("act", STORAGE, "create that bucket", gcs("NOT_FOUND", "Not Found", errno.ENOENT, "CreateResumableUpload")),
        ("act", STORAGE, "gcs.oauth2.token", gcs("UNAUTHENTICATED", "words", errno.EACCES)),
        ("act", STORAGE, "gcs.oauth2.token", OSError("google::cloud::Status(UNKNOWN: Could not create a OAuth2 access token to authenticate the request.)")),
        ("act", STORAGE, "Storage Object User", gcs("PERMISSION_DENIED", f"no access to {n}/{n}", errno.EACCES)),
        ("act", STORAGE, "check warehouse", pa.ArrowInvalid("google::cloud::Status(INVALID_ARGUMENT: Permanent error, with a last message of Invalid bucket name)")),
        ("wait", STORAGE, "commit less often", azure("ServerBusy", "503 The server is busy.")),
        ("wait", STORAGE, "reachable", azure("", "Fail to get a new connection for: http://127.0.0.1:9. Could not connect")),
        ("wait", STORAGE, "reachable", pa.ArrowException(f"Unknown error: Check for Hierarchical Namespace support on '{n}'")),
        ("act", STORAGE, "create that bucket", azure("ContainerNotFound", "404 The specified container does not exist.")),
        ("act", STORAGE, "adls.account-key", azure("AuthenticationFailed", "403 Forbidden")),
        ("act", STORAGE, "adls.account-key", azure("AuthorizationFailure", "403 Server failed to authenticate the request.")),
        ("act", STORAGE, "adls.account-key", pa.ArrowException("Unknown error: Check on 'http://x/lake' failed: St13runtime_error: Unexpected character in Base64 encoded string")),
        ("act", STORAGE, "network rules", azure("AuthorizationFailure", "403 This request is not authorized to perform this operation.")),
        ("act", STORAGE, "Blob Data Contributor", azure("AuthorizationPermissionMismatch", "403 Forbidden")),
        ("wait", STORAGE, "make room", OSError(errno.ENOSPC, "No space left on device", path)),
        ("wait", STORAGE, "make room", OSError(errno.EDQUOT, "Disk quota exceeded", path)),
        ("wait", STORAGE, "make room", OSError(errno.ENOSPC, f"Failed to open local file '{path}'. Detail: [errno 28] No space left on device")),
        ("wait", STORAGE, "may you write there", PermissionError(errno.EACCES, "Permission denied", path)),
        ("wait", STORAGE, "may you write there", OSError(errno.EROFS, "Read-only file system", path)),
        ("wait", STORAGE, "may you write there", PermissionError(f"Cannot create file, access denied: file://{path}")),
        ("wait", STORAGE, "is its disk mounted", FileNotFoundError(f"Cannot open file, does not exist: file://{path}")),
        ("wait", STORAGE, "is its disk mounted", FileNotFoundError(f"Cannot get file info, file not found: file://{path}")),
        ("wait", STORAGE, "is its disk mounted", OSError(errno.EIO, "Input/output error", path)),
        ("wait", "?", "is it", ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")),
        ("wait", "?", "is it", TimeoutError("timed out")),
        ("wait", "?", "is it", requests.exceptions.ConnectionError(PermissionError(errno.EACCES, "Permission denied"))),
        ("wait", "?", "is it", requests.exceptions.ReadTimeout(f"HTTPConnectionPool(host='{n}', port=80): Read timed out. url: /{n}")),
        ("wait", "?", "is it", ssl.SSLEOFError(ssl.SSL_ERROR_EOF, "EOF occurred in violation of protocol")),
    ]  # fmt: skip


def settings(n: str) -> list[Case]:
    """What cannot be right, whatever a server would say."""
    absent = [
        (f"tabletopic[{extra}]", module)
        for extra, module in (("glue", "boto3"), ("hive", "hive_metastore"), ("postgres", "psycopg2"))
    ]
    told = [
        *((remedy, ModuleNotFoundError(f"No module named '{name}'", name=name)) for remedy, name in absent),
        (
            "tabletopic[glue]",
            led(NotInstalledError("AWS glue support not installed"), ModuleNotFoundError("x", name="boto3")),
        ),
        ("hive-kerberos", raised(lambda: __import__("kerberos"))),
        ("install it beside", raised(lambda: __import__("pymysql"))),
        (
            "install it beside",
            NotInstalledError("BigQuery support not installed: pip install 'pyiceberg[bigquery]'"),
        ),
        ("postgresql+psycopg2://", raised(lambda: create_engine(f"postgres://{n}@h/{n}"))),
        ("correct uri", raised(lambda: create_engine("nonsense"))),
        ("glue.region", aws.NoRegionError()),
        ("the profile", aws.ProfileNotFound(profile=n)),
        ("correct the region", aws.InvalidRegionError(region_name="eu_west_1")),
        (
            "set warehouse",
            ValueError("No default path is set, please specify a location when creating a table"),
        ),
        ("begin warehouse with", raised(lambda: PyArrowFileIO({}).new_input(f"s4://lake/{n}"))),
        ("endpoint's URL", ValueError(f"Invalid endpoint: {n}")),
        ("set uri", raised(lambda: load_catalog("lake", type="sql"))),
        ("set uri", NoSuchPropertyException("SQL connection URI is required")),
        ("set type", raised(lambda: load_catalog("lake", uri=f"mongodb://{n}"))),
        (
            "https://",
            requests.exceptions.MissingSchema("Invalid URL 'catalog/v1/config': No scheme supplied."),
        ),
    ]
    return [("setting", "?", remedy, error) for remedy, error in told]


BUGS: list[Exception] = [
    KeyError("x"),
    raised(lambda: {}["x"]),
    raised(lambda: None.get("x")),  # type: ignore[attr-defined]
    ValueError("x"),
    AssertionError("x"),
    TypeError("x"),
    sql.InvalidRequestError("A transaction is already begun on this Session."),
    sql.ProgrammingError("SELECT 1", {}, sqlite3.ProgrammingError("Cannot operate on a closed database.")),
    sql.StatementError("words", "SELECT 1", {}, ValueError("x")),
    aws.ParamValidationError(report='Missing required parameter in input: "Name"'),
    led(KeyError("x"), ConnectionResetError()),  # an error of ours that a server's led to
]  # fmt: skip


@cache
def cases(name: str) -> list[Case]:
    """All errors, with a name."""
    return [*catalogs(name), *stores(name), *settings(name)]


def classified(error: Exception, asked: str = CATALOG) -> Trouble:
    """An error's classification."""
    found = sort_error(error, asked)
    assert found is not None, f"taken for a fault of ours: {error!r}"
    return found


def check(case: Case) -> None:
    """An error is whose it is, whoever was asked, and its message says what to look at, in one line."""
    verdict, who, remedy, error = case
    for asked in (CATALOG, STORAGE):
        found = classified(error, asked)
        shown = found.error()
        assert (
            type(shown)
            is {"wait": RetryableError, "act": ActionNeededError, "setting": SettingsError}[verdict]
        )
        if verdict == "setting":
            assert str(shown).startswith("[catalog] ")
        else:
            assert found.system == (asked if who == "?" else who)
            assert str(shown).startswith(f"{found.system} ")
        if remedy != "is it":
            assert remedy in str(shown) or asked != CATALOG
        assert "\n" not in str(shown)
        assert len(str(shown)) < 600
        for part in (
            "INSERT INTO",
            "parameter",
            "<html",
            "errors.pydantic",
            "sqlalche.me",
            "error_info",
            "object at",
        ):
            assert part not in str(shown)


@pytest.mark.parametrize(
    "case", cases("clicks"), ids=lambda case: f"{type(case[3]).__name__}: {str(case[3])[:50]}"
)
def test_an_error_is_known_by_its_code(case: Case) -> None:
    """An outage is retried, a mistake stops the topic, and a setting that cannot be right is named."""
    check(case)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_decide_nothing(name: str) -> None:
    """A topic, a table, a bucket, a user or a server may be called like an error."""
    for (*_, error), (*_, plain_error) in zip(cases(name), cases("clicks"), strict=True):
        assert _rule(error) == _rule(plain_error), error


@pytest.mark.parametrize("error", BUGS, ids=repr)
def test_a_bug_of_ours_is_nobody_else_s(error: Exception) -> None:
    """No server is waited for."""
    assert sort_error(error, CATALOG) is None


def test_each_rule_is_met_and_no_error_by_two_sentences() -> None:
    """So their order decides nothing; a rule that no error leads to is not known to work."""
    for *_, error in cases("clicks"):
        for name in map(".".join, _names(error)):
            fitting = [part for part in TEXTS.get(name, {}) if re.search(part, _text(error))]
            assert len(fitting) <= 1, error
    met = {_rule(error) for *_, error in cases("clicks")}
    tables = [
        table for name, table in (CODES | TEXTS).items() if not name.startswith(("SQLite", "sqlite3", "TLS"))
    ]
    rules = {rule for table in tables for rule in table.values()}
    assert {rule for rule in rules - met if rule.verdict is not Verdict.BUG} == set()


# --- by servers and files ---------------------------------------------------------------------------------


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
def test_s3_s_refusals(store: AnsweringStore, code: str, status: int, remedy: str) -> None:
    """Both where PyArrow has the answer's body and where it has none, as to HEAD."""
    store.aws_error(code, status, x_amz_bucket_region="eu-west-1")
    keys = {"s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.region": "us-east-1"}
    io = PyArrowFileIO({"s3.endpoint": f"http://{store.address}", **keys})
    file = "s3://lake/http_requests/kms_audit"
    check(("act", STORAGE, remedy, raised(lambda: io.new_output(file).create(overwrite=True).close())))
    if code != "NoSuchBucket":  # to HEAD that is a file that is not there
        check(("act", STORAGE, "", raised(lambda: len(io.new_input(file)))))


@pytest.mark.parametrize(
    ("code", "status", "remedy"),
    [
        ("AuthenticationFailed", 403, "keys"),
        ("AuthorizationPermissionMismatch", 403, "Blob Data Contributor"),
        ("ContainerNotFound", 404, "create that bucket"),
    ],
)
def test_azure_s_refusals(store: AnsweringStore, code: str, status: int, remedy: str) -> None:
    """They are the storage's."""
    store.aws_error(code, status, x_ms_error_code=code)
    place = {"blob_storage_authority": store.address, "dfs_storage_authority": store.address}
    schemes = {"blob_storage_scheme": "http", "dfs_storage_scheme": "http"}
    files = pafs.AzureFileSystem(account_name="acct", account_key="a2V5", **place, **schemes)
    check(("act", STORAGE, remedy, raised(lambda: files.open_output_stream("lake/http_requests").close())))


def glue_client(url: str) -> Any:
    """boto3's, which does not ask twice."""
    once = Config(retries={"total_max_attempts": 1})
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
    return boto3.client("glue", endpoint_url=url, region_name="x", config=once, **keys)


def test_tls_with_a_server_that_has_none(store: AnsweringStore) -> None:
    """Each library finds out in its own words."""
    url = f"https://{store.address}"
    glue = glue_client(url)
    once = pafs.AwsStandardS3RetryStrategy(max_attempts=1)
    files = pafs.S3FileSystem(
        endpoint_override=url, access_key="a", secret_key="b", region="x", retry_strategy=once
    )
    for call in (
        lambda: requests.get(url, timeout=5),
        glue.get_databases,
        lambda: files.open_output_stream("lake/file").close(),
    ):
        error = raised(call)
        assert classified(error).cause.startswith("does not use TLS there")
        assert classified(error).verdict is Verdict.ACT


def test_a_certificate_of_an_unknown_authority(tmp_path: Path) -> None:
    """The message names the setting with its file."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    own = Authority(tmp_path).identity("server")
    context.load_cert_chain(own.certificate, own.key)
    with HttpServer(Handler, context) as server:
        glue = glue_client(server.url)
        for call in (lambda: requests.get(server.url, timeout=5), glue.get_databases):
            check(("act", "?", "REQUESTS_CA_BUNDLE", raised(call)))


def test_sqlite_s_errors(tmp_path: Path) -> None:
    """By its codes."""
    (tmp_path / "text").write_text("no database" * 100)
    path = tmp_path / "ssl.db"

    def refused(url: str, *statements: str) -> Exception:
        engine = create_engine(f"sqlite:///{url}", connect_args={"timeout": 0})
        try:
            with engine.begin() as connection:
                return raised(lambda: [connection.execute(text(statement)) for statement in statements])
        except sql.DBAPIError as error:
            return error
        finally:
            engine.dispose()

    kept = sqlite3.connect(path, isolation_level=None)
    kept.execute("CREATE TABLE t (x)")
    insert = "INSERT INTO t VALUES (zeroblob(100000))"
    check(("wait", CATALOG, "does the folder", refused(f"{tmp_path}/http_requests/x", "SELECT 1")))
    check(("wait", CATALOG, "may you write to the file", refused(f"file:{path}?mode=ro&uri=true", insert)))
    check(("wait", CATALOG, "make room", refused(str(path), "PRAGMA max_page_count = 3", insert)))
    kept.execute("BEGIN IMMEDIATE")
    check(("wait", CATALOG, "another program", refused(str(path), insert)))
    kept.close()
    check(("act", CATALOG, "that of a catalog", refused(f"{tmp_path}/text", "SELECT * FROM t")))
    check(("act", CATALOG, "that of a catalog", refused(str(path), "SELECT * FROM iceberg_tables")))


@pytest.mark.parametrize(("codec", "level"), [("gzip", 99), ("snappy", 3), ("nonsense", None)])
def test_a_wrong_codec_or_level_is_the_table_s(tmp_path: Path, codec: str, level: int | None) -> None:
    """Not the storage's, which is well."""
    table = pa.table({"page": ["/"]})
    error = raised(lambda: pq.write_table(table, tmp_path / "x", compression=codec, compression_level=level))
    check(("act", "the table", "TBLPROPERTIES", error))


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
    assert "http_requests" in str(error)
    check(("wait", STORAGE, "make room", error))


def test_what_a_message_says_of_a_server() -> None:
    """Its address, not what requests is made of; lent keys may be refused; logins stay out."""
    error = raised(lambda: requests.get("http://127.0.0.1:9/v1/config", timeout=5))
    assert plain(error).startswith("127.0.0.1:9: Failed to establish a new connection")
    check(("wait", "?", "is it running", error))
    for code, verdict in (("ACCESS_DENIED", Verdict.WAIT), ("NO_SUCH_BUCKET", Verdict.ACT)):
        found = sort_error(OSError(f"AWS Error {code} during PutObject operation: words"), STORAGE, lent=True)
        assert found.verdict is verdict
    assert "s3cret" not in str(classified(OSError("https://me:s3cret@store/x does not respond")).error())
