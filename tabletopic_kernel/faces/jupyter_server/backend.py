"""Everything the handlers ask for. Methods block and any thread may call them; ``call`` finds one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeVar

from jupyter_core.utils import ensure_async

from tabletopic_kernel.faces.jupyter_server.dashboard import Dashboard
from tabletopic_kernel.faces.jupyter_server.host import HeadlessHost
from tabletopic_kernel.faces.jupyter_server.overview import Overview, Row, row_of_wish
from tabletopic_kernel.faces.jupyter_server.refresher import Refresher
from tabletopic_kernel.faces.jupyter_server.servers import Sample, Servers
from tabletopic_kernel.faces.jupyter_server.state_folder import Place
from tabletopic_kernel.model.errors import TableTopicError, UnknownTopicError
from tabletopic_kernel.model.settings.sections import TopicSettings

if TYPE_CHECKING:
    from tabletopic_kernel.workbench.topic import TableTopic
    from tabletopic_kernel.workbench.workbench import Workbench

T = TypeVar("T")
# More than a page asks at once; a broker that does not answer holds each for 10 s.
_THREADS = 8
# The first look loads the clients, 1 to 2 s; longer, and the page says what it waits for.
_FIRST_LOOK_S = 5.0
# After a change the next overview shall show it, but nobody waits for a slow broker.
_SEEN_S = 2.0
_LEAVE_S = 5.0
_QUICKSTART = "01_quickstart.ipynb"
# Where a checkout has it, and where it is put for those who installed the package.
_QUICKSTART_PLACES = (f"notebooks/{_QUICKSTART}", "tabletopic_quickstart.ipynb")


class Backend:
    """The workbench of this Jupyter server, with the processes that belong to it.

    Args:
        place: the settings in force.
        host: the headless host.
        dashboard: the dashboard's process.
        overview_every_s: pause between two looks at all topics, while somebody watches.
        warm_host: start the host with the local stack, before a topic is switched on.
        warm_dashboard: start the dashboard as soon as a table has rows, before somebody opens it.
    """

    def __init__(
        self,
        place: Place,
        host: HeadlessHost,
        dashboard: Dashboard,
        *,
        overview_every_s: float = 1.0,
        warm_host: bool = True,
        warm_dashboard: bool = True,
    ) -> None:
        self.place = place
        self.host = host
        self.dashboard = dashboard
        self._servers = Servers(place)
        self._sample = Sample(place)
        self._overview = Overview(place, self._servers, host, self._sample)
        self._refresher = Refresher(self._look, overview_every_s)
        self._warm_host = warm_host
        self._to_warm = warm_dashboard
        self._loading = False
        self._threads = ThreadPoolExecutor(_THREADS, "tabletopic")

    async def call(self, work: Callable[..., T], *arguments: Any) -> T:
        """The result of ``work``, done in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *arguments))

    def stop(self) -> None:
        """End what belongs to the server; a host that has much to commit ends by itself later. Idempotent."""
        self.host.child.ask_to_stop()
        self._refresher.close()
        self.dashboard.stop()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.host.child.wait(_LEAVE_S)

    async def leave(self) -> None:
        """``stop``, without holding up the event loop."""
        await asyncio.get_running_loop().run_in_executor(None, self.stop)

    # -- looking

    def known(self) -> dict[str, Any] | None:
        """The overview, unless nobody has asked for it lately; never blocks."""
        kept = self._refresher.kept()
        # Whether our own host lives is known at once.
        return kept and {**kept, "host": self.host.told(kept["host"]["ids"])}

    def first_overview(self) -> dict[str, Any]:
        """The overview, waited for, or one that says so where the servers are slow."""
        found = self._refresher.wait(_FIRST_LOOK_S)
        return found or self._overview.waiting()

    def _look(self, last: dict[str, Any] | None) -> dict[str, Any]:
        found = self._overview.look(last)
        if not self._loading and found["servers"]["state"] in ("starting", "ready"):
            self._loading = True
            threading.Thread(target=_load, name="loading", daemon=True).start()
        # Not earlier: while Spark starts and the first rows come, there is nothing to see, and much to do.
        if self._to_warm and any(row["commits"] for row in found["topics"]):
            self._to_warm = False
            with contextlib.suppress(TableTopicError):  # who opens it is told
                self.dashboard.warm()
        return found

    def topic(self, topic: str) -> dict[str, Any]:
        """What ``tabletopic status TOPIC --json`` gives, with ``run`` and ``settings``."""
        wish = self._workbench.wish(topic)
        told = _without_long_numbers(self._topic(topic).status().to_json())
        return {**told, "run": wish.run, "settings": wish.settings.model_dump(mode="json")}

    def events(self, topic: str, limit: int) -> list[dict[str, Any]]:
        """Newest first, heartbeats left out."""
        found = self._topic(topic).events(limit)
        return [_without_long_numbers(one.model_dump(mode="json")) for one in found]

    def schema(self, topic: str) -> dict[str, Any]:
        """Columns and registered versions."""
        self._check_known(topic)
        return self._topic(topic).schema().to_json()

    def history(self, topic: str, limit: int) -> list[dict[str, Any]]:
        """Snapshots, newest first."""
        self._check_known(topic)
        return [one.to_json() for one in self._topic(topic).history(limit)]

    def settings_schema(self) -> dict[str, Any]:
        """JSON Schema of what can be set for a topic."""
        return TopicSettings.model_json_schema()

    # -- changing

    def plan(self, topic: str, settings: dict[str, Any]) -> dict[str, Any]:
        """What ``enable`` would do."""
        return self._workbench.plan(topic, settings).to_json()

    def enable(self, topic: str, settings: dict[str, Any]) -> Row:
        """Switch a topic on, see that a host runs, and say how the topic does."""
        wish = self._workbench.enable(topic, settings)
        self.host.start_if_alone(self._live_hosts())
        found = self._refresher.wait(_SEEN_S)
        rows = {row["topic"]: row for row in found["topics"]} if found else {}
        if topic in rows and rows[topic]["enabled"]:
            row: Row = rows[topic]
            return row
        return row_of_wish(wish, self._workbench.kafka_topics().get(topic, 0))

    def disable(self, topic: str) -> None:
        """Switch a topic off."""
        self._workbench.disable(topic)
        self._refresher.wait(_SEEN_S)

    def act(self, topic: str, action: str) -> None:
        """``pause``, ``resume`` or ``commit``."""
        workbench = self._workbench
        {"pause": workbench.pause, "resume": workbench.resume, "commit": workbench.commit}[action](topic)
        if action == "resume":
            self.host.start_if_alone(self._live_hosts())
        self._refresher.wait(_SEEN_S)

    def plan_replay(self, topic: str, where: str | None) -> dict[str, Any]:
        """What trying dead letters again would do; reads them all."""
        return self._workbench.plan_replay(topic, where).to_json()

    def replay(self, topic: str, where: str | None) -> str:
        """Ask for it; an event with the id that this gives tells the outcome."""
        return self._workbench.ask_for_replay(topic, where).id

    def start_stack(self) -> None:
        """Begin to start the local stack."""
        self._servers.start(self._stack_started)
        self._refresher.wait(_SEEN_S)

    def _stack_started(self) -> None:
        """The stack is up, or why it is not is known: a host gets ready for the first topic meanwhile."""
        self._refresher.hurry()
        if self._warm_host and self._servers.doing.state == "idle":
            with contextlib.suppress(TableTopicError):  # who switches a topic on is told
                self.host.start_if_alone()
            self._refresher.hurry()

    def stop_stack(self) -> None:
        """Stop our host, so that it can commit, then the local stack."""
        self._servers.stop(lambda: self.host.child.stop(self.host.stop_limit_s))
        self._refresher.wait(_SEEN_S)

    def start_host(self) -> None:
        """Start the headless host."""
        self.host.start()
        self._refresher.wait(_SEEN_S)

    def stop_host(self) -> None:
        """Stop the headless host and wait for its last commits."""
        self.host.stop()
        self._refresher.wait(_SEEN_S)

    def send_sample(self, topic: str, count: int) -> None:
        """Begin to send click events."""
        self._sample.send(topic, count)
        self._refresher.wait(_SEEN_S)

    async def quickstart(self, contents: Any) -> str:
        """Path of the first notebook among the files of this server; it is put there unless it is."""
        for path in _QUICKSTART_PLACES:
            if await ensure_async(contents.file_exists(path)):
                return path
        text = files("tabletopic_kernel").joinpath("_notebooks", _QUICKSTART).read_text("utf-8")
        model = {"type": "notebook", "format": "json", "content": json.loads(text)}
        await ensure_async(contents.save(model, _QUICKSTART_PLACES[-1]))
        return _QUICKSTART_PLACES[-1]

    def _live_hosts(self) -> list[str] | None:
        """Ids of the live hosts as the overview knows them; None if nobody looks, or nothing is known."""
        known = self.known()
        return known["host"]["ids"] if known and known["servers"]["state"] == "ready" else None

    @property
    def _workbench(self) -> Workbench:
        return self.place.workbench()

    def _topic(self, topic: str) -> TableTopic:
        return self._workbench.topic(topic)

    def _check_known(self, topic: str) -> None:
        """Tables outlive topics, so a topic is known if it is in Kafka or switched on."""
        workbench = self._workbench
        if topic not in workbench.kafka_topics() and topic not in workbench.wishes():
            raise UnknownTopicError(f"there is no topic {topic!r}; create it first, or check the name")


def _load() -> None:
    """What the first click on a switch needs, before it comes: some seconds of imports."""
    import pyiceberg.catalog.sql  # noqa: F401, PLC0415 - heavy

    import tabletopic_kernel.clients.registry  # noqa: PLC0415 - the same
    import tabletopic_kernel.workbench.plan  # noqa: F401, PLC0415 - the same


def _without_long_numbers(told: dict[str, Any]) -> dict[str, Any]:
    """Snapshot ids as text: JavaScript's numbers do not hold 64 bits."""
    plain = {k: _without_long_numbers(v) if isinstance(v, dict) else v for k, v in told.items()}
    if plain.get("snapshot_id") is not None:
        plain["snapshot_id"] = str(plain["snapshot_id"])
    return plain
