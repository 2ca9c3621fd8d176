"""A host's HTTP server, and its responses about liveness and readiness."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from urllib.parse import urlparse

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tabletopic_kernel.clients.kafka.broker import TopicEnds
from tabletopic_kernel.host.metrics.server import Address
from tabletopic_kernel.host.metrics.watch import SILENT_S, HostWatch
from tabletopic_kernel.model.errors import RetryableError, UsageError
from tabletopic_kernel.model.redact import learn
from tests.host.metrics.samples import COMPACTED, FakeHost, record


class Broker:
    """Names end offsets, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[set[str]] = []
        self.answered = threading.Event()
        self.error: Exception | None = None

    def ends(self, topics: set[str]) -> dict[str, TopicEnds]:
        """Seven records in each."""
        self.asked.append(topics)
        self.answered.set()
        if self.error is not None:
            raise self.error
        return {topic: TopicEnds("an id", {0: 7}) for topic in topics}


class Watched:
    """A watched host, at a port of its own."""

    def __init__(self) -> None:
        self.host = FakeHost([record(next_offsets={0: 2})])
        self.broker = Broker()
        self.away: set[str | None] = set()  # catalogs
        self.watch = HostWatch(
            self.host, self.broker, lambda: None, self._ask_catalog,  # type: ignore[arg-type]
            {None: "lake", "prod": "prod"}, Address("127.0.0.1", 0),
        )  # fmt: skip

    def ask(self) -> None:
        """Ask every server once, in this thread."""
        for question in self.watch._servers().values():
            question.once()

    def _ask_catalog(self, catalog: str | None, namespace: str) -> None:
        assert namespace
        if catalog in self.away:
            raise RetryableError(f"{catalog} is away")

    def get(self, path: str, method: str = "GET") -> tuple[int, str, str]:
        """Status, type and text of an answer."""
        connection = http.client.HTTPConnection(urlparse(self.watch.url).netloc, timeout=120)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
        finally:
            connection.close()


@pytest.fixture
def watched() -> Iterator[Watched]:
    """A healthy one; the test runs its checks."""
    made = Watched()
    made.host.listen(made.watch.metrics.hear)
    made.watch._server.start()
    yield made
    made.watch.stop()


def test_metrics_and_other_pages(watched: Watched) -> None:
    """All topics are one question to the broker, and a scrape is none; nothing else is there."""
    assert watched.host.hear is not None
    watched.host.hear(COMPACTED)
    watched.ask()
    for _ in range(3):
        status, kind, text = watched.get("/metrics")
    assert status == 200
    assert kind == "text/plain; version=0.0.4; charset=utf-8"
    assert 'tabletopic_commit_lag_records{topic="clicks"} 5.0' in text
    assert list(text_string_to_metric_families(text))
    assert watched.broker.asked == [{"clicks", "__tabletopic.settings"}]
    assert watched.get("/")[0] == 404
    assert watched.get("/metrics/x")[0] == 404
    assert watched.get("/metrics", "POST")[0] == 405


def test_health(watched: Watched) -> None:
    """It lives as long as its loop polls, whatever the servers do."""
    watched.broker.error = RetryableError("away")
    watched.ask()
    assert watched.get("/healthz")[::2] == (200, "ok\n")
    watched.host.silence_s = SILENT_S + 1
    assert watched.get("/healthz")[::2] == (503, "the host's loop has not polled for 151 s\n")
    watched.host.silence_s, watched.host.has_ended = 0, True
    assert watched.get("/healthz")[::2] == (503, "the host has ended\n")


def test_readiness(watched: Watched) -> None:
    """It is ready in the group, with servers that answer; else each reason is a line, without secrets."""
    assert watched.get("/readyz")[0] == 503  # nobody has asked yet
    watched.ask()
    assert watched.get("/readyz")[::2] == (200, "ok\n")
    learn({"sasl.password": "hunter2secret"})
    watched.broker.error = RetryableError("the broker is away: hunter2secret")
    watched.host.is_in_group = False
    watched.ask()
    status, _, text = watched.get("/readyz")
    assert (status, text) == (
        503, "the host has not joined the group of hosts yet\nthe broker is away: ***\n"
    )  # fmt: skip
    watched.broker.error, watched.host.is_leaving = None, True
    watched.ask()
    assert watched.get("/readyz")[2] == "the host commits what is staged and leaves\n"


def test_each_catalog_has_a_value_of_its_own(watched: Watched) -> None:
    """Those that topics of the host have: one that is away lowers no other's, one without topics has none."""

    def ups() -> dict[str, float]:
        lines = watched.get("/metrics")[2].splitlines()
        found = [line for line in lines if line.startswith('tabletopic_server_up{catalog="')]
        return {one.split('"')[1]: float(one.split()[-1]) for one in found if 'server="catalog"' in one}

    watched.ask()
    assert ups() == {"lake": 1}  # without topics
    watched.host.works_in = {"prod": "sales", None: "default"}
    watched.away = {"prod"}
    watched.ask()
    assert ups() == {"lake": 1, "prod": 0}
    assert watched.get("/readyz")[2] == "prod is away\n"
    watched.host.works_in, watched.away = {"prod": "sales"}, {None}
    watched.ask()
    assert ups() == {"prod": 1}
    watched.host.works_in = {"gone": "sales"}  # the settings do not have it
    assert ups() == {"gone": 0}
    assert watched.get("/readyz")[2] == "the catalog gone has not responded yet\n"


def test_a_port_that_is_taken(watched: Watched) -> None:
    """Is said with the options to change, and so is a name that no address has."""
    port = urlparse(watched.watch.url).port
    assert port
    for host in ("127.0.0.1", "a..b"):
        with pytest.raises(UsageError, match=rf"no metrics at {host}:{port}: .*--metrics-port"):
            HostWatch(FakeHost(), Broker(), str, lambda *_: None, {}, Address(host, port))  # type: ignore[arg-type]
