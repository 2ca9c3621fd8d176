"""The properties with which PyArrow opens Azure's storage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from pyiceberg import io

from tabletopic_kernel.model.errors import SettingsError, Trouble

_LOGINS: Final = (io.ADLS_CLIENT_ID, io.ADLS_CLIENT_SECRET, io.ADLS_TENANT_ID)
AZURE: Final = ("abfs", "abfss", "wasb", "wasbs")
_DOMAIN: Final = "core.windows.net"


def azure_properties(properties: Mapping[str, Any], netloc: str) -> dict[str, Any]:
    """``adls.*`` for the account in a location, ``container@account.host``, or the configured one.

    Catalogs lend ``adls.sas-token.<account>``, with or without the host after it; Iceberg's Java reads both.

    >>> lent = {"adls.sas-token.acme.dfs.core.windows.net": "sig=1"}
    >>> azure_properties(lent, "lake@acme.dfs.core.windows.net")
    {'adls.account-name': 'acme', 'adls.sas-token': '?sig=1'}
    """
    lent = f"{io.ADLS_SAS_TOKEN}."
    options = {name: value for name, value in properties.items() if not name.startswith(lent)}
    account, domain = _account(netloc)
    if account:
        options[io.ADLS_ACCOUNT_NAME] = account
        if domain != _DOMAIN:  # one of Azure's other clouds
            options.setdefault(io.ADLS_BLOB_STORAGE_AUTHORITY, f".blob.{domain}")
            options.setdefault(io.ADLS_DFS_STORAGE_AUTHORITY, f".dfs.{domain}")
    account = options.get(io.ADLS_ACCOUNT_NAME, "")
    if not account:
        raise SettingsError(
            Trouble(
                "adls.account-name is not set, and the location names no account: "
                "abfss://container@account.dfs.core.windows.net/folder"
            )
        )
    for name, value in properties.items():
        if name.startswith(lent) and name.removeprefix(lent).partition(".")[0] == account:
            options[io.ADLS_SAS_TOKEN] = value
    if not options.get(io.ADLS_ACCOUNT_KEY) and not options.get(io.ADLS_SAS_TOKEN):
        # All other ways request a token from Azure's login service, and PyArrow's client aborts the whole
        # process if that does not respond while a file is read.
        raise SettingsError(Trouble("adls.account-key or adls.sas-token is needed for Azure's storage"))
    if "@" in netloc:
        _check_key(account, domain, properties)
    options = {name: value for name, value in options.items() if name not in _LOGINS}
    if token := options.get(io.ADLS_SAS_TOKEN):
        options[io.ADLS_SAS_TOKEN] = f"?{token.lstrip('?')}"  # PyArrow appends it to the address unchanged
    return {name: value for name, value in options.items() if name.startswith("adls.")}


def _check_key(account: str, domain: str, properties: Mapping[str, Any]) -> None:
    """Check that a key is for the account, which a table's creator chooses."""
    is_set = io.ADLS_DFS_STORAGE_AUTHORITY in properties or io.ADLS_BLOB_STORAGE_AUTHORITY in properties
    prefix = f"{io.ADLS_SAS_TOKEN}."
    lent = [name.removeprefix(prefix) for name in properties if name.startswith(prefix)]
    accounts = [
        (properties.get(io.ADLS_ACCOUNT_NAME), _DOMAIN),
        _account(urlsplit(properties.get("warehouse", "")).netloc),
        *(_account(f"@{host}") for host in lent),
    ]
    if not any(account == its_name and (is_set or domain == its_domain) for its_name, its_domain in accounts):
        raise SettingsError(
            Trouble(
                f"has no key for the account {account} in {domain}, where the table is: set "
                f"adls.account-name, or adls.sas-token.{account}.dfs.{domain}"
            )
        )


def _account(netloc: str) -> tuple[str, str]:
    """Account and domain in ``container@account.dfs.domain``; an empty account without an ``@``."""
    host = (urlsplit(f"//{netloc}").hostname or "") if "@" in netloc else ""
    account, _, authority = host.partition(".")
    kind, _, domain = authority.partition(".")
    return account, domain if kind in ("dfs", "blob") else _DOMAIN
