"""Files on Google's and Azure's storage, as far as possible without a server."""

from __future__ import annotations

import pickle

import pytest
from pyarrow.fs import AzureFileSystem, FileInfo, FileType, GcsFileSystem
from pyiceberg.io import load_file_io

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.clients.catalog.pyiceberg_seams.files import TableFileIO
from tabletopic_kernel.clients.storage.azure import azure_properties
from tabletopic_kernel.clients.storage.storage import _folders
from tabletopic_kernel.model.errors import SettingsError

HOST = "acme.dfs.core.windows.net"


@pytest.mark.parametrize(
    "location", ["abfss://lake@{}/t/x", "abfs://lake@{}/t/x", "wasbs://lake@{}/t/x", "abfss://lake/t/x"]
)
def test_the_container_is_what_stands_before_the_account(location: str) -> None:
    """However the account is told."""
    _, _, path = TableFileIO.parse_location(location.format(HOST))
    assert path == "lake/t/x"


def test_keys_go_to_the_configured_account_alone() -> None:
    """A location cannot lead them elsewhere; a lent signature is that of its account."""
    settings = {"adls.account-name": "ours", "adls.sas-token": "sig=SECRET"}
    assert azure_properties(settings, "lake")["adls.account-name"] == "ours"
    assert azure_properties(settings, "lake@ours.dfs.core.windows.net")["adls.account-name"] == "ours"
    china = "core.chinacloudapi.cn"
    warehouse = {"adls.account-key": "a2V5", "warehouse": f"abfss://lake@ours.dfs.{china}/w"}
    other = azure_properties(warehouse, f"lake@ours.blob.{china}")
    assert other["adls.blob-storage-authority"] == f".blob.{china}"
    assert other["adls.dfs-storage-authority"] == f".dfs.{china}"
    own_domain = settings | {"adls.dfs-storage-authority": "127.0.0.1:1"}
    assert (
        azure_properties(own_domain, f"lake@ours.dfs.{china}")["adls.dfs-storage-authority"] == "127.0.0.1:1"
    )
    for keys in (settings, warehouse, settings | {"adls.sas-token.acme.dfs.evil.example": "sig=1"}):
        for host in (f"x.dfs.{china}", "x.dfs.core.windows.net", "ours.dfs.evil.example", HOST):
            with pytest.raises(SettingsError, match="has no key for the account"):
                azure_properties(keys, f"lake@{host}")
    lent = {f"adls.sas-token.{HOST}": "sig=1", "adls.sas-token.other": "sig=2"}
    assert azure_properties(lent, f"lake@{HOST}")["adls.sas-token"] == "?sig=1"
    assert azure_properties(lent, "lake@other.dfs.core.windows.net")["adls.sas-token"] == "?sig=2"
    with pytest.raises(SettingsError, match=r"adls.sas-token is needed"):
        azure_properties(lent, "lake@third.dfs.core.windows.net")


@pytest.mark.parametrize(
    ("properties", "location", "message"),
    [
        ({}, "abfss://lake/x", "adls.account-name is not set"),
        ({}, f"abfss://lake@{HOST}/x", "adls.account-key or adls.sas-token is needed"),
        ({"adls.connection-string": "x"}, f"abfss://lake@{HOST}/x", "adls.account-key or adls.sas-token"),
        (
            {"adls.tenant-id": "t", "adls.client-id": "c", "adls.client-secret": "s"},
            f"abfss://lake@{HOST}/x",
            "adls.account-key or adls.sas-token is needed",
        ),
        ({"gcs.oauth2.token": "t"}, "gs://lake/x", "needs gcs.oauth2.token-expires-at"),
        (
            {"gcs.oauth2.token": "t", "gcs.oauth2.token-expires-at": "soon"},
            "gs://lake/x",
            "in epoch milliseconds",
        ),
    ],
)
def test_what_pyarrow_cannot_use_is_said(properties: dict[str, str], location: str, message: str) -> None:
    """PyIceberg would leave it out, or PyArrow would end the process where Azure's login does not respond."""
    with pytest.raises(SettingsError, match=message):
        TableFileIO(properties).new_input(location)


def test_executors_have_the_same_client() -> None:
    """By the properties of the catalog, pickled too; Google's gives up after a minute, not after fifteen."""
    token = {"gcs.oauth2.token": "t", "gcs.oauth2.token-expires-at": "4102444800000"}
    catalog = open_catalog(
        {
            "type": "sql", "uri": "sqlite:///:memory:", "warehouse": f"abfss://lake@{HOST}/w",
            "adls.account-key": "a2V5", **token,
        }
    )  # fmt: skip
    here = load_file_io(catalog.properties, f"abfss://lake@{HOST}/w")
    there = pickle.loads(pickle.dumps(here))
    for io in (here, there):
        assert isinstance(io, TableFileIO)
        assert isinstance(io.fs_by_scheme("abfss", f"lake@{HOST}"), AzureFileSystem)
        google = io.fs_by_scheme("gs", "lake")
        assert isinstance(google, GcsFileSystem)
        assert google.__reduce__()[1][0]["retry_time_limit"].total_seconds() == 8


def test_folders_of_a_store_that_lists_files_alone() -> None:
    """Each once, however many files lie in it; files right there are none, and what lies elsewhere stays."""
    paths = ("lake/t/u/epoch-1/a", "lake/t/u/epoch-1/x/b", "lake/t/u/epoch-2/a", "lake/t/u/file", "other/a")
    found = _folders([FileInfo(path, FileType.File) for path in paths], "lake/t/u/")
    assert [(one.path, one.type) for one in found] == [
        ("other/a", FileType.File),
        ("lake/t/u/epoch-1", FileType.Directory),
        ("lake/t/u/epoch-2", FileType.Directory),
    ]
