"""What errors of catalogs and storage mean: an outage, a mistake that the user must fix, or a bug.

Data only, looked up by ``sorting.py`` in this order: a sentence that refines the code, the code, the class.
Within a table, the order does not matter. One module, because it is one list.

Two rules decide on an entry. Errors that may pass without a person are retried; ``enable`` and ``doctor``
still show them. A refusal that will be the same at the next try is reported at once.
"""

# ruff: noqa: E501 - a rule a line

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from tabletopic_kernel.model.errors import CATALOG, Verdict

STORAGE: Final = "the storage"


@dataclass(frozen=True)
class Rule:
    """What an error means; ``who`` is empty for the called system, ``setting``: no server has judged.

    ``keys``: keys or tokens were refused, and a catalog may lend new ones.
    """

    verdict: Verdict
    remedy: str = ""
    lead: str = ""
    who: str = ""
    setting: bool = False
    keys: bool = False


Rules = Mapping[str, Mapping[str, Rule]]


def _wait(remedy: str = "", lead: str = "does not respond", who: str = "") -> Rule:
    return Rule(Verdict.WAIT, remedy, lead, who)


def _busy(hint: str = "") -> Rule:
    return _wait(f"if this persists, commit less often (--commit-interval){hint}", "is overloaded")


def _act(remedy: str, lead: str = "refuses it", who: str = "", **flags: Any) -> Rule:
    return Rule(Verdict.ACT, remedy, lead, who, **flags)


_login = partial(_act, lead="refuses the login")
_keys = partial(_act, lead="refuses the keys", keys=True)
_rights = partial(_act, lead="does not allow it")
_setting = partial(_act, setting=True)
_BUG = Rule(Verdict.BUG)
_INVALID = _wait(lead="returned an invalid response")
_CLOCK = _login("set the clock of this machine")
# fmt: off
_PROPERTY = _act("correct it with --table-property, or ALTER TABLE … SET TBLPROPERTIES", "has a wrong property", "the table")

# --- catalogs -----------------------------------------------------------------------------------------------

