"""Trouble of catalogs and storage is waited out, whatever library tells of it, or a person told."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.exceptions import CommitFailedException, ForbiddenError, NotInstalledError, ServerError
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from tabletopic_kernel.clients import catalog as module
from tabletopic_kernel.clients.catalog import open_catalog, reachable
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError, SettingsError


def _of(module: str, base: type[Exception] = Exception, **more: object) -> Exception:
    """An error of a library that need not be installed here."""
    kind = type("LibraryError", (base,), {"__module__": module})
    error = kind("no way there\n[SQL: SELECT 1]")
    error.__dict__.update(more)
    return error


def _aws(code: str) -> Exception:
    return _of("botocore.exceptions", response={"Error": {"Code": code}})


@pytest.mark.parametrize(
    "error",
    [
        OperationalError("SELECT 1", {}, Exception("no way there")),
        InterfaceError("SELECT 1", {}, Exception("no way there")),
        PoolTimeoutError("no way there"),
        ServerError("no way there"),
        OSError("no way there"),
        _of("thrift.transport.TTransport"),
        _of("hive_metastore.ttypes"),
        _of("botocore.exceptions"),
        _aws("ThrottlingException"),
        _of("aiohttp.client_exceptions"),
    ],
    ids=lambda error: f"{type(error).__module__}.{type(error).__name__}",
)
@pytest.mark.parametrize("what", ["the catalog", "the storage"])
def test_trouble_outside_is_waited_out(what: str, error: Exception) -> None:
    """It stops no topic (I9), and the reason is one line that says what to look at."""
    said = rf"{what} does not answer .*no way there.*asked again: is it"
    with pytest.raises(RetryableError, match=said) as told, reachable(what):
        raise error
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("error", [ForbiddenError("no"), _aws("AccessDeniedException"), _aws("ExpiredToken")])
def test_a_person_must_give_access(error: Exception) -> None:
    """Waiting would not help."""
    said = r"does not allow it.*credentials, then resume"
    with pytest.raises(ActionNeededError, match=said), reachable("the catalog"):
        raise error


@pytest.mark.parametrize("error", [CommitFailedException("first"), KeyError("x"), ValueError("x")])
def test_outcomes_and_faults_of_this_program_stay_what_they_are(error: Exception) -> None:
    """They are no trouble of a server."""
    with pytest.raises(type(error)), reachable("the catalog"):
        raise error


@pytest.mark.parametrize("uri", ["nonsense", "nosuch://host/db", "nosuch+driver://host/db"])
def test_an_address_that_cannot_be_is_a_wrong_setting(tmp_path: Path, uri: str) -> None:
    """It says where it stands, and is not tried again."""
    with pytest.raises(SettingsError, match=r"\[catalog\]"):
        open_catalog({"type": "sql", "uri": uri, "warehouse": str(tmp_path)})


def test_what_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to install; a host does not take it for a fault of its own."""

    def load(*_: object, **__: object) -> None:
        raise NotInstalledError("SQLAlchemy support not installed: pip install 'pyiceberg[sql-postgres]'")

    monkeypatch.setattr(module, "load_catalog", load)
    with pytest.raises(SettingsError, match=r"\[catalog\] .*pip install"):
        open_catalog({"type": "sql", "uri": "postgresql+psycopg2://h/db", "warehouse": str(tmp_path)})
