"""The handlers' backend. Methods block, and any thread may call them; ``call`` runs them in one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeVar

from jupyter_core.utils import ensure_async

from tabletopic_kernel.faces.jupyter_server.dashboard import Dashboard
from tabletopic_kernel.faces.jupyter_server.overview import Overview, Row, row_of_desired
from tabletopic_kernel.faces.jupyter_server.refresher import Refresher
from tabletopic_kernel.faces.jupyter_server.servers import HeadlessHost, Sample, Servers
from tabletopic_kernel.faces.jupyter_server.settings_in_force import SettingsInForce
from tabletopic_kernel.faces.operations import Operation
from tabletopic_kernel.model.errors import TableTopicError, UnknownTopicError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.render.words import event_name, event_text, event_tone

if TYPE_CHECKING:
    from tabletopic_kernel.workbench.topic import TableTopic
    from tabletopic_kernel.workbench.workbench import Workbench

T = TypeVar("T")
# More than one page needs at once; a broker that does not respond blocks each for 10 s.
_THREADS = 8
# The first poll loads the clients, 1 to 2 s; if it takes longer, the page says what it waits for.
_FIRST_LOOK_S = 5.0
# The next overview should show a change, but nobody waits for a slow broker.
_SEEN_S = 2.0
_LEAVE_S = 5.0
_QUICKSTART = "01_quickstart.ipynb"
# Its location in a checkout, and in an installed package.
_QUICKSTART_PLACES = (f"notebooks/{_QUICKSTART}", "tabletopic_quickstart.ipynb")


class Backend:
    """The workbench of this Jupyter server, with the processes that belong to it.

    Args:
        in_force: the current settings.
        host: the headless host.
        dashboard: the dashboard's process.
        overview_every_s: pause between two polls of all topics, while somebody watches.
        warm_host: start the host with the local stack, before a topic is enabled.
        warm_dashboard: start the dashboard as soon as a table has rows, before somebody opens it.
    """

    def __init__(
        self,
        in_force: SettingsInForce,
        host: HeadlessHost,
        dashboard: Dashboard,
        *,
        overview_every_s: float = 1.0,
        warm_host: bool = True,
        warm_dashboard: bool = True,
    ) -> None:
        self.in_force = in_force
        self.host = host
        self.dashboard = dashboard
        self._servers = Servers(in_force)
        self._sample = Sample(in_force)
        self._overview = Overview(in_force, self._servers, host, self._sample)
        self._refresher = Refresher(self._look, overview_every_s)
        self._warm_host = warm_host
        self._to_warm = warm_dashboard
        self._loading = False
        self._threads = ThreadPoolExecutor(_THREADS, "tabletopic")
        # Operations that do more here than run and return their result.
        self._own: dict[str, Callable[..., Any]] = {
            "up": self._start_stack,
            "down": self._stop_stack,
            "serve": self._start_host,
            "stop-host": self._stop_host,
            "status": self._status,
            "events": self._events,
            "enable": self._enable,
            "replay": self._replay,
            "compact": self._compact,
            "expire": self._expire,
            "sample": self._send_sample,
            "settings-schema": self._settings_schema,
        }

    async def call(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run ``work`` in a thread; returns its result."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *arguments))

    def stop(self) -> None:
        """Stop the server's processes; a host with much to commit ends later. Idempotent."""
        self.host.child.ask_to_stop()
        self._refresher.close()
        self.dashboard.stop()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.host.child.wait(_LEAVE_S)

    async def leave(self) -> None:
        """Like ``stop``, without blocking the event loop."""
        await asyncio.get_running_loop().run_in_executor(None, self.stop)

    def known(self) -> dict[str, Any] | None:
        """The overview, if it was polled recently; never blocks."""
        kept = self._refresher.kept()
        # Whether our own host runs is known at once.
        return kept and {**kept, "host": self.host.status(kept["host"]["ids"])}

    def first_overview(self) -> dict[str, Any]:
        """Wait for the overview; if the servers are slow, return one that says so."""
        found = self._refresher.wait(_FIRST_LOOK_S)
        return found or self._overview.waiting()

    def _look(self, last: dict[str, Any] | None) -> dict[str, Any]:
        found = self._overview.look(last)
        if not self._loading and found["servers"]["state"] in ("starting", "ready"):
            self._loading = True
            threading.Thread(target=_load, name="loading", daemon=True).start()
        # Not earlier: while Spark starts and the first rows arrive, there is nothing to see and much to do.
        if self._to_warm and any(row["commits"] for row in found["topics"]):
            self._to_warm = False
            with contextlib.suppress(TableTopicError, OSError):  # whoever opens it gets the error
                self.dashboard.warm()
        return found

    def perform(self, operation: Operation, values: Mapping[str, Any]) -> Any:
        """Perform an operation; its result as JSON, None if it has none."""
        assert operation.route is not None, operation.name
        if (own := self._own.get(operation.name)) is not None:
            return own(**values)
        assert operation.run is not None, operation.name
        if operation.route.checks_topic:
            self._check_known(values["topic"])
        result = operation.run(self._workbench, **values)
        if operation.wants_host:
            self.host.start_if_alone(self._live_hosts())
        if operation.changes:
            self._refresher.wait(_SEEN_S)
        if operation.route.answer is None:
            return None
        return _without_long_numbers(operation.to_json(result))

    def _status(self, topic: str) -> dict[str, Any]:
        desired = self._workbench.desired_topic(topic)
        status = _without_long_numbers(self._topic(topic).status().to_json())
        return {**status, "run": desired.run, "settings": desired.settings.model_dump(mode="json")}

    def _events(self, topic: str, limit: int) -> list[dict[str, Any]]:
        found = self._topic(topic).events(limit)
        return [
            _without_long_numbers(event.model_dump(mode="json"))
            | {"text": event_text(event) or event_name(event), "tone": event_tone(event)}
            for event in found
        ]

    def _settings_schema(self) -> dict[str, Any]:
        return TopicSettings.model_json_schema()

    def _enable(self, topic: str, settings: dict[str, Any]) -> Row:
        """Enable a topic, ensure that a host runs, and return the topic's row."""
        desired = self._workbench.enable(topic, settings)
        self.host.start_if_alone(self._live_hosts())
        found = self._refresher.wait(_SEEN_S)
        rows = {row["topic"]: row for row in found["topics"]} if found else {}
        if topic in rows and rows[topic]["enabled"]:
            row: Row = rows[topic]
            return row
        return row_of_desired(desired, self._workbench.kafka_topics().get(topic, 0))

    def _replay(self, topic: str, where: str | None) -> dict[str, str]:
        """Request a replay without waiting: an event with this id reports the outcome."""
        return {"replay_id": self._workbench.ask_for_replay(topic, where).id}

    def _compact(self, topic: str, where: str | None) -> dict[str, str]:
        """Like ``_replay``."""
        return {"request_id": self._workbench.ask_for_compaction(topic, where).id}

    def _expire(self, topic: str, orphans: bool) -> dict[str, str]:
        """Like ``_replay``."""
        return {"request_id": self._workbench.ask_for_maintenance(topic, "expire", orphans=orphans).id}

    def _start_stack(self) -> None:
        """Start the local stack without waiting."""
        self._servers.start(self._stack_started)
        self._refresher.wait(_SEEN_S)

    def _stack_started(self) -> None:
        """The stack is up, or has failed: a host prepares for the first topic."""
        self._refresher.hurry()
        if self._warm_host and self._servers.doing.state == "idle":
            with contextlib.suppress(TableTopicError):  # whoever enables a topic sees it
                self.host.start_if_alone()
            self._refresher.hurry()

    def _stop_stack(self) -> None:
        """Stop our host, so that it can commit, then the local stack."""
        self._servers.stop(lambda: self.host.child.stop(self.host.stop_limit_s))
        self._refresher.wait(_SEEN_S)

    def _start_host(self) -> None:
        """Start the headless host."""
        self.host.start()
        self._refresher.wait(_SEEN_S)

    def _stop_host(self) -> None:
        """Stop the headless host and wait for its last commits."""
        self.host.stop()
        self._refresher.wait(_SEEN_S)

    def _send_sample(self, topic: str, count: int) -> None:
        """Start sending click events."""
        self._sample.send(topic, count)
        self._refresher.wait(_SEEN_S)

    async def quickstart(self, contents: Any) -> str:
        """The path of the first notebook among this server's files; copied there if missing."""
        for path in _QUICKSTART_PLACES:
            if await ensure_async(contents.file_exists(path)):
                return path
        text = files("tabletopic_kernel").joinpath("_notebooks", _QUICKSTART).read_text("utf-8")
        model = {"type": "notebook", "format": "json", "content": json.loads(text)}
        await ensure_async(contents.save(model, _QUICKSTART_PLACES[-1]))
        return _QUICKSTART_PLACES[-1]

    def _live_hosts(self) -> list[str] | None:
        """Ids of the live hosts from the overview; None if it is not polled, or unknown."""
        known = self.known()
        return known["host"]["ids"] if known and known["servers"]["state"] == "ready" else None

    @property
    def _workbench(self) -> Workbench:
        return self.in_force.workbench()

    def _topic(self, topic: str) -> TableTopic:
        return self._workbench.topic(topic)

    def _check_known(self, topic: str) -> None:
        """Check that the topic is in Kafka or enabled, as tables outlive topics."""
        workbench = self._workbench
        if topic not in workbench.kafka_topics() and topic not in workbench.desired_topics():
            raise UnknownTopicError(f"there is no topic {topic!r}; create it, or check the name")


def _load() -> None:
    """Preload what the first click on a switch needs: some seconds of imports."""
    import pyiceberg.catalog.sql  # noqa: F401, PLC0415 - heavy

    import tabletopic_kernel.clients.registry.registry  # noqa: PLC0415 - the same
    import tabletopic_kernel.workbench.plan  # noqa: F401, PLC0415 - the same


def _without_long_numbers(value: Any) -> Any:
    """Snapshot ids as text: JavaScript's numbers cannot hold 64 bits."""
    if isinstance(value, list):
        return [_without_long_numbers(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key: str(inner) if key == "snapshot_id" and inner is not None else _without_long_numbers(inner)
        for key, inner in value.items()
    }