# While a catalog restarts, its load balancer sends pages of its own, with 404 or even 200. They prove nothing
# about tables, so no topic fails because of them.
_NO_CATALOG = _wait("is it being restarted, or is the path in {section} uri wrong? It is everything before /v1/config", "does not respond as an Iceberg REST catalog")
_UNSUPPORTED = _act("use another catalog, or a newer version of it", "cannot do it")
_NOT_OURS = _act("is {section} uri that of a catalog?")
_TOO_MANY = _wait("raise the database's connection limit", "is overloaded")
_NO_LOGIN = _login("check user and password in {section} uri")
_NO_DATABASE = _act("create that database, or name an existing one at the end of {section} uri", "does not exist")
_NO_HIVE = _act("is {section} uri the Thrift port of a Hive metastore (9083), and does it require Kerberos?", "does not behave like a Hive metastore")
_OF_CATALOGS: Rules = {
    "REST": {  # the class, or the HTTP status
        "UnauthorizedError": _login("check credential, token or auth in {section}"),
        "ForbiddenError": _rights("give the user of {section} the right to do that"),
        "AuthorizationExpiredError": _login("the token in {section} has expired: set a new one, or credential, which renews them automatically"),
        "TooManyRequestsError": _busy(", or raise its limits"),
        "501": _UNSUPPORTED,
        "408 425": _wait(),
        "page": _NO_CATALOG,
        "4xx": _act("a retry would be refused as well: is {section} right, and does the server's version support this?"),
    },
    "response": {  # PyIceberg's models; a page with status 200 fits none
        "ConfigResponse": _NO_CATALOG,
        "TokenResponse": _wait("is the server of the login being restarted, or is oauth2-server-uri in {section} wrong?", "gets no token"),
        "other": _INVALID,
    },
    "pyiceberg.exceptions": {
        "NotInstalledError": _setting("install it beside tabletopic"),
        "NoSuchIcebergTableError NoSuchPropertyException": _act("a table of this name exists and is not an Iceberg table: choose another with --table or --namespace", "has something else by that name"),
        "OAuthError": _login("check credential, scope and oauth2-server-uri in {section}", keys=True),
        "RESTError SignError WaitingForLockException": _wait(),
    },
    "SQLite": {
        "ProgrammingError": _BUG,  # of Python's module, not of SQLite
        f"{sqlite3.SQLITE_NOTADB} {sqlite3.SQLITE_CORRUPT}": _NOT_OURS,
        f"{sqlite3.SQLITE_CANTOPEN}": _wait("does the folder of {section} uri exist, may you write to it, and are file handles free (ulimit -n)?"),
        f"{sqlite3.SQLITE_READONLY}": _wait("may you write to the file of {section} uri, and to its folder?", "is read-only at the moment"),
        f"{sqlite3.SQLITE_BUSY} {sqlite3.SQLITE_LOCKED}": _wait("another program is writing to it", "is locked"),
        f"{sqlite3.SQLITE_FULL}": _wait("make room on its disk", "is read-only at the moment"),
    },
    "SQL": {  # SQLSTATE, or MySQL's number
        "25006 1290": _wait("is it failing over, or does {section} uri point to a replica?", "is read-only at the moment"),
        "53300 1040": _TOO_MANY,
        "28P01 28000 1045 1698": _NO_LOGIN,
        "3D000 1049": _NO_DATABASE,
        "42501 1044 1142": _rights("give the user the rights: GRANT SELECT, INSERT, UPDATE, DELETE ON iceberg_tables, iceberg_namespace_properties TO it"),
        "42P01": _act("are database and schema right, and is init_catalog_tables still on?", "lacks the catalog's tables"),
    },
    "sqlalchemy.exc": {
        "ArgumentError": _setting("correct uri"),
        "ProgrammingError DataError NotSupportedError": _act("does {section} uri name a database that Iceberg's SQL catalog can use?"),
        "DBAPIError DisconnectionError TimeoutError": _wait(),
    },
    "Thrift": {  # the class with its type
        "TApplicationException:1": _act("is it a Hive metastore of version 2.3 or later? Older ones: hive.hive2-compatible = true"),  # UNKNOWN_METHOD
        "TProtocolException:4": _NO_HIVE,  # BAD_VERSION
    },
    "hive_metastore.ttypes": dict.fromkeys(("InvalidObjectException", "InvalidOperationException", "InvalidInputException"), _act("a retry would be refused as well")),
    "key": {"Table Database access_token": _INVALID},  # missing in Glue's response, or in one with a token
}

# --- AWS: for Glue and for S3 -------------------------------------------------------------------------------

