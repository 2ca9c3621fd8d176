"""The Jupyter server extension, with its configuration."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
from pathlib import Path
from typing import Any

from jupyter_server.extension.application import ExtensionApp
from jupyter_server.utils import url_path_join
from tornado.ioloop import PeriodicCallback
from traitlets import Bool, Float, List, Unicode

from tabletopic_kernel.faces.jupyter_server.backend import Backend, Backends
from tabletopic_kernel.faces.jupyter_server.dashboard import DASHBOARD, PATH, Dashboard, DashboardProxy
from tabletopic_kernel.faces.jupyter_server.rest import BACKEND, PROFILES, ROUTES
from tabletopic_kernel.faces.jupyter_server.servers import HeadlessHost
from tabletopic_kernel.faces.jupyter_server.settings_in_force import SettingsInForce
from tabletopic_kernel.local import watcher
from tabletopic_kernel.model.errors import SettingsError
from tabletopic_kernel.workbench.config import behind_hub
from tabletopic_kernel.workbench.logs import without_secrets

_ACTIVITY_MS = 60_000


class TableTopicApp(ExtensionApp):
    """Table topics in a Jupyter server: REST for the sidebar, a background host, the dashboard."""

    name = "tabletopic_kernel"
    load_other_extensions = True

    settings_file = Unicode(
        "",
        help="Settings file; without it, the nearest tabletopic.toml from the server's folder upwards.",
    ).tag(config=True)
    state_dir = Unicode("", help="Folder of the local stack and of local state; usually .tabletopic").tag(
        config=True
    )
    overview_every_s = Float(
        1.0, min=0.1, help="Polling interval for all topics, in seconds, while a client is connected."
    ).tag(config=True)
    keep_alive = Bool(
        True,
        help="While the background host runs, the server counts as busy, so that it is not culled as idle.",
    ).tag(config=True)
    warm_host = Bool(
        True,
        help="Start the host with the local stack, so that a topic's first rows arrive sooner; some 600 MB.",
    ).tag(config=True)
    warm_dashboard = Bool(
        True,
        help="Start the dashboard when a table has its first rows, so that it opens at once; some 300 MB.",
    ).tag(config=True)
    stop_stack = Bool(
        None,
        allow_none=True,
        help="Stop the local stack and background hosts when the server ends, however it ends; None: only "
        "behind a JupyterHub, where each user would otherwise leave some 650 MB in use.",
    ).tag(config=True)
    host_command = List(
        Unicode(), help="Command that runs the background host; without it, `tabletopic serve`."
    ).tag(config=True)
    dashboard_command = List(
        Unicode(),
        help="Command that serves the dashboard; without it, "
        "`python -m tabletopic_kernel.faces.live_dashboard`.",
    ).tag(config=True)

    def initialize_settings(self) -> None:
        """Make the backend; sends no request and starts nothing."""
        assert self.serverapp is not None
        base_url = self.serverapp.base_url
        in_force = SettingsInForce(self.settings_file, self.state_dir)
        # For kernels: `%dashboard` shows a page below the URL, `%topic` the sidebar's topics.
        os.environ.update({"TABLETOPIC_BASE_URL": base_url, **in_force.environment()})
        self.backends = Backends(self._make_backend, in_force.profile)
        self.settings.update(
            {PROFILES: self.backends, BACKEND: self.backends.current, DASHBOARD: self.backends.current}
        )
        # Libraries include addresses with logins in their messages, and this log is often a file.
        for handler in {*logging.getLogger().handlers, *self.serverapp.log.handlers, *self.log.handlers}:
            handler.addFilter(without_secrets)
        # `stop_extension` is not called on every exit.
        atexit.register(self.backends.stop)

    def _make_backend(self, profile: str) -> Backend:
        assert self.serverapp is not None
        in_force = SettingsInForce(self.settings_file, self.state_dir, profile)
        prefix = url_path_join(self.serverapp.base_url, PATH)
        self._bind_stack(in_force)
        return Backend(
            in_force,
            HeadlessHost(in_force, **_set_options(command=self.host_command)),
            Dashboard(in_force, prefix, **_set_options(command=self.dashboard_command)),
            overview_every_s=self.overview_every_s,
            warm_host=self.warm_host,
            warm_dashboard=self.warm_dashboard,
        )

    def initialize_handlers(self) -> None:
        """Add the routes."""
        self.handlers.extend([*ROUTES, (rf"{PATH}(/.*|)", DashboardProxy)])

    async def _start_jupyter_server_extension(self, serverapp: Any) -> None:
        self._activity_timer = PeriodicCallback(self._report_activity, _ACTIVITY_MS)
        self._activity_timer.start()
        self._configure_kernels(serverapp.kernel_manager)

    def _bind_stack(self, in_force: SettingsInForce) -> None:
        """If configured, make the stack end with this process, even if it is killed."""
        if behind_hub() if self.stop_stack is None else self.stop_stack:
            try:
                watcher.start_keeper(Path(in_force.settings().state_dir))
            except (OSError, SettingsError) as error:
                self.log.warning("the local stack will not be stopped with this server: %s", error)

    def _configure_kernels(self, manager: Any) -> None:
        """Pass the settings to new kernels; not in ``os.environ``, which has the server's own."""
        start = manager.start_kernel

        def start_kernel(*args: Any, **kwargs: Any) -> Any:
            env = kwargs.get("env") or os.environ
            kwargs["env"] = {**env, **self.backends.current.in_force.kernel_environment()}
            return start(*args, **kwargs)

        manager.start_kernel = start_kernel

    async def stop_extension(self) -> None:
        """Stop host and dashboard; the local stack keeps running, or stops afterwards: ``stop_stack``."""
        self._activity_timer.stop()
        atexit.unregister(self.backends.stop)
        await asyncio.get_running_loop().run_in_executor(None, self.backends.stop)

    def current_activity(self) -> dict[str, int] | None:
        """A running host counts as activity: the server does not shut down as idle."""
        return {"background host": 1} if self._is_busy() else None

    def _report_activity(self) -> None:
        if self._is_busy() and self.serverapp is not None:
            from jupyter_server._tz import utcnow  # noqa: PLC0415

            times = self.serverapp.web_app.settings.setdefault("last_activity_times", {})
            times[self.name] = utcnow()

    def _is_busy(self) -> bool:
        return self.keep_alive and any(each.host.child.pid is not None for each in self.backends.all)


def _set_options(**options: Any) -> dict[str, Any]:
    """The options that are set."""
    return {name: value for name, value in options.items() if value}
