"""Production servers are unavailable for most of a minute while a host commits: nothing is lost (I9)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tabletopic_kernel.local.stack import StackInfo
from tabletopic_kernel.model.progress.events import Committed, Failed
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.workbench import Workbench
from tests.recovery.checks import check_exact, wait_for_commits, wait_until_lag_is_0
from tests.recovery.hosts import HostProcess, Hosts
from tests.recovery.stream import Stream
from tests.recovery.waiting import wait_until
from tests.servers.aws import Aws
from tests.servers.gate import Gate
from tests.servers.http_proxy import GlueLock, HttpProxy
from tests.servers.postgres import Postgres
from tests.servers.stores import ACCOUNT, Azure, Gcs

pytestmark = [pytest.mark.integration, pytest.mark.servers]
AWAY_S = 45.0  # longer than any client tries by itself
BACK_S = 60.0  # 20 s on a machine that never stalls


@dataclass
class Lake:
    """A catalog and its unavailable part; ``reason``: what status reports about that."""

    name: str
    properties: dict[str, str]
    gate: Gate
    reason: str


class LakeBench(Workbench):
    """Whose tables are those of one of the further catalogs."""

    own: str

    @property
    def catalog(self):  # type: ignore[no-untyped-def]  # as its base
        """That one."""
        return self.catalog_of(self.own)


def _other_stores(folder: Path, servers: ExitStack) -> Iterator[Lake]:
    """Google's and Azure's storage, each behind a gate."""
    for name, store, place in (
        ("google", Gcs(folder / "google"), "gs://{}/w"),
        ("azure", Azure(folder / "azure"), f"abfss://{{}}@{ACCOUNT}.dfs.core.windows.net/w"),
    ):
        gate = servers.enter_context(Gate(store.port))
        store.public_port = gate.port
        servers.enter_context(store)
        warehouse = place.format(store.bucket("lake"))
        properties = {"type": "sql", "uri": f"sqlite:///{folder}/{name}.db", **store.properties()}
        yield Lake(name, {**properties, "warehouse": warehouse}, gate, "the storage")


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Lake]]:
    """Glue, PostgreSQL and the storages, each behind a gate; everything else stays available."""
    folder = tmp_path_factory.mktemp("lakes")
    with ExitStack() as servers:
        aws, postgres = servers.enter_context(Aws(folder / "aws")), servers.enter_context(Postgres())
        glue = servers.enter_context(HttpProxy(aws.url, GlueLock(aws)))
        gates = [servers.enter_context(Gate(port)) for port in (glue.port, aws.port, postgres.port)]
        urls = [f"http://127.0.0.1:{gate.port}" for gate in gates]
        for bucket in ("glue", "store", "postgres"):
            aws.bucket(bucket)
        of_store = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", **aws.properties(urls[1])}
        of_postgres = {"type": "sql", "uri": postgres.uri(postgres.create_database("lake"), gates[2].port)}
        yield [
            Lake("glue", {**aws.glue(urls[0]), **aws.properties()}, gates[0], urls[0]),
            Lake("store", of_store, gates[1], "the storage"),
            Lake("postgres", {**of_postgres, **aws.properties()}, gates[2], str(gates[2].port)),
            *_other_stores(folder, servers),
        ]


@pytest.fixture(scope="module")
def settings(stack: StackInfo, lakes: list[Lake]) -> Settings:
    """With all of them."""
    sections = {lake.name: {"warehouse": f"s3://{lake.name}/w", **lake.properties} for lake in lakes}
    return Settings(state_dir=str(stack.state_dir), catalogs=sections)


@pytest.fixture(scope="module")
def host(settings: Settings, hosts: Hosts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostProcess]:
    """The only host."""
    config = tmp_path_factory.mktemp("host") / "tabletopic.toml"
    lines = []
    for name, section in settings.catalogs.items():
        lines += [f"[catalogs.{name}]", *(f'"{key}" = {json.dumps(text)}' for key, text in section.items())]
    config.write_text("\n".join(lines) + "\n")
    hosts.exactly(0)
    started = hosts.start(TABLETOPIC_CONFIG=str(config))
    hosts.exactly(1)
    yield started
    code, _ = started.stop()
    assert code == 0, started.last_words()


def test_catalogs_and_storages_are_away(
    settings: Settings, lakes: list[Lake], host: HostProcess, new_stream: Callable[..., Stream]
) -> None:
    """All at once, each with a topic of its own: status names it, and commits go on soon after its return."""
    streams = {one.name: new_stream(2) for one in lakes}
    benches = {one.name: LakeBench(settings) for one in lakes}
    for name, bench in benches.items():
        bench.own = name
        streams[name].begin(per_second=50)
        bench.enable(streams[name].topic, {"commit_interval_ms": "1s", "catalog": name})
    for name, bench in benches.items():
        wait_for_commits(bench, streams[name].topic, 2)
    any_bench = benches["glue"]

    for lake in lakes:
        lake.gate.close()
    away_until = time.monotonic() + AWAY_S
    for lake in lakes:

        def is_told(lake: Lake = lake) -> bool:
            (status,) = any_bench.status(streams[lake.name].topic)
            # Settling: the commit that was under way has no answer.
            return status.state in ("waiting", "settling") and lake.reason in (status.error or "")

        wait_until(f"status names {lake.name}", is_told)
    time.sleep(max(0.0, away_until - time.monotonic()))
    back_ms = time.time_ns() // 1_000_000
    for lake in lakes:
        lake.gate.open()

    for name in benches:
        # Another: this process's connections have ended too, and the first question notices.
        stream, bench = streams[name], LakeBench(settings)
        bench.own = name

        def committed(stream: Stream = stream) -> list[int]:
            events = any_bench.events(stream.topic, back_ms)
            return [event.at_ms for event in events if isinstance(event, Committed)]

        first = wait_until(f"a commit of {name}", committed)[0]
        assert first - back_ms <= BACK_S * 1000, name
        stream.end()
        wait_until_lag_is_0(bench, stream.topic)
        check_exact(bench, stream)
        trouble = [event for event in any_bench.events(stream.topic) if isinstance(event, Failed)]
        assert trouble
        assert all(event.waits for event in trouble), trouble
    assert host.is_alive
