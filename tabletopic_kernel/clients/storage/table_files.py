"""PyIceberg's files through PyArrow on every store: S3, Google's, Azure's, and folders.

For Azure, PyIceberg would use adlfs, which none of our dependencies installs and which does not list files
the way their removal needs; its own PyArrow support takes ``container@account.host`` for the container.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from pyarrow import BufferReader
from pyarrow.fs import FileSystem
from pyiceberg.io import (
    ADLS_ACCOUNT_KEY,
    ADLS_ACCOUNT_NAME,
    ADLS_BLOB_STORAGE_AUTHORITY,
    ADLS_CLIENT_ID,
    ADLS_CLIENT_SECRET,
    ADLS_DFS_STORAGE_AUTHORITY,
    ADLS_SAS_TOKEN,
    ADLS_TENANT_ID,
    GCS_TOKEN,
    GCS_TOKEN_EXPIRES_AT_MS,
    InputStream,
)
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from tabletopic_kernel.clients.storage.small_files import SmallFileIO
from tabletopic_kernel.model.errors import SettingsError

_LOGINS: Final = (ADLS_CLIENT_ID, ADLS_CLIENT_SECRET, ADLS_TENANT_ID)
AZURE: Final = ("abfs", "abfss", "wasb", "wasbs")
# By default, Google's client retries for 15 minutes, during which nobody would learn of an outage. `doctor`
# waits for 10 s.
_GCS_TRIES: Final = timedelta(seconds=8)
_DOMAIN: Final = "core.windows.net"
_READ_WHOLE_BYTES: Final = 32 * 1024**2
_METADATA: Final = (".metadata.json", ".avro")  # read whole, whatever their size


class _GoogleFile(PyArrowFile):
    """A file that is read whole unless it is large.

    PyArrow sends the request for a seekable file when it first asks whether that is closed, and holds
    Python's global lock (GIL) until the storage answers: a silent storage would stop all of the process.
    """

    def open(self, seekable: bool = True) -> InputStream:
        """As the base's."""
        if not seekable or not (self.location.endswith(_METADATA) or len(self) <= _READ_WHOLE_BYTES):
            return super().open(seekable)
        with super().open(seekable=False) as stream:
            whole: InputStream = BufferReader(stream.read())
            return whole


class TableFileIO(SmallFileIO):
    """Files on every store. A location on Azure names its account, or else ``adls.account-name`` does.

    Raises:
        SettingsError: PyArrow cannot use the properties, when a file of that store is opened.
    """

    @staticmethod
    def parse_location(location: str, properties: Mapping[str, Any] = {}) -> tuple[str, str, str]:
        """Scheme, authority, and the path in PyArrow's form: ``container/folder/file`` for Azure.

        >>> TableFileIO.parse_location("abfss://lake@acme.dfs.core.windows.net/t/x")
        ('abfss', 'lake@acme.dfs.core.windows.net', 'lake/t/x')
        """
        scheme, netloc, path = PyArrowFileIO.parse_location(location, dict(properties))
        if scheme in AZURE and "@" in netloc:
            path = f"{netloc.partition('@')[0]}{path[len(netloc) :]}"
        return scheme, netloc, path

    def new_input(self, location: str) -> PyArrowFile:
        """A file to read."""
        made = super().new_input(location)
        if made._filesystem.type_name != "gcs":
            return made
        return _GoogleFile(made.location, made._path, made._filesystem, made._buffer_size)

    def _initialize_fs(self, scheme: str, netloc: str | None = None) -> FileSystem:
        if scheme in AZURE:
            return PyArrowFileIO(azure_properties(self.properties, netloc or ""))._initialize_azure_fs()
        return super()._initialize_fs(scheme, netloc)

    def _initialize_gcs_fs(self) -> FileSystem:
        ends = str(self.properties.get(GCS_TOKEN_EXPIRES_AT_MS, ""))
        if not ends.isdecimal() and (ends or GCS_TOKEN in self.properties):
            raise SettingsError(
                f"[catalog] {GCS_TOKEN} needs {GCS_TOKEN_EXPIRES_AT_MS} beside it, in milliseconds since 1970"
            )
        made = super()._initialize_gcs_fs()
        make, (options,) = made.__reduce__()[:2]  # PyArrow's own way to recreate it
        again: dict[str, Any] = {**options, "retry_time_limit": _GCS_TRIES}
        return make(again)


