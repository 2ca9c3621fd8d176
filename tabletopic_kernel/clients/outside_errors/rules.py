"""The classification of other libraries' errors: an outage, a mistake that the user must fix, or a bug.

Data only; ``sorting.py`` reads it from the top, and the first row that fits counts. The codes for AWS,
PostgreSQL and Iceberg's REST interface are their own. Longer than other modules, as it is one table.

Two rules decide on a row. Errors that may pass without a person are waited out: whoever enables a topic, or
runs ``doctor``, is told anyway. A refusal that will be the same at the next try is reported at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

CATALOG: Final = "the catalog"
STORAGE: Final = "the storage"


class Verdict(StrEnum):
    """Who has to act."""

    WAIT = "wait"  # nobody: it is retried (I9)
    ACT = "act"  # the user
    BUG = "bug"  # we


@dataclass(frozen=True)
class Row:
    """One kind of error.

    ``kinds`` are prefixes of full class names, and one of the error's classes must match; ``says`` is
    searched in "[code] [HTTP status] text". ``who`` is empty if it is the called system. A ``setting`` is
    wrong whatever any server says. ``keys``: keys or tokens were refused, and a catalog may lend new ones.
    ``places``: modules, one of which must have raised it; for kinds that a bug of ours may have, too.
    """

    kinds: tuple[str, ...]
    says: re.Pattern[str]
    verdict: Verdict
    lead: str = ""
    remedy: str = ""
    who: str = ""
    setting: bool = False
    keys: bool = False
    places: tuple[str, ...] = ()


def _row(
    verdict: Verdict, kinds: str, says: str = "", lead: str = "", remedy: str = "", **more: object
) -> Row:
    return Row(tuple(kinds.split()), re.compile(says, re.IGNORECASE), verdict, lead, remedy, **more)  # type: ignore[arg-type]


def _wait(
    kinds: str,
    says: str = "",
    remedy: str = "",
    *,
    who: str = "",
    lead: str = "does not respond",
    places: tuple[str, ...] = (),
) -> Row:
    return _row(Verdict.WAIT, kinds, says, lead, remedy, who=who, places=places)


def _act(
    kinds: str,
    says: str,
    remedy: str,
    *,
    who: str = "",
    lead: str = "refuses it",
    setting: bool = False,
    keys: bool = False,
) -> Row:
    return _row(Verdict.ACT, kinds, says, lead, remedy, who=who, setting=setting, keys=keys)


def _bug(kinds: str) -> Row:
    return _row(Verdict.BUG, kinds)


# --- names of kinds ---------------------------------------------------------------------------------------

_ICEBERG = "pyiceberg.exceptions."
_MISSING = f"{_ICEBERG}NotInstalledError builtins.ImportError"
_AWS = "botocore.exceptions."
_CLIENT_ERROR = f"{_AWS}ClientError"
_SQL = "sqlalchemy.exc."
_DATABASE = f"{_SQL}DBAPIError"
_HIVE = "hive_metastore.ttypes."
_OS = "builtins.OSError"

# --- rows -------------------------------------------------------------------------------------------------

_DRIVERS = (
    _act(_MISSING, r"glue|boto", "pip install 'tabletopic[glue]'", setting=True),
    _act(_MISSING, r"kerberos|thrift_sasl|puresasl", "pip install 'pyiceberg[hive-kerberos]'", setting=True),
    _act(_MISSING, r"hive|thrift", "pip install 'tabletopic[hive]'", setting=True),
    _act(_MISSING, r"postgres|psycopg2", "pip install 'tabletopic[postgres]'", setting=True),
    _act(_MISSING, r"AzureFileSystem", "install a newer pyarrow: pip install -U pyarrow", setting=True),
    _act(_MISSING, "", "install it beside tabletopic", setting=True),
)

_SETTINGS = (
    _act(
        f"{_SQL}NoSuchModuleError",
        r"dialects:postgres\b",
        "write postgresql+psycopg2:// in uri, not postgres://",
        setting=True,
    ),
    _act(f"{_SQL}NoSuchModuleError {_SQL}ArgumentError", "", "correct uri", setting=True),
    _act(f"{_AWS}NoRegionError", "", "set glue.region, or client.region for all of AWS", setting=True),
    _act(
        f"{_AWS}ProfileNotFound {_AWS}ConfigNotFound {_AWS}ConfigParseError {_AWS}InvalidConfigError",
        "",
        "correct the profile, in the properties or in AWS_PROFILE, or the files in ~/.aws",
        setting=True,
    ),
    _act(
        f"{_AWS}InvalidRegionError {_AWS}UnknownRegionError {_AWS}UnknownEndpointError",
        "",
        "correct the region",
        setting=True,
    ),
    _act(
        "builtins.ValueError",
        r"No default path is set",
        "set warehouse, the location of tables: s3://bucket/folder, or a local folder",
        setting=True,
    ),
    _act(
        "builtins.ValueError",
        r"Could not infer the catalog type",
        "set type: rest, sql, glue or hive",
        setting=True,
    ),
    _act(
        "builtins.ValueError",
        r"Unrecognized filesystem type",
        "begin warehouse with file:, s3:, gs: or abfss:",
        setting=True,
    ),
    _act(
        "builtins.ValueError",
        r"Could not parse table property|^\[[^]]*\] \[HTTP [^]]*\] Unsupported codec: ",
        "correct it with --table-property, or ALTER TABLE … SET TBLPROPERTIES, and resume the topic",
        who="the table",
        lead="has a wrong property",
    ),
    _act(
        f"{_ICEBERG}ValidationError pydantic_core._pydantic_core.ValidationError",
        r"Unsupported field type: |Could not parse \S* into a|Input tag '' found using ''",
        "another program has given it a column or a format version that PyIceberg does not know: query it "
        "with Spark, and enable its topic with another --table",
        who="the table",
        lead="cannot be read",
    ),
    _act("builtins.ValueError", r"Invalid endpoint: ", "correct the endpoint's URL", setting=True),
    _act(
        f"{_ICEBERG}NoSuchPropertyException builtins.ValueError",
        r"URI (is required|missing)",
        "set uri",
        setting=True,
    ),
    _act(
        f"{_ICEBERG}NoSuchIcebergTableError {_ICEBERG}NoSuchPropertyException",
        "",
        "a table of this name exists and is not an Iceberg table: choose another with --table or --namespace",
        who=CATALOG,
        lead="has something else by that name",
    ),
    _act(
        "requests.exceptions.MissingSchema requests.exceptions.InvalidSchema requests.exceptions.InvalidURL "
        "requests.exceptions.InvalidProxyURL",
        "",
        "correct uri; it has the form https://HOST:PORT/PATH",
        setting=True,
    ),
)

_CERTIFICATE = r"CERTIFICATE_VERIFY_FAILED|certificate verify failed|SSL validation failed"
_NO_TLS = r"WRONG_VERSION_NUMBER|wrong version number|record layer failure|SSL: HTTP_REQUEST"
_TLS = (
    _act(
        f"{_AWS}SSLError",
        _CERTIFICATE,
        "set AWS_CA_BUNDLE to its CA certificate file",
        lead="has a certificate of an untrusted CA",
    ),
    _act(
        "requests.exceptions.SSLError",
        _CERTIFICATE,
        "set REQUESTS_CA_BUNDLE to its CA certificate file",
        lead="has a certificate of an untrusted CA",
    ),
    _act(
        f"requests.exceptions.SSLError {_AWS}SSLError {_OS}",
        _NO_TLS,
        "the address does not accept TLS: should it be http:// instead of https://, or another port?",
        lead="does not use TLS there",
    ),
)

_PATH = "is it being restarted, or is the path in [catalog] uri wrong? It is everything before /v1/config"

_REST = (
    # A load balancer whose catalog restarts sends pages of its own, with 404 or even 200: it is not the
    # catalog's word, so no topic fails for it, and no table is gone.
    _wait(
        _ICEBERG,
        r"\[HTTP 4(?!01|03|19|29)\d\d\].*(unexpected JSON Payload|Could not decode json|<html)",
        _PATH,
        who=CATALOG,
        lead="does not respond as an Iceberg REST catalog",
    ),
    _wait(
        "pydantic_core._pydantic_core.ValidationError",
        r"for ConfigResponse",
        _PATH,
        who=CATALOG,
        lead="does not respond as an Iceberg REST catalog",
    ),
    _wait(
        "pydantic_core._pydantic_core.ValidationError",
        r"for TokenResponse",
        "is the server of the login being restarted, or is oauth2-server-uri in [catalog] wrong?",
        who=CATALOG,
        lead="gets no token",
    ),
    _wait(
        "pydantic_core._pydantic_core.ValidationError",
        r"for \w+Response\b",
        who=CATALOG,
        lead="returned an invalid response",
    ),
    _act(
        f"{_ICEBERG}OAuthError",
        "",
        "check credential, scope and oauth2-server-uri in [catalog]",
        who=CATALOG,
        lead="refuses the login",
        keys=True,
    ),
    _act(
        f"{_ICEBERG}UnauthorizedError",
        "",
        "check credential, token or auth in [catalog]",
        who=CATALOG,
        lead="refuses the login",
    ),
    _act(
        f"{_ICEBERG}AuthorizationExpiredError",
        "",
        "the token in [catalog] has expired: set a new one, or credential, which renews them automatically",
        who=CATALOG,
        lead="refuses the login",
    ),
    _act(
        f"{_ICEBERG}ForbiddenError",
        "",
        "give the user of [catalog] the right to do that",
        who=CATALOG,
        lead="does not allow it",
    ),
    _act(
        "builtins.NotImplementedError",
        r"REST|endpoint",
        "use another catalog, or a newer version of it",
        who=CATALOG,
        lead="cannot do it",
    ),
    _wait(
        f"{_ICEBERG}TooManyRequestsError",
        "",
        "if this persists, commit less often (--commit-interval), or raise its limits",
        who=CATALOG,
        lead="is overloaded",
    ),
    _wait(f"{_ICEBERG}RESTError", r"\[HTTP (408|425|429|5\d\d)\]", who=CATALOG),
    _act(
        f"{_ICEBERG}RESTError",
        r"\[HTTP 4\d\d\]",
        "a retry would be refused as well: is [catalog] right, and does the server's version support this?",
        who=CATALOG,
    ),
    _wait(f"{_ICEBERG}RESTError {_ICEBERG}SignError {_ICEBERG}WaitingForLockException", who=CATALOG),
)

_SQLITE = "sqlite3."
_RIGHTS = "GRANT SELECT, INSERT, UPDATE, DELETE ON iceberg_tables, iceberg_namespace_properties TO it"
_DATABASES = (
    _bug(f"{_SQLITE}ProgrammingError {_SQL}InvalidRequestError"),
    # Before the login, a server writes in its own language and encoding, and psycopg2 expects UTF-8.
    _wait("builtins.UnicodeDecodeError", r"connection to server", who=CATALOG),
    _act(
        f"{_SQLITE}DatabaseError",
        r"not a database|malformed",
        "is [catalog] uri that of a catalog?",
        who=CATALOG,
    ),
    _act(
        f"{_SQLITE}OperationalError",
        r"no such (table|column)",
        "is [catalog] uri that of a catalog?",
        who=CATALOG,
    ),
    _wait(
        f"{_SQLITE}OperationalError",
        r"unable to open",
        "does the folder of [catalog] uri exist, may you write to it, and are file handles free (ulimit -n)?",
        who=CATALOG,
    ),
    _wait(
        f"{_SQLITE}OperationalError",
        r"readonly|read-only",
        "may you write to the file of [catalog] uri, and to its folder?",
        who=CATALOG,
        lead="is read-only at the moment",
    ),
    _wait(
        f"{_SQLITE}OperationalError",
        r"locked|busy",
        "another program is writing to it",
        who=CATALOG,
        lead="is locked",
    ),
    _wait(
        f"{_SQLITE}OperationalError",
        r"full",
        "make room on its disk",
        who=CATALOG,
        lead="is read-only at the moment",
    ),
    _wait(
        _DATABASE,
        r"\[25006\]|\[1290\]|read-only transaction|read_only_sql",
        "is it failing over, or does [catalog] uri point to a replica?",
        who=CATALOG,
        lead="is read-only at the moment",
    ),
    _wait(
        _DATABASE,
        r"\[53300\]|\[1040\]|too many (clients|connections)|remaining connection slots",
        "raise the database's connection limit",
        who=CATALOG,
        lead="is overloaded",
    ),
    _wait(
        _DATABASE, r"\[(57P0\d|08\w{3}|40\w{3}|55P03|53\w{3})\]|is starting up|is shutting down", who=CATALOG
    ),
    _act(
        _DATABASE,
        r"\[(28P01|28000|1045|1698)\]|password authentication failed|no password supplied|"
        r"no pg_hba\.conf entry|"
        r"role \S+ does not exist|(ident|peer) authentication failed|Access denied for user \S+ \(using",
        "check user and password in [catalog] uri",
        who=CATALOG,
        lead="refuses the login",
    ),
    _act(
        _DATABASE,
        r"\[(3D000|1049)\]|FATAL: +database \S+ does not exist",
        "create that database, or name an existing one at the end of [catalog] uri",
        who=CATALOG,
        lead="does not exist",
    ),
    _act(
        _DATABASE,
        r"permission denied for schema",
        "let the user create the catalog's tables: GRANT USAGE, CREATE ON SCHEMA public TO it",
        who=CATALOG,
        lead="does not allow it",
    ),
    _act(
        _DATABASE,
        r"\[(42501|1044|1142)\]|permission denied for|must be owner of",
        f"give the user the rights: {_RIGHTS}",
        who=CATALOG,
        lead="does not allow it",
    ),
    _act(
        _DATABASE,
        r"certificate verify failed|root certificate file|server does not support SSL|server certificate for|"
        r"SSL error: (?!unexpected eof)|requires a valid client certificate",
        "check sslmode, sslrootcert, sslcert and sslkey behind the ? of [catalog] uri",
        who=CATALOG,
        lead="cannot be reached by TLS",
    ),
    _act(
        f"{_DATABASE} {_SQL}StatementError",
        r"invalid (dsn|connection option|sslmode|port|URI|integer value)",
        "correct [catalog] uri",
        who=CATALOG,
    ),
    _act(
        _DATABASE,
        r"\[42P01\]|relation \S+ does not exist",
        "are database and schema right, and is init_catalog_tables still on?",
        who=CATALOG,
        lead="lacks the catalog's tables",
    ),
    _wait(
        f"{_SQL}OperationalError {_SQL}InterfaceError {_SQL}InternalError {_SQL}IntegrityError "
        f"{_SQL}TimeoutError",
        who=CATALOG,
    ),
    _act(
        f"{_SQL}ProgrammingError {_SQL}DataError {_SQL}NotSupportedError",
        "",
        "does [catalog] uri name a database that Iceberg's SQL catalog can use?",
        who=CATALOG,
    ),
    _wait(f"{_SQL}DBAPIError {_SQL}DisconnectionError sqlite3. psycopg2. psycopg.", who=CATALOG),
    _bug("sqlalchemy."),
)

_GLUE = (
    _bug(f"{_AWS}ParamValidationError"),
    _act(
        f"{_AWS}NoCredentialsError {_AWS}PartialCredentialsError",
        "",
        "set client.access-key-id and client.secret-access-key in [catalog], or a profile, or a role",
        lead="was not contacted: there are no AWS credentials",
        keys=True,
    ),
    _act(
        f"{_AWS}UnauthorizedSSOTokenError {_AWS}SSOTokenLoadError {_AWS}TokenRetrievalError",
        "",
        "log in again: aws sso login",
        lead="was not contacted: the AWS login has expired",
        keys=True,
    ),
    _act(
        _CLIENT_ERROR,
        r"\[(RequestTimeTooSkewed|RequestExpired)\]|Signature (expired|not yet current)",
        "set the clock of this machine",
        lead="refuses the login",
    ),
    _act(
        _CLIENT_ERROR,
        r"\[ExpiredToken\w*\]",
        "the AWS session has expired: log in again, or use keys or a role that are renewed",
        lead="refuses the login",
        keys=True,
    ),
    _act(
        _CLIENT_ERROR,
        r"\[(UnrecognizedClient\w*|InvalidClientTokenId|InvalidAccessKeyId|AuthFailure|MissingAuthenticationToken\w*|"
        r"SignatureDoesNotMatch|InvalidSignature\w*|IncompleteSignature\w*|OptInRequired)\]",
        "check access key, secret key, session token and region in [catalog], or those of the profile",
        lead="refuses the login",
        keys=True,
    ),
    _act(
        _CLIENT_ERROR,
        r"\[(AccessDenied\w*|NotAuthorized\w*|UnauthorizedOperation|FederatedResource\w*)\]|"
        r"not authorized to perform",
        "give the user of [catalog] the right, in IAM and, if you use it, in Lake Formation",
        lead="does not allow it",
        keys=True,
    ),
    _wait(
        _CLIENT_ERROR,
        r"\[(\w*Throttl\w*|TooManyRequests\w*|RequestLimitExceeded|SlowDown|BandwidthLimitExceeded|"
        r"ProvisionedThroughputExceeded\w*|ConcurrentRunsExceeded\w*)\]|\[HTTP 429\]|Rate exceeded",
        "if this persists, commit less often (--commit-interval), or ask AWS for a higher quota",
        lead="is overloaded",
    ),
    _act(_CLIENT_ERROR, r"\[ResourceNumberLimitExceeded\w*\]", "ask AWS for a higher quota"),
    _wait(
        _CLIENT_ERROR,
        r"\[HTTP (408|5\d\d)\]|\[(Internal\w*|ServiceUnavailable\w*|OperationTimeout\w*|RequestTimeout\w*)\]",
    ),
    _act(_CLIENT_ERROR, r"\[HTTP 4\d\d\]", "a retry would be refused as well: is [catalog] right?"),
    # A proxy's page with status 200, and one of an error that is not UTF-8, as PyIceberg and boto3 read them.
    _wait(
        "builtins.KeyError",
        r"\] '(Table|Database|access_token)'$",  # the last: of PyIceberg's auth.oauth2
        who=CATALOG,
        lead="returned an invalid response",
    ),
    _wait("builtins.UnicodeDecodeError", lead="returned an invalid response"),
    # null, [] or a part of a table, as a gateway in front of Glue may return them with status 200.
    _wait("builtins.ValueError", r"Glue table is missing", who=CATALOG, lead="returned an invalid response"),
    _wait(
        "builtins.AttributeError builtins.KeyError builtins.TypeError",
        lead="returned an invalid response",
        places=("botocore.endpoint", "botocore.parsers", "pyiceberg.catalog.glue"),
    ),
    _wait("botocore. boto3. s3transfer. aiobotocore."),
)

_METASTORE = (
    _act(
        f"{_HIVE} thrift.",
        r"AccessControlException|Permission denied|HiveAccessControl|not authorized|No privilege",
        "give the user the right, on the database and on its folder",
        who=CATALOG,
        lead="does not allow it",
    ),
    _act(
        f"{_HIVE} thrift.",
        r"No FileSystem for scheme|ClassNotFoundException|NoClassDefFoundError",
        "the Hive metastore lacks the jars of the warehouse's storage: add them there (for s3a: hadoop-aws)",
        who=CATALOG,
        lead="cannot use the storage",
    ),
    _act(
        "thrift.Thrift.TApplicationException",
        r"Invalid method name",
        "is it a Hive metastore of version 2.3 or later? Older ones: hive.hive2-compatible = true",
        who=CATALOG,
    ),
    _act(
        "thrift.protocol.TProtocol.TProtocolException thrift.transport.TTransport.TTransportException",
        r"bad version|No protocol version|frame size|TSaslClientTransport|Could not start SASL|Bad status",
        "is [catalog] uri the Thrift port of a Hive metastore (9083), and does it require Kerberos?",
        who=CATALOG,
        lead="does not behave like a Hive metastore",
    ),
    _act(
        f"{_HIVE}InvalidObjectException {_HIVE}InvalidOperationException {_HIVE}InvalidInputException "
        f"{_HIVE}ConfigValSecurityException",
        "",
        "a retry would be refused as well",
        who=CATALOG,
    ),
    _wait("thrift. hive_metastore.", who=CATALOG),
)

# PyIceberg calls REST catalogs through it. Before the storage's rows: their words may be part of an address.
_NET = (_wait("requests. urllib3."),)

_KEYS = (
    "check s3.access-key-id, s3.secret-access-key and s3.session-token in [catalog], and this machine's clock"
)
_GCS_KEYS = (
    "check gcs.oauth2.token and its expiry in [catalog], or log in: gcloud auth application-default login"
)
_AZURE_KEYS = "check adls.account-key or adls.sas-token in [catalog], and this machine's clock"
_STORE = (
    _act(
        _OS,
        r"AWS Error NO_SUCH_BUCKET|Azure.*\[?ContainerNotFound|specified bucket does not exist|"
        r"google::cloud::Status\(NOT_FOUND.*(bucket|CreateResumableUpload|InsertObjectMedia)|"
        r"Container .*does not exist",
        "create that bucket, or correct warehouse (and the endpoint) in [catalog]",
        who=STORAGE,
        lead="has no such bucket",
    ),
    _act(
        _OS,
        r"configured region is .* while the bucket|AWS Error \w+ \(HTTP status 301\)|"
        r"AuthorizationHeaderMalformed|"
        r"PermanentRedirect|IllegalLocationConstraint",
        "set s3.region in [catalog] to the bucket's region",
        who=STORAGE,
        lead="has the bucket in another region",
    ),
    _act(
        _OS,
        r"AWS Error (REQUEST_TIME_TOO_SKEWED|REQUEST_EXPIRED)|RequestTimeTooSkewed",
        "set the clock of this machine",
        who=STORAGE,
        lead="refuses the login",
    ),
    _act(
        _OS,
        r"google::cloud::Status\(UNAUTHENTICATED|Could not create a OAuth2 access token|anonymous caller",
        _GCS_KEYS,
        who=STORAGE,
        lead="refuses the keys",
        keys=True,
    ),
    _act(
        f"{_OS} pyarrow.lib.ArrowException",
        r"AuthenticationFailed|InvalidAuthenticationInfo|Server failed to authenticate|"
        r"Namespace support.*Base64",
        _AZURE_KEYS,
        who=STORAGE,
        lead="refuses the keys",
        keys=True,
    ),
    _act(
        _OS,
        r"AWS Error (INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH|INVALID_SIGNATURE|"
        r"INVALID_CLIENT_TOKEN_ID|"
        r"UNRECOGNIZED_CLIENT|MISSING_AUTHENTICATION_TOKEN|INCOMPLETE_SIGNATURE|OPT_IN_REQUIRED)|ExpiredToken|"
        r"InvalidToken|no AWS credentials",
        _KEYS,
        who=STORAGE,
        lead="refuses the keys",
        keys=True,
    ),
    _act(
        _OS,
        r"QuotaExceeded|XMinioStorageFull|InsufficientCapacity",
        "make room there, or raise the quota",
        who=STORAGE,
        lead="is full",
    ),
    _act(
        _OS,
        r"KMS|KeyDisabled|s3:x-amz-server-side",
        "check s3.sse-kms-key-id in [catalog] and the right to use that key",
        who=STORAGE,
        lead="cannot encrypt",
        keys=True,
    ),
    _act(
        _OS,
        r"google::cloud::Status\(PERMISSION_DENIED",
        "may its account list, read, write and delete there? Google's role Storage Object User allows that",
        who=STORAGE,
        lead="does not allow it",
        keys=True,
    ),
    _act(
        _OS,
        r"AuthorizationFailure|AuthorizationPermissionMismatch",
        "may it list, read, write and delete there (Azure's role Storage Blob Data Contributor), and do the "
        "account's network rules let this machine in?",
        who=STORAGE,
        lead="does not allow it",
        keys=True,
    ),
    _act(
        _OS,
        r"AWS Error ACCESS_DENIED|AWS Error \w+ \(HTTP status 40[13]\)|AWS Error \[code 15\]",
        "may its keys list, read, write and delete there? If they may, " + _KEYS,
        who=STORAGE,
        lead="does not allow it",
        keys=True,
    ),
    _act(
        _OS,
        r"AWS Error \w+ \(HTTP status 400\).*InvalidBucketName|Bucket name",
        "correct the bucket's name in warehouse",
        who=STORAGE,
    ),
    _act(
        _OS,
        r"AWS Error \w+ \(HTTP status 400\)",
        "check s3.region, s3.endpoint, s3.session-token and the keys in [catalog]",
        who=STORAGE,
        lead="rejects the request",
        keys=True,
    ),
    _wait(
        _OS,
        r"AWS Error (SLOW_DOWN|THROTTLING)|google::cloud::Status\(RESOURCE_EXHAUSTED|ServerBusy",
        "if this persists, commit less often (--commit-interval)",
        who=STORAGE,
        lead="is overloaded",
    ),
    _wait(
        _OS,
        r"google::cloud::Status\(NOT_FOUND",
        "were files of the table deleted?",
        who=STORAGE,
        lead="is missing a file of the table",
    ),
    _wait(_OS, r"AWS Error|Azure|google::cloud|in bucket|HDFS", who=STORAGE),
    _wait(
        _OS,
        r"\[Errno (28|122)\]|\[errno (28|122)\]|No space left|quota exceeded",
        "make room on its disk",
        who=STORAGE,
        lead="is full",
    ),
    _wait(
        _OS,
        r"\[errno (1|13|30)\]|access denied|Permission denied|Read-only file system",
        "may you write there, and is its disk mounted? Its path is [catalog] warehouse",
        who=STORAGE,
        lead="rejects the write",
    ),
    _wait(
        _OS,
        r"\[errno (2|5|20|21|116)\]|does not exist|file not found|already exists",
        "is its disk mounted, and were files of the table deleted?",
        who=STORAGE,
        lead="is missing files",
    ),
)

# Optional clients of storage, and all other errors of network or disk.
_OTHERS = (
    _act(
        "google.auth.exceptions.DefaultCredentialsError", "", "log in to Google Cloud", who=STORAGE, keys=True
    ),
    _act(
        "azure.core.exceptions.ClientAuthenticationError",
        "",
        "check adls.* in [catalog]",
        who=STORAGE,
        keys=True,
    ),
    _wait("aiohttp. google. gcsfs. azure. adlfs. fsspec. s3fs."),
    _wait("pyarrow.lib.ArrowException", r"^\[\] \[HTTP \] Unknown error: ", who=STORAGE),
    _wait(_OS),
)

ROWS: Final = (
    *_DRIVERS,
    *_SETTINGS,
    *_TLS,
    *_REST,
    *_DATABASES,
    *_GLUE,
    *_METASTORE,
    *_NET,
    *_STORE,
    *_OTHERS,
)
