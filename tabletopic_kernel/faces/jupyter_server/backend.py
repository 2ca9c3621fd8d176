"""The handlers' backend. Methods block, and any thread may call them; ``call`` runs them in a thread."""

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

from tabletopic_kernel.faces.jupyter_server.answers import Overview
from tabletopic_kernel.faces.jupyter_server.dashboard import Dashboard
from tabletopic_kernel.faces.jupyter_server.overview import OverviewMaker
from tabletopic_kernel.faces.jupyter_server.refresher import Refresher
from tabletopic_kernel.faces.jupyter_server.servers import HeadlessHost, Sample, Servers
from tabletopic_kernel.faces.jupyter_server.settings_in_force import SettingsInForce
from tabletopic_kernel.faces.operations import Operation
from tabletopic_kernel.faces.operations.operation import Route
from tabletopic_kernel.model.errors import TableTopicError, UnknownTopicError
from tabletopic_kernel.model.topic_names import kafka_topic

if TYPE_CHECKING:
    from tabletopic_kernel.workbench.workbench import Workbench

T = TypeVar("T")
# A page sends several requests at once; a broker that does not respond blocks each for 10 s.
_THREADS = 8
# The first poll loads the clients, in 1 to 2 s; after this limit the page says what it waits for.
_FIRST_POLL_S = 5.0
# How long a change waits for an overview that shows it: a slow broker must not block the response.
_AFTER_CHANGE_S = 2.0
_LEAVE_S = 5.0
_QUICKSTART = "01_quickstart.ipynb"
# Its location in a checkout, and in an installed package.
_QUICKSTART_PLACES = (f"notebooks/{_QUICKSTART}", "tabletopic_quickstart.ipynb")


class Backend:
    """The workbench of this Jupyter server, and the processes that belong to it; options as the app's."""

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
        self.servers = Servers(in_force)
        self.sample = Sample(in_force)
        self._overviews = OverviewMaker(in_force, self.servers, host, self.sample)
        self._refresher = Refresher(self._poll, overview_every_s)
        self._warm_host = warm_host
        self._warm_dashboard = warm_dashboard
        self._loading: threading.Thread | None = None
        self._threads = ThreadPoolExecutor(_THREADS, "tabletopic")

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

    def known(self) -> Overview | None:
        """The overview, if it was polled recently; never blocks."""
        overview = self._refresher.kept()
        # The state of our own host needs no poll.
        return None if overview is None else {**overview, "host": self.host.status(overview["host"]["ids"])}

    def first_overview(self) -> Overview:
        """Wait for the overview; while the servers are slow, it says so."""
        return self._refresher.wait(_FIRST_POLL_S) or self._overviews.waiting()

    def _poll(self, last: Overview | None) -> Overview:
        self.await_loading()
        overview = self._overviews.look(last)
        if self._loading is None and overview["servers"]["state"] in ("starting", "ready"):
            loading = threading.Thread(target=_load, name="loading", daemon=True)
            loading.start()
            self._loading = loading
        # Not before the first commit: until then Spark needs the processors, and there is nothing to see.
        if self._warm_dashboard and any(row["commits"] for row in overview["topics"]):
            self._warm_dashboard = False
            with contextlib.suppress(TableTopicError, OSError):  # opening the page reports it
                self.dashboard.warm()
        return overview

    def perform(self, operation: Operation[..., Any], route: Route, values: Mapping[str, Any]) -> Any:
        """Run an operation; returns its result, or None if the status code is the whole response."""
        if route.checks_topic:
            self.check_known(values["topic"])
        result = operation(self.workbench, **values)
        if operation.starts_host:
            self.ensure_host()
        if route.status == 200:
            return result if route.body is None else route.body(result, values)
        self.await_overview()
        return None

    def start_stack(self) -> None:
        """Start the local stack without waiting; then a host prepares for the first topic."""

        def started() -> None:
            self._refresher.hurry()
            if self._warm_host and self.servers.doing.state == "idle":
                with contextlib.suppress(TableTopicError):  # `enable` reports it
                    self.host.start_if_alone()
                self._refresher.hurry()

        self.servers.start(started)
        self.await_overview()

    def await_overview(self) -> Overview | None:
        """Wait for an overview that shows what was just done; None if the servers are slow."""
        return self._refresher.wait(_AFTER_CHANGE_S)

    def ensure_host(self) -> None:
        """Start the background host unless some host is live."""
        overview = self.known()
        self.host.start_if_alone(
            overview["host"]["ids"] if overview and overview["servers"]["state"] == "ready" else None
        )

    async def quickstart(self, contents: Any) -> str:
        """The path of the first notebook among this server's files; copied there if missing."""
        for path in _QUICKSTART_PLACES:
            if await ensure_async(contents.file_exists(path)):
                return path
        text = files("tabletopic_kernel").joinpath("_notebooks", _QUICKSTART).read_text("utf-8")
        model = {"type": "notebook", "format": "json", "content": json.loads(text)}
        await ensure_async(contents.save(model, _QUICKSTART_PLACES[-1]))
        return _QUICKSTART_PLACES[-1]

    @property
    def workbench(self) -> Workbench:
        """The workbench of the current settings."""
        self.await_loading()
        return self.in_force.workbench()

    def await_loading(self) -> None:
        """Two threads that import the same packages at once may each get the other's half of them."""
        if self._loading is not None:
            self._loading.join()

    def check_known(self, topic: str) -> None:
        """Check that the topic is in Kafka or enabled: tables outlive topics."""
        workbench = self.workbench
        if kafka_topic(topic) not in workbench.kafka_topics() and topic not in workbench.desired_topics():
            raise UnknownTopicError(f"there is no topic {topic!r}; create it, or check the name")


class Backends:
    """A backend for each profile that was used: what one has started stays its own, and continues."""

    def __init__(self, make: Callable[[str], Backend], profile: str) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._all = {profile: make(profile)}
        self.current = self._all[profile]

    @property
    def all(self) -> list[Backend]:
        """Those that were made."""
        return list(self._all.values())

    def choose(self, profile: str) -> Backend:
        """Make a profile the current one; raises SettingsError if there is no such profile."""
        self.current.in_force.of(profile).load()
        with self._lock:
            if profile not in self._all:
                self._all[profile] = self._make(profile)
            before, self.current = self.current, self._all[profile]
        if before is not self.current:
            before.dashboard.stop()
        return self.current

    def stop(self) -> None:
        """Stop them all. Idempotent."""
        for backend in self.all:
            backend.stop()


def _load() -> None:
    """Preload what the first click on a switch needs: some seconds of imports."""
    import pyiceberg.catalog.sql  # noqa: F401, PLC0415 - heavy

    import tabletopic_kernel.clients.registry.registry  # noqa: PLC0415 - the same
    import tabletopic_kernel.workbench.topics.planning  # noqa: F401, PLC0415 - the same