def azure_properties(properties: Mapping[str, Any], netloc: str) -> dict[str, Any]:
    """``adls.*`` for the account in a location, ``container@account.host``, or the configured one.

    Catalogs lend ``adls.sas-token.<account>``, with or without the host after it; Iceberg's Java reads both.

    >>> lent = {"adls.sas-token.acme.dfs.core.windows.net": "sig=1"}
    >>> azure_properties(lent, "lake@acme.dfs.core.windows.net")
    {'adls.account-name': 'acme', 'adls.sas-token': '?sig=1'}
    """
    found = {name: value for name, value in properties.items() if not name.startswith(f"{ADLS_SAS_TOKEN}.")}
    account, domain = _account(netloc)
    if account:
        found[ADLS_ACCOUNT_NAME] = account
        if domain != _DOMAIN:  # one of Azure's other clouds
            found.setdefault(ADLS_BLOB_STORAGE_AUTHORITY, f".blob.{domain}")
            found.setdefault(ADLS_DFS_STORAGE_AUTHORITY, f".dfs.{domain}")
    account = found.get(ADLS_ACCOUNT_NAME, "")
    if not account:
        raise SettingsError(
            "[catalog] adls.account-name is not set, and the location names no account: "
            "abfss://container@account.dfs.core.windows.net/folder"
        )
    for name, value in properties.items():
        lent = name.removeprefix(f"{ADLS_SAS_TOKEN}.")
        if lent != name and lent.partition(".")[0] == account:
            found[ADLS_SAS_TOKEN] = value
    if not found.get(ADLS_ACCOUNT_KEY) and not found.get(ADLS_SAS_TOKEN):
        # All other ways request a token from Azure's login service, and PyArrow's client aborts the whole
        # process if that does not respond while a file is read.
        raise SettingsError("[catalog] adls.account-key or adls.sas-token is needed for Azure's storage")
    if "@" in netloc:
        _check_key(account, domain, properties)
    found = {name: value for name, value in found.items() if name not in _LOGINS}
    if token := found.get(ADLS_SAS_TOKEN):
        found[ADLS_SAS_TOKEN] = f"?{token.lstrip('?')}"  # PyArrow appends it to the address unchanged
    return {name: value for name, value in found.items() if name.startswith("adls.")}


def _check_key(account: str, domain: str, properties: Mapping[str, Any]) -> None:
    """Check that the keys are for this account: whoever makes a table chooses its location.

    They are for ``adls.account-name``, the warehouse's account, and that in the name of a lent signature.
    """
    is_set = ADLS_DFS_STORAGE_AUTHORITY in properties or ADLS_BLOB_STORAGE_AUTHORITY in properties
    names = [name.removeprefix(f"{ADLS_SAS_TOKEN}.") for name in properties]
    known = [
        (properties.get(ADLS_ACCOUNT_NAME), _DOMAIN),
        _account(urlsplit(properties.get("warehouse", "")).netloc),
        *(_account(f"@{name}") for name, whole in zip(names, properties, strict=True) if name != whole),
    ]
    if not any(account == one and (is_set or domain == its_domain) for one, its_domain in known):
        raise SettingsError(
            f"[catalog] has no key for the account {account} in {domain}, where the table is: set "
            f"adls.account-name, or adls.sas-token.{account}.dfs.{domain}"
        )


def _account(netloc: str) -> tuple[str, str]:
    """Account and domain in ``container@account.dfs.domain``; an empty account without an ``@``."""
    host = (urlsplit(f"//{netloc}").hostname or "") if "@" in netloc else ""
    account, _, authority = host.partition(".")
    kind, _, domain = authority.partition(".")
    return account, domain if kind in ("dfs", "blob") else _DOMAIN