# Without "Exception" at the end, as boto3 has it, and without "_", as PyArrow has it.
AWS_CODES: Final = {
    code: meaning
    for meaning, codes in {
        "clock": "requesttimetooskewed requestexpired",
        "expired": "expiredtoken",
        "keys": "unrecognizedclient invalidclienttokenid invalidaccesskeyid missingauthenticationtoken invalidtoken signaturedoesnotmatch invalidsignature incompletesignature optinrequired",
        "rights": "accessdenied notauthorized",
        "busy": "throttling throttled requestthrottled toomanyrequests requestlimitexceeded slowdown bandwidthlimitexceeded provisionedthroughputexceeded",
        "down": "internalservice serviceunavailable operationtimeout requesttimeout",
        "quota": "resourcenumberlimitexceeded",
        "bucket": "nosuchbucket",
        "region": "authorizationheadermalformed permanentredirect illegallocationconstraint",
        "full": "quotaexceeded xminiostoragefull insufficientcapacity",
        "encryption": "kms.disabled kms.invalidstate kms.notfound keydisabled",
        "name": "invalidbucketname",
    }.items()
    for code in codes.split()
}
_OF_AWS: Rules = {
    "AWS": {
        "clock": _CLOCK,
        "expired": _login("the AWS session has expired: log in again, or use keys or a role that are renewed", keys=True),
        "keys": _login("check access key, secret key, session token and region in {section}, or those of the profile", keys=True),
        "rights": _rights("give the user of {section} the right, in IAM and, if you use it, in Lake Formation", keys=True),
        "busy 429": _busy(", or ask AWS for a higher quota"),
        "quota": _act("ask AWS for a higher quota"),
        "down 408": _wait(),
        "4xx": _act("a retry would be refused as well: is {section} right?"),
    },
    "botocore.exceptions": {
        "NoRegionError": _setting("set glue.region, or client.region for all of AWS"),
        "ProfileNotFound ConfigNotFound ConfigParseError InvalidConfigError": _setting("correct the profile, in the properties or in AWS_PROFILE, or the files in ~/.aws"),
        "InvalidRegionError UnknownRegionError UnknownEndpointError": _setting("correct the region"),
        "NoCredentialsError PartialCredentialsError": _act("set client.access-key-id and client.secret-access-key in {section}, or a profile, or a role", "was not contacted: there are no AWS credentials", keys=True),
        "UnauthorizedSSOTokenError SSOTokenLoadError TokenRetrievalError": _act("log in again: aws sso login", "was not contacted: the AWS login has expired", keys=True),
        "ParamValidationError": _BUG,
    },
    # null, [] or a part of a table, which a gateway in front of Glue may return with status 200
    "raised in": {"botocore.endpoint botocore.parsers pyiceberg.catalog.glue": _INVALID},
}

# --- storage ------------------------------------------------------------------------------------------------

_S3_KEYS = "check s3.access-key-id, s3.secret-access-key and s3.session-token in {section}, and this machine's clock"
_NO_BUCKET = _act("create that bucket, or correct warehouse (and the endpoint) in {section}", "has no such bucket")
_NO_TLS = _act("the address does not accept TLS: should it be http:// instead of https://, or another port?", "does not use TLS there")
_GCS_KEYS = _keys("check gcs.oauth2.token and its expiry in {section}, or log in: gcloud auth application-default login")
_AZURE_KEYS = _keys("check adls.account-key or adls.sas-token in {section}, and this machine's clock")
_REJECTED = _wait("may you write there, and is its disk mounted? Its path is {section} warehouse", "rejects the write")
_MISSING = _wait("is its disk mounted, and were files of the table deleted?", "is missing files")
_OF_STORES: Rules = {
    "S3": {
        "clock": _CLOCK,
        "expired keys": _keys(_S3_KEYS),
        "rights 401 403": _rights(f"may its keys list, read, write and delete there? If they may, {_S3_KEYS}", keys=True),
        "busy": _busy(),
        "bucket": _NO_BUCKET,
        "region 301": _act("set s3.region in {section} to the bucket's region", "has the bucket in another region"),
        "full": _act("make room there, or raise the quota", "is full"),
        "encryption": _act("check s3.sse-kms-key-id in {section} and the right to use that key", "cannot encrypt", keys=True),
        "name": _act("correct the bucket's name in warehouse"),
        "400": _act("check s3.region, s3.endpoint, s3.session-token and the keys in {section}", "rejects the request", keys=True),
        "other": _wait(),
    },
    "GCS": {  # google::cloud::StatusCode, also with the function that was called
        "UNAUTHENTICATED": _GCS_KEYS,
        "PERMISSION_DENIED": _rights("may its account list, read, write and delete there? Google's role Storage Object User allows that", keys=True),
        "NOT_FOUND:CreateResumableUpload NOT_FOUND:InsertObjectMedia": _NO_BUCKET,
        "NOT_FOUND": _wait("were files of the table deleted?", "is missing a file of the table"),
        "RESOURCE_EXHAUSTED": _busy(),
        "INVALID_ARGUMENT": _act("check warehouse and gcs.* in {section}", "rejects the request"),
        "other": _wait(),
    },
    "Azure": {
        "AuthenticationFailed InvalidAuthenticationInfo": _AZURE_KEYS,
        "AuthorizationFailure AuthorizationPermissionMismatch": _rights("may it list, read, write and delete there (Azure's role Storage Blob Data Contributor), and do the account's network rules let this machine in?", keys=True),
        "ContainerNotFound FilesystemNotFound": _NO_BUCKET,
        "ServerBusy": _busy(),
        "other": _wait(),
    },
    "errno": {
        "28 122": _wait("make room on its disk", "is full"),
        "1 13 30": _REJECTED,
        "2 5 20 21 116": _MISSING,
    },
}

