"""Mistakes in settings for Google's or Azure's storage: `doctor` reports them in time, `enable` refuses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tabletopic_kernel.clients.storage import probe
from tabletopic_kernel.clients.storage.probe import try_table
from tabletopic_kernel.local import machine
from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.workbench.doctor.run import check_server
from tests.servers.answering_store import AnsweringStore
from tests.servers.stores import ACCOUNT, Azure, Gcs

pytestmark = [pytest.mark.integration, pytest.mark.servers]
SLOW_S = 60.0  # 10 s are promised
GOOGLE, AZURE = "gs://lake/w", f"abfss://lake@{ACCOUNT}.dfs.core.windows.net/w"
_AUTHORITIES = ("adls.blob-storage-authority", "adls.dfs-storage-authority")


@dataclass(frozen=True)
class Mistake:
    """A changed or (None) missing setting, and the message it causes.

    ``nowhere``: properties with an address where nobody listens; ``refuses``: the store's response.
    """

    name: str
    warehouse: str
    said: str
    properties: dict[str, str | None] = field(default_factory=dict)
    nowhere: tuple[str, ...] = ()
    refuses: tuple[int, bytes] | None = None


_NO_GRANT = b'{"error": {"code": 403, "message": "no", "status": "PERMISSION_DENIED"}}'
_NO_LOGIN = b'{"error": {"code": 401, "message": "no", "status": "UNAUTHENTICATED"}}'
MISTAKES = (
    Mistake("bucket", "gs://none/w", "no such bucket"),
    Mistake("token without its end", GOOGLE, "token-expires-at", {"gcs.oauth2.token-expires-at": None}),
    Mistake("token", GOOGLE, "gcs.oauth2.token", refuses=(401, _NO_LOGIN)),
    Mistake("role", GOOGLE, "Storage Object User", refuses=(403, _NO_GRANT)),
    Mistake("address", GOOGLE, "the storage", nowhere=("gcs.service.host",)),
    Mistake("container", AZURE.replace("lake@", "none@"), "no such bucket"),
    Mistake("account", "abfss://lake/w", "adls.account-name"),
    Mistake("other key", AZURE, "adls.account-key", {"adls.account-key": "b3RoZXI="}),
    Mistake("no key", AZURE, "adls.account-key", {"adls.account-key": None}),
    Mistake("key that is none", AZURE, "adls.account-key", {"adls.account-key": "no base64!"}),
    Mistake("signature", AZURE, "adls.sas-token", {"adls.account-key": None, "adls.sas-token": "sig=x"}),
    Mistake("Azure's address", AZURE, "the storage", nowhere=_AUTHORITIES),
)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, str]]]:
    """Properties of a bucket on each, by the scheme."""
    folder = tmp_path_factory.mktemp("stores")
    with ExitStack() as servers:
        found = {}
        for scheme, store in (("gs", Gcs(folder / "gcs")), ("abfss", Azure(folder / "azure"))):
            servers.enter_context(store).bucket("lake")
            found[scheme] = store.properties()
        yield found


@pytest.mark.parametrize("warehouse", [GOOGLE, AZURE])
def test_what_is_right_is_ok(stores: dict[str, dict[str, str]], warehouse: str, tmp_path: Path) -> None:
    """A file was written, read and deleted there."""
    place = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": warehouse}
    properties = {"type": "sql", **place, **stores[warehouse.partition(":")[0]]}
    assert [check.status for check in check_server("catalog", properties)] == ["ok", "ok"]
    try_table(properties, ("web", "clicks"), {})


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: one.name)
def test_a_mistake_is_told_in_time(
    stores: dict[str, dict[str, str]], mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By one line with what to do."""
    if not mistake.nowhere:  # the store's own words come, however slow the machine
        monkeypatch.setattr(probe, "LIMIT_S", SLOW_S)
    place = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": mistake.warehouse}
    properties = {"type": "sql", **place, **stores[mistake.warehouse.partition(":")[0]]}
    for name, value in mistake.properties.items():
        properties.pop(name, None)
        properties |= {name: value} if value is not None else {}
    for name in mistake.nowhere:
        scheme = "http://" if "://" in properties[name] else ""
        properties[name] = f"{scheme}127.0.0.1:{machine.free_port(set())}"
    with ExitStack() as servers:
        if mistake.refuses:
            store = servers.enter_context(AnsweringStore())
            store.status, store.body = mistake.refuses
            store.headers = {"content-type": "application/json"}
            properties["gcs.service.host"] = f"http://{store.address}"
        began = time.monotonic()
        check = [*check_server("catalog", properties)][-1]
        assert time.monotonic() - began <= SLOW_S
        assert check.status == "fail", check
        told = f"{check.detail} {check.remedy}"
        assert mistake.said in told, told
        assert "\n" not in check.detail
        with pytest.raises(TableTopicError, match=mistake.said):
            try_table(properties, ("web", "clicks"), {})
