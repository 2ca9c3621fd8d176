"""The catalogs in the settings, and which one a topic uses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tabletopic_kernel.clients.kafka.broker import TopicEnds
from tabletopic_kernel.host.services import Services
from tabletopic_kernel.model.commit_cycle import State
from tabletopic_kernel.model.errors import RetryableError, SettingsError, Trouble, UsageError
from tabletopic_kernel.model.progress.events import Progress
from tabletopic_kernel.model.progress.progress_view import NO_HOST, HostReport
from tabletopic_kernel.model.settings.desired import DesiredTopic
from tabletopic_kernel.model.settings.options import altered
from tabletopic_kernel.model.settings.sections import Settings, TopicSettings
from tabletopic_kernel.workbench.config import LoadedSettings, Row, describe
from tabletopic_kernel.workbench.doctor.run import run_checks
from tabletopic_kernel.workbench.status import Looks, statuses
from tabletopic_kernel.workbench.workbench import Workbench

LoadedBy = Callable[..., LoadedSettings]


def sqlite(folder: Path, name: str) -> dict[str, str]:
    """A catalog in a file."""
    return {"type": "sql", "uri": f"sqlite:///{folder}/{name}.db", "warehouse": f"file://{folder}/{name}"}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Two catalogs beside the default one: ``prod``, and ``lab``, whose folder is missing."""
    return Settings(
        state_dir=str(tmp_path),
        kafka={"bootstrap.servers": "127.0.0.1:1"},
        registry={"url": "http://127.0.0.1:1"},
        catalog={**sqlite(tmp_path, "default"), "name": "main"},
        catalogs={"prod": sqlite(tmp_path, "prod"), "lab": sqlite(tmp_path / "missing", "lab")},
    )


@pytest.fixture
def workbench(settings: Settings) -> Workbench:
    """On these; its broker is never asked."""
    return Workbench(settings)


def test_sections_and_variables_become_catalogs(load: LoadedBy) -> None:
    """As [catalog], with their own name; secrets are hidden where they are shown."""
    toml = """\
[catalogs.prod]
type = "rest"
uri = "http://me:geheim@h"
s3.region = "eu"
[catalogs.lab]
type = "glue"
[catalog]
uri = "sqlite://"
[kafka]
bootstrap.servers = "h"
[registry]
url = "http://r"
"""
    variable = {"TABLETOPIC_CATALOGS__PROD__S3__SECRET_ACCESS_KEY": "geheim"}
    loaded = load(toml, environ=variable)
    prod = {"type": "rest", "uri": "http://me:geheim@h", "s3.region": "eu", "s3.secret-access-key": "geheim"}
    assert loaded.settings.catalogs == {"prod": prod, "lab": {"type": "glue"}}
    assert loaded.origins["catalogs.prod.s3.region"] == "tabletopic.toml:4"
    servers = Workbench(loaded.settings).servers
    assert servers.catalog_of("prod") == {**prod, "name": "prod"}
    assert [catalog["name"] for catalog in servers.all_catalogs] == ["lake", "prod", "lab"]
    assert "geheim" not in f"{servers!r} {loaded.settings!r} {describe(loaded)}"
    assert Row("catalogs.prod.s3.region", "eu", "tabletopic.toml:4") in describe(loaded)


def test_a_name_is_one_catalogs(settings: Settings, workbench: Workbench) -> None:
    """[catalog] has one too; the default by its name is no other; one that is nowhere is refused."""
    with pytest.raises(SettingsError, match=r"^\[catalogs.prod\]: \[catalog\] has this name in SQL"):
        Workbench(settings.model_copy(update={"catalog": {**settings.catalog, "name": "Prod"}}))
    assert workbench.settings_for("clicks", {"catalog": "main"}) == TopicSettings()
    assert workbench.settings_for("clicks", {"catalog": "prod"}).catalog == "prod"
    with pytest.raises(SettingsError, match=r"\[catalogs.nope\]"):
        workbench.settings_for("clicks", {"catalog": "nope"})
    with pytest.raises(UsageError, match="enable clicks --catalog prod` and the new"):
        altered("clicks", TopicSettings(), {"catalog": "prod"})


def test_each_is_opened_for_who_names_it(workbench: Workbench) -> None:
    """One object for each thread and catalog; a name that the settings lack says what to do."""
    assert workbench.catalog_of("prod").name == "prod"
    assert workbench.catalog_of("prod") is workbench.catalog_of("prod")
    assert workbench.catalog.name == "main"
    for ask in (workbench.open_catalog, workbench.catalog_of):
        with pytest.raises(SettingsError, match=r"^\[catalogs.nope\] is not .* here, only prod, lab. Add it"):
            ask("nope")


