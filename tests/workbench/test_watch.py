"""A host's watch queries the servers in the settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog

from tabletopic_kernel.clients.catalog import catalog as catalog_client
from tabletopic_kernel.host.metrics.server import Address
from tabletopic_kernel.host.metrics.watch import HostWatch
from tabletopic_kernel.model.errors import RetryableError, Trouble
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.workbench import Workbench
from tests.host.metrics.samples import FakeHost, record


class AskedCatalog:
    """Keeps which namespaces it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.error: Exception | None = None

    def namespace_exists(self, namespace: str) -> bool:
        """It need not be there."""
        self.asked.append(namespace)
        if self.error is not None:
            raise self.error
        return False


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> AskedCatalog:
    """The catalog of the settings."""
    made = AskedCatalog()

    def opened(_: Any) -> Catalog:
        return made  # type: ignore[return-value]

    monkeypatch.setattr(catalog_client, "open_catalog", opened)
    return made


@pytest.fixture
def watch(asked: AskedCatalog, tmp_path: Path) -> Iterator[HostWatch]:
    """Of a host with one topic; its questions are asked by the test."""
    settings = Settings(
        state_dir=str(tmp_path),
        kafka={"bootstrap.servers": "127.0.0.1:1"},
        registry={"url": "http://127.0.0.1:1", "timeout": "1"},
        catalog={"uri": "sqlite://"},
        catalogs={"prod": {"uri": "sqlite://"}},
    )
    host: Any = FakeHost([record("clicks")], works_in={None: "shop.web"})
    made = Workbench(settings).watch(host, Address("127.0.0.1", 0))
    yield made
    made.stop()


def test_the_catalog_is_asked_for_what_the_host_may_see(watch: HostWatch, asked: AskedCatalog) -> None:
    """The namespace of one of its topics, or that of the settings; no answer is trouble, with a reason."""
    question = watch._servers()["catalog", "lake"]
    question.once()
    watch._host.works_in.clear()  # type: ignore[attr-defined]
    question.once()
    assert asked.asked == ["shop.web", "default"]
    assert question.trouble is None
    asked.error = RetryableError("the catalog is locked")
    question.once()
    assert question.trouble == "the catalog is locked"


def test_a_registry_that_is_away(watch: HostWatch) -> None:
    """It is named by its address."""
    question = watch._servers()["registry", ""]
    question.once()
    assert "http://127.0.0.1:1" in str(question.trouble)


def test_each_catalog_that_topics_have_is_asked(watch: HostWatch, asked: AskedCatalog) -> None:
    """One that the settings lack, or that does not respond, is named by its section."""
    works_in = watch._host.works_in  # type: ignore[attr-defined]
    works_in["prod"] = "sales"
    for (kind, _), question in watch._servers().items():
        if kind == "catalog":
            question.once()
    assert asked.asked == ["shop.web", "sales"]
    asked.error = RetryableError(Trouble("is down", "is {section} right?", "the catalog"))
    question = watch._servers()["catalog", "prod"]
    question.once()
    assert question.trouble == "the catalog is down; is [catalogs.prod] right?"
    asked.error, works_in["lab"] = None, "x"
    question = watch._servers()["catalog", "lab"]
    question.once()
    assert "[catalogs.lab] is not in the settings here, only prod" in (question.trouble or "")
