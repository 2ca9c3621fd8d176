"""Monitoring of one host: its metrics, the checks of its servers, and the HTTP server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest

from tabletopic_kernel.host.metrics.collector import HostMetrics
from tabletopic_kernel.host.metrics.lags import Lags
from tabletopic_kernel.host.metrics.questions import Question
from tabletopic_kernel.host.metrics.server import Address, MetricsServer, Pages
from tabletopic_kernel.local.machine import now_ms
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.topic_names import SETTINGS_TOPIC

if TYPE_CHECKING:
    from tabletopic_kernel.clients.kafka.broker import Broker
    from tabletopic_kernel.host.host import Host

_SERVERS = _BROKER, _REGISTRY = ("broker", ""), ("registry", "")
_LAG_EVERY_S = 3.0
_SERVERS_EVERY_S = 20.0
# Closing topics takes a host's loop up to 90 s; a loop that is silent much longer hangs.
SILENT_S = 150.0


class HostWatch:
    """Exposes one host to monitoring, from ``start``, which comes before the host's, to ``stop``.

    ``registry`` and ``catalog`` raise an error if the server does not answer. ``catalog`` gets the catalog of
    topics' settings (None: the default one) and a namespace in it. ``catalogs``: their names in SQL.
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
        self._ask_catalog, self._names = catalog, catalogs
        self._lock = threading.Lock()  # guards the two below
        self._is_asking = False
        self._questions = {
            _BROKER: Question("broker", self._ask_ends, _LAG_EVERY_S),
            _REGISTRY: Question("registry", registry, _SERVERS_EVERY_S),
        }
        self.metrics = HostMetrics(host, self._lags, self._servers, now_ms)
        registry_of_metrics = CollectorRegistry(auto_describe=False)
        registry_of_metrics.register(self.metrics)
        text = partial(generate_latest, registry_of_metrics)
        self._server = MetricsServer(address, Pages(text, self.health, self.readiness))

    @property
    def url(self) -> str:
        return self._server.url

    def start(self) -> None:
        self._host.listen(self.metrics.hear)
        with self._lock:
            self._is_asking = True
            for question in self._questions.values():
                question.start()
        self._servers()
        self._server.start()

    def stop(self) -> None:
        self._server.stop()
        with self._lock:
            self._is_asking, questions = False, list(self._questions.values())
        for question in questions:
            question.stop()

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

    def _in_use(self) -> Mapping[str | None, str]:
        # Only namespaces that the host uses: it may lack the permission to list others.
        return self._host.namespaces() or {None: TopicSettings().namespace}

    def _servers(self) -> dict[tuple[str, str], Question]:
        """Questions by the labels of their server: its kind, and a catalog's name.

        Each catalog has its own question, from its first topic on: a hanging catalog delays no other.
        """
        catalogs = {
            catalog: ("catalog", self._names.get(catalog) or str(catalog)) for catalog in self._in_use()
        }
        with self._lock:
            for catalog, labels in catalogs.items():
                if labels not in self._questions:
                    server = "catalog" if catalog is None else f"catalog {catalog}"
                    ask = partial(self._ask_namespace, catalog)
                    self._questions[labels] = Question(server, ask, _SERVERS_EVERY_S)
                    if self._is_asking:
                        self._questions[labels].start()
            return {labels: self._questions[labels] for labels in (*_SERVERS, *catalogs.values())}

    def _ask_namespace(self, catalog: str | None) -> None:
        if (namespace := self._in_use().get(catalog)) is not None:
            self._ask_catalog(catalog, namespace)

    def _ask_ends(self) -> None:
        topics = set(self._host.coordinators())
        # Including the settings topic: the broker is asked even if this host runs nothing.
        ends = self._broker.ends({*topics, SETTINGS_TOPIC})
        waiting = {topic: facts.waiting for topic, facts in ends.items()}
        self._lags.learn({topic: facts.end for topic, facts in ends.items()}, now_ms(), waiting)
