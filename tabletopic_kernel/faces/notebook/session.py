"""What the magics of one shell share: the workbench and the host in the kernel.

The host's table topics run in threads of the kernel. They print nothing: the output would appear in whichever
cell is running. A killed kernel loses nothing; the next host resumes from the ledger.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from tabletopic_kernel.model.errors import RetryableError, TableTopicError, UsageError
from tabletopic_kernel.workbench.config.profiles import PROFILE_VARIABLE
from tabletopic_kernel.workbench.logs import log_to

if TYPE_CHECKING:
    from tabletopic_kernel.host.host import Host
    from tabletopic_kernel.local.progress import Report
    from tabletopic_kernel.workbench.workbench import Workbench


_LOG = logging.getLogger(__name__)
LOG_FILE = "kernel.log"
_POLL_S = 1.0


class KernelHost:
    """At most one host of this process. Methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._host: Host | None = None
        self._handler: logging.Handler | None = None
        self.error: Exception | None = None  # the error that ended the last host, if any

    @property
    def running(self) -> Host | None:
        """The host, if it runs."""
        with self._lock:
            if self._host is not None and self._host.has_ended:
                self.error = self._host.error
                self._forget()
            return self._host

    def start(self, workbench: Workbench) -> Host:
        """Become a host unless this process is one; returns at once, Spark starts in parallel."""
        with self._lock:
            if (host := self.running) is not None:
                return host
            self.error = None
            self._handler = log_to(workbench.servers.state_dir, LOG_FILE)
            try:
                host = self._host = workbench.host()
                host.start()
            except BaseException:
                self._forget()
                raise
        threading.Thread(target=_start_spark, args=(workbench,), name="spark early", daemon=True).start()
        threading.Thread(target=self._stop_with_the_kernel, args=(host,), name="host end").start()
        return host

    def stop(self) -> bool:
        """Commit staged files and hand over; returns whether there was a host."""
        with self._lock:
            host = self.running
            self._forget()
        if host is not None:
            host.stop()
        return host is not None

    def _forget(self) -> None:
        self._host = None
        if self._handler is not None:
            logging.getLogger().removeHandler(self._handler)
            self._handler.close()
            self._handler = None

    def _stop_with_the_kernel(self, host: Host) -> None:
        """After the main thread's end, let the host commit. Python waits for this thread, which is no daemon.

        ``atexit`` is too late: by then no thread can start (Python 3.12), and closing topics needs threads.
        """
        main = threading.main_thread()
        while main.is_alive() and not host.has_ended:
            main.join(_POLL_S)
        if not host.has_ended:
            host.stop()


def _start_spark(workbench: Workbench) -> None:
    """Start Spark while the host joins the group; topics report errors when they need it."""
    from tabletopic_kernel.local.java.jvm import make_later  # noqa: PLC0415 - heavy
    from tabletopic_kernel.workbench.config import embedded_servers  # noqa: PLC0415 - the first magic pays

    try:
        workbench.host_spark()
    except TableTopicError as error:
        _LOG.warning("Spark: %s", error)
    else:
        make_later(embedded_servers(workbench.settings))


def others(live: list[str]) -> list[str]:
    """Live hosts' ids, except those of dead processes here, which the group notices after some seconds."""
    return [host_id for host_id in live if not _is_dead(host_id)]


def _is_dead(host_id: str) -> bool:
    machine, pid, _ = host_id.rsplit("-", 2) if host_id.count("-") >= 2 else (host_id, "", "")
    if machine != socket.gethostname() or not pid.isdecimal() or int(pid) == os.getpid():
        return False
    try:
        return psutil.Process(int(pid)).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class Session:
    """One per shell. A ``workbench`` that the user created in a cell takes precedence."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.namespace = namespace
        self._lock = threading.Lock()
        self._cached: Workbench | None = None
        self.kernel_host = KernelHost()
        # Replaces those in the namespace, which may be of the previous profile.
        self.renew_objects: Callable[[], None] = lambda: None

    def choose_profile(self, name: str) -> None:
        """Use another profile from now on; UsageError if something of the present one is at work."""
        from tabletopic_kernel.workbench.workbench import Workbench  # noqa: PLC0415 - the first magic pays

        own = self.namespace.get("workbench")
        if isinstance(own, Workbench) and own is not self._cached:
            raise UsageError("this notebook made its own `workbench`: make another with Workbench(profile=…)")
        if self.kernel_host.running is not None:
            raise UsageError("this kernel is a host of the present profile: `%topic host stop` ends it")
        pyspark = sys.modules.get("pyspark")
        if pyspark is not None and pyspark.SparkContext._active_spark_context is not None:
            raise UsageError(
                "Spark in this kernel has the catalogs of the present profile: restart the kernel"
            )
        with self._lock:
            os.environ[PROFILE_VARIABLE] = name
            self._cached = None
        self.renew_objects()

    @property
    def workbench(self) -> Workbench:
        """The workbench for the current settings and servers; raises SettingsError."""
        from tabletopic_kernel.workbench.config import load_settings  # noqa: PLC0415 - the first magic pays, not %load_ext
        from tabletopic_kernel.workbench.config.servers import find_servers  # noqa: PLC0415
        from tabletopic_kernel.workbench.workbench import Workbench  # noqa: PLC0415

        own_workbench = self.namespace.get("workbench")
        if isinstance(own_workbench, Workbench):
            return own_workbench
        settings = load_settings().settings
        with self._lock:
            cached = self._cached
            stale = cached is None or cached.settings != settings or cached.servers != find_servers(settings)
            if cached is None or stale:  # a restarted stack may have other ports
                cached = self._cached = Workbench(settings)
            return cached

    def hosts(self) -> list[str]:
        """Ids of the live hosts, this kernel's too; none while the broker knows no groups yet."""
        try:
            return others(self.workbench.hosts())
        except RetryableError:  # a new broker, until a member joins the first group
            return []

    def ensure_host(self) -> Host | None:
        """Ensure that a host runs: this kernel, unless another one is live (then None)."""
        mine = self.kernel_host.running
        if mine is None and self.hosts():
            return None
        return mine or self.kernel_host.start(self.workbench)

    def start_stack(self, report: Report) -> None:
        """Start the servers that the settings do not name; UsageError if none. They outlive the kernel."""
        from tabletopic_kernel.workbench.config import (  # noqa: PLC0415
            check_something_to_start,
            load_settings,
            local_stack,
        )

        settings = load_settings().settings
        check_something_to_start(settings)
        local_stack(settings, report).up(die_with_parent=False)

    def stop_stack(self) -> None:
        """Stop the host here, background hosts and the embedded servers; the data stays."""
        from tabletopic_kernel.workbench.config import load_settings, local_stack  # noqa: PLC0415

        self.stop_hosts()
        local_stack(load_settings().settings).down()

    def stop_hosts(self) -> list[int]:
        """Stop the host here and this machine's background hosts; returns the pids of the latter."""
        from tabletopic_kernel.local.hosts import stop_detached  # noqa: PLC0415
        from tabletopic_kernel.workbench.config import load_settings  # noqa: PLC0415

        self.kernel_host.stop()
        return stop_detached(Path(load_settings().settings.state_dir))
