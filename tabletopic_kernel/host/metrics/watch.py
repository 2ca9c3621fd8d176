"""Monitoring of one host: its metrics, the checks of its servers, and the HTTP server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest

from tabletopic_kernel.host.metrics.collector import HostMetrics
from tabletopic_kernel.host.metrics.lags import Lags
from tabletopic_kernel.host.metrics.questions import CatalogQuestions, Question
from tabletopic_kernel.host.metrics.server import Address, MetricsServer, Pages
from tabletopic_kernel.local.machine import now_ms
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.topic_names import SETTINGS_TOPIC

if TYPE_CHECKING:
    from tabletopic_kernel.clients.kafka.broker import Broker
    from tabletopic_kernel.host.host import Host

_LAG_EVERY_S = 3.0
_SERVERS_EVERY_S = 20.0
# Closing topics takes a host's loop up to 90 s; a loop that is silent much longer hangs.
SILENT_S = 150.0


class HostWatch:
    """Exposes one host to monitoring, from ``start``, which comes before the host's, to ``stop``.

    Args:
        host: the host.
        broker: reports the end offsets for the lag, of all topics in one request.
        registry: a question that raises what is wrong.
        catalog: the same, for a namespace in the catalog that topics' settings name; None: the default one.
        catalogs: SQL names of the settings' catalogs, including the default one.
        address: where to listen.
    """

    def __init__(
        self,
        host: Host,
        broker: Broker,
        registry: Callable[[], object],
        catalog: Callable[[str | None, str], object],
        catalogs: Mapping[str | None, str],
        address: Address,
    ) -> None:
        self._host, self._broker = host, broker
        self._lags = Lags()
        self._questions = {
            "broker": Question("broker", self._ask_ends, _LAG_EVERY_S),
            "registry": Question("registry", registry, _SERVERS_EVERY_S),
        }
        self._catalogs = CatalogQuestions(self._in_use, catalog, catalogs, _SERVERS_EVERY_S)
        self.metrics = HostMetrics(host, self._lags, self._servers, now_ms)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self.metrics)
        self._server = MetricsServer(address, Pages(self._text, self.health, self.readiness))

    @property
    def url(self) -> str:
        """Where it listens."""
        return self._server.url

    def start(self) -> None:
        """Count, ask and answer."""
        self._host.listen(self.metrics.hear)
        for question in self._questions.values():
            question.start()
        self._catalogs.start()
        self._server.start()

    def stop(self) -> None:
        """Answer and ask no more."""
        self._server.stop()
        for question in self._questions.values():
            question.stop()
        self._catalogs.stop()

    def health(self) -> str | None:
        """Why the process should be restarted; None if it is alive."""
        if self._host.has_ended:
            return "the host has ended"
        silence_s = self._host.silence_s
        return f"the host's loop has not polled for {silence_s:.0f} s" if silence_s > SILENT_S else None

    def readiness(self) -> str | None:
        """Why the host cannot run topics now, one reason per line; None if it can."""
        host = self._host
        reasons = [self.health()]
        if host.is_leaving:
            reasons.append("the host commits what is staged and leaves")
        elif not host.is_in_group:
            reasons.append(host.waits_for or "the host has not joined the group of hosts yet")
        reasons += [question.trouble for question in self._servers().values()]
        return "\n".join(reason for reason in reasons if reason) or None

    def _text(self) -> bytes:
        return generate_latest(self._registry)

    def _in_use(self) -> Mapping[str | None, str]:
        # A namespace that the host uses: it may lack the permission to list others.
        return self._host.namespaces() or {None: TopicSettings().namespace}

    def _servers(self) -> dict[tuple[str, str], Question]:
        """Questions by the labels of their server: its kind, and the name if it is a catalog."""
        catalogs = {("catalog", name): one for name, one in self._catalogs.current().items()}
        return {(server, ""): one for server, one in self._questions.items()} | catalogs

    def _ask_ends(self) -> None:
        topics = set(self._host.coordinators())
        # Including the settings topic: the broker is asked even if this host runs nothing.
        self._lags.learn(self._broker.end_offsets({*topics, SETTINGS_TOPIC}), now_ms())