# --- all ----------------------------------------------------------------------------------------------------

_OF_CALLED: Rules = {
    "TLS": {  # OpenSSL's reasons
        "CERTIFICATE_VERIFY_FAILED": _act("set REQUESTS_CA_BUNDLE to its CA certificate file", "has a certificate of an untrusted CA"),
        "WRONG_VERSION_NUMBER RECORD_LAYER_FAILURE HTTP_REQUEST": _NO_TLS,
    },
    "module": {  # not installed
        "boto3 botocore": _setting("pip install 'tabletopic[glue]'"),
        "kerberos puresasl thrift_sasl": _setting("pip install 'pyiceberg[hive-kerberos]'"),
        "hive_metastore thrift": _setting("pip install 'tabletopic[hive]'"),
        "psycopg2": _setting("pip install 'tabletopic[postgres]'"),
    },
    "builtins": {
        "ImportError": _setting("install it beside tabletopic"),
        "UnicodeDecodeError": _INVALID,
        "OSError": _wait(),
    },
    "requests.exceptions": {"MissingSchema InvalidSchema InvalidURL InvalidProxyURL": _setting("correct uri; it has the form https://HOST:PORT/PATH")},
}
# fmt: on
_OF: Final = ((CATALOG, _OF_CATALOGS), (STORAGE, _OF_STORES), ("", _OF_AWS), ("", _OF_CALLED))
# By system and code, or by module and class.
CODES: Final = {
    system: {
        code: replace(rule, who=rule.who or who) for codes, rule in rules.items() for code in codes.split()
    }
    for who, systems in _OF
    for system, rules in systems.items()
}
# fmt: off
NO_KEYS_LENT: Final = r"[Cc]redential vending was requested|cannot vend credentials"  # Polaris without STS
_NO_URI = {r"URI (is required|missing)": _setting("set uri")}
_UNKNOWN_TYPE = {
    r"Unsupported field type: |Could not parse \S* into a|Input tag '' found using ''": _act(
        "another program has given it a column or a format version that PyIceberg does not know: query it with Spark, and enable its topic with another --table",
        "cannot be read",
        "the table",
    )
}
_TEXTS: Mapping[str, Rules] = {
    CATALOG: {
        "builtins.ValueError": {
            r"No default path is set": _setting("set warehouse, the location of tables: s3://bucket/folder, or a local folder"),
            r"Could not infer the catalog type": _setting("set type: rest, sql, glue or hive"),
            r"Unrecognized filesystem type": _setting("begin warehouse with file:, s3:, gs: or abfss:"),
            r"Invalid endpoint: ": _setting("correct the endpoint's URL"),
            r"^(Could not parse table property|Unsupported codec: )|setting a compression level": _PROPERTY,
            r"Glue table is missing": _INVALID,
            **_NO_URI,
        },
        # Before the login, a database writes in its own language and encoding.
        "builtins.UnicodeDecodeError": {r"connection to server": _wait()},
        "builtins.NotImplementedError": {r"Server does not support endpoint": _UNSUPPORTED},
        "pyiceberg.exceptions.NoSuchPropertyException": _NO_URI,
        "pyiceberg.exceptions.ValidationError": _UNKNOWN_TYPE,
        "pydantic_core._pydantic_core.ValidationError": _UNKNOWN_TYPE,
        "sqlalchemy.exc.NoSuchModuleError": {r"dialects:postgres$": _setting("write postgresql+psycopg2:// in uri, not postgres://")},
        "sqlalchemy.exc.DBAPIError": {  # libpq reports no code before a login has succeeded
            r"too many clients|remaining connection slots": _TOO_MANY,
            r"authentication failed for user|no password supplied|no pg_hba.conf entry|role '' does not exist": _NO_LOGIN,
            r"database '' does not exist": _NO_DATABASE,
            r"permission denied for schema": _rights("let the user create the catalog's tables: GRANT USAGE, CREATE ON SCHEMA public TO it"),
            r"root certificate file|server does not support SSL|server certificate for|"
            r"SSL error: (?!unexpected eof)|requires a valid client certificate": _act("check sslmode, sslrootcert, sslcert and sslkey behind the ? of {section} uri", "cannot be reached by TLS"),
            r"invalid (dsn|connection option|sslmode|port|URI|integer value)": _act("correct {section} uri"),
        },
        "sqlite3.OperationalError": {r"^no such (table|column)": _NOT_OURS},
        "pyiceberg.exceptions.RESTError": {NO_KEYS_LENT: _act('set header.X-Iceberg-Access-Delegation = "" in {section}, so that it is not asked, and keys of the storage, such as s3.access-key-id and s3.secret-access-key', "cannot lend keys for the storage")},
        "thrift.Thrift.TException": {  # Java's exceptions, which the metastore passes on as text
            r"AccessControl|Permission denied|not authorized|No privilege": _rights("give the user the right, on the database and on its folder"),
            r"No FileSystem for scheme|ClassNotFoundException|NoClassDefFoundError": _act("the Hive metastore lacks the jars of the warehouse's storage: add them there (for s3a: hadoop-aws)", "cannot use the storage"),
            r"SASL|SaslClient|Bad status|frame size": _NO_HIVE,
        },
    },
    STORAGE: {
        "builtins.OSError": {
            r"curlCode: 35.*wrong version number": _NO_TLS,
            r"specified bucket does not exist": _NO_BUCKET,
            r"Could not create a OAuth2 access token": _GCS_KEYS,
            r"Server failed to authenticate": _AZURE_KEYS,
            r"deflateInit failed": _PROPERTY,  # zlib, of a compression level
            r"^Cannot [\w ]+, access denied": _REJECTED,  # PyIceberg's
            r"^Cannot [\w ]+, (does not exist|file not found|already exists)": _MISSING,
        },
        "pyarrow.lib.ArrowException": {
            r"^Unknown error: .*Base64": _AZURE_KEYS,
            r"^Unknown error: (?!.*Base64)": _wait(),  # Azure's client, too
            r"^Unsupported compression": _PROPERTY,
        },
    },
    "": {"botocore.exceptions.ClientError": {r"Signature (expired|not yet current)": _CLOCK}},
}
# fmt: on
# By class: what its text, without names, contains. For libraries that report no code, or an ambiguous one.
TEXTS: Final = {
    kind: {text: replace(rule, who=rule.who or who) for text, rule in rules.items()}
    for who, kinds in _TEXTS.items()
    for kind, rules in kinds.items()
}
# Packages whose other exceptions mean that a system does not respond; not all are our dependencies.
PACKAGES: Final = {
    **dict.fromkeys(("thrift", "hive_metastore", "psycopg2", "psycopg"), _wait(who=CATALOG)),
    **dict.fromkeys(("requests", "urllib3", "botocore", "boto3", "s3transfer"), _wait()),
    **dict.fromkeys(("aiohttp", "google", "gcsfs", "azure", "adlfs", "s3fs"), _wait()),
}