def test_a_topic_works_with_its_catalog_alone() -> None:
    """Its coordinator's services open that one; a host that has none says so."""
    opened: list[str | None] = []
    services: Any = Services(
        catalog=lambda: opened.append(None),  # type: ignore[arg-type,return-value]
        spark=lambda: opened.append("spark"),  # type: ignore[arg-type,return-value]
        broker=None,  # type: ignore[arg-type]
        registry=None,  # type: ignore[arg-type]
        control=None,  # type: ignore[arg-type]
        host="h",
        other_catalog=opened.append,  # type: ignore[arg-type]
        other_spark=lambda name: opened.append(f"spark of {name}"),  # type: ignore[arg-type,return-value]
    )
    for one in (services.of(None), services.of("prod")):
        one.catalog()
        one.spark()
    assert opened == [None, "spark", "prod", "spark of prod"]


class Broker:
    """Knows that two records are in each topic."""

    properties: ClassVar[dict[str, str]] = {}

    def ends(self, topics: Any) -> dict[str, TopicEnds]:
        """Of all."""
        return {topic: TopicEnds("now", {0: 2}) for topic in topics}

    def first_offsets(self, partitions: Any) -> dict[str, dict[int, int]]:
        """Of none: no topic has a ledger."""
        assert not partitions
        return {}


def desired(topic: str, catalog: str | None) -> DesiredTopic:
    """An enabled topic."""
    return DesiredTopic(topic=topic, settings=TopicSettings(catalog=catalog))


def test_an_outage_is_an_error_of_its_topics(workbench: Workbench) -> None:
    """The others are told as ever; a host that runs one is believed; where all are away, it is raised."""
    heard = HostReport(
        Progress(topic="c", table="lab.default.c", commit_interval_ms=1, state=State.WAITING), "h", 1
    )
    looks = Looks(reports=lambda _: {"c": heard}, oldest=lambda *_: {})
    topics = {"a": desired("a", None), "b": desired("b", "lab"), "c": desired("c", "lab")}
    ours, theirs, running = statuses(Broker(), topics, workbench.catalog_of, looks)  # type: ignore[arg-type]
    assert (ours.table, ours.lag_records, ours.state) == ("default.a", 2, NO_HOST)
    assert (theirs.table, theirs.lag_records, theirs.state) == ("lab.default.b", None, NO_HOST)
    assert "[catalogs.lab]" in (theirs.error or "")
    assert "[catalog]" not in (theirs.error or "")
    assert (running.state, running.host) == ("waiting", "h")
    del topics["a"]
    with pytest.raises(RetryableError, match=r"\[catalogs.lab\]"):
        statuses(Broker(), topics, workbench.catalog_of, looks)  # type: ignore[arg-type]


@pytest.mark.integration  # the broker, who is not there, is waited for
def test_doctor_tries_each(settings: Settings) -> None:
    """Catalog and storage, by name."""
    checks = {check.name: check for check in run_checks(LoadedSettings(settings, {}))}
    assert {name: checks[name].status for name in checks if name.startswith(("catalog", "storage"))} == {
        "catalog": "ok", "storage": "ok", "catalog prod": "ok", "storage prod": "ok", "catalog lab": "fail",
        "storage lab": "fail",
    }  # fmt: skip
    assert "[catalogs.lab]" in checks["catalog lab"].detail


def test_a_clusters_executors_must_reach_the_topics_catalog(settings: Settings) -> None:
    """Each is tried once a session; a folder that is not shared is refused."""
    tried: list[str] = []

    class Bench(Workbench):
        def plain_session(self, _: object) -> Any:
            return "session"

        def check_cluster(self, _session: object, catalog: dict[str, str], _warehouse: object) -> None:
            tried.append(catalog["name"])
            if tried == ["main", "prod"]:
                raise RetryableError(Trouble("is not shared", "name a {section} warehouse", "the storage"))

    shared = {"master": "spark://127.0.0.1:1", "shared_files": True, "shared_network": True}
    made = Bench(Settings.model_validate({**settings.model_dump(), "spark": shared}))
    made.host_spark()
    with pytest.raises(RetryableError, match=r"name a \[catalogs.prod\] warehouse"):
        made.host_spark(catalog="prod")
    for _ in range(2):
        made.host_spark(catalog="prod")
        made.host_spark()
    assert tried == ["main", "prod", "prod"]
    own = Workbench(Settings.model_validate({**settings.model_dump(), "spark": {"master": "yarn"}}))
    assert "prod" in own.servers.out_of_reach(own.settings.spark, "prod")[0]
