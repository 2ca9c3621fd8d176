"""The host in a kernel: table topics run in its threads, as long as the kernel lives.

Nothing here prints: text of a thread would land in whichever cell is running. A kernel that is killed
loses nothing; the next host begins at the ledger.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from typing import TYPE_CHECKING

import psutil

from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.workbench.logs import log_to

if TYPE_CHECKING:
    from tabletopic_kernel.host.host import Host
    from tabletopic_kernel.workbench.workbench import Workbench

_LOG = logging.getLogger(__name__)
LOG_FILE = "kernel.log"
_LOOK_EVERY_S = 1.0


class KernelHost:
    """At most one host of this process. Methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._host: Host | None = None
        self._handler: logging.Handler | None = None
        self.error: Exception | None = None  # what ended the last host, if it was one

    @property
    def running(self) -> Host | None:
        """The host, if it runs."""
        with self._lock:
            if self._host is not None and self._host.has_ended:
                self.error = self._host.error
                self._forget()
            return self._host

    def start(self, workbench: Workbench) -> Host:
        """Become a host unless this process is one; returns at once, Spark starts beside it."""
        with self._lock:
            if (host := self.running) is not None:
                return host
            self.error = None
            self._handler = log_to(workbench.servers.state_dir, LOG_FILE)
            host = self._host = workbench.host()
            host.start()
        threading.Thread(target=_start_spark, args=(workbench,), name="spark early", daemon=True).start()
        threading.Thread(target=self._stop_with_the_kernel, args=(host,), name="host end").start()
        return host

    def stop(self) -> bool:
        """Commit what is staged and hand over; whether there was a host."""
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
        """Wait for the end of the main thread, then let the host commit.

        Python waits for this thread, which is no daemon. Functions of ``atexit`` come too late: no thread
        can be started any more then (Python 3.12), and closing topics takes threads.
        """
        main = threading.main_thread()
        while main.is_alive() and not host.has_ended:
            main.join(_LOOK_EVERY_S)
        if not host.has_ended:
            host.stop()


def _start_spark(workbench: Workbench) -> None:
    """While the host joins the group; what goes wrong the topics tell when they need it."""
    from tabletopic_kernel.local.java.jvm import make_later  # noqa: PLC0415 - heavy

    try:
        workbench.host_spark()
    except TableTopicError as error:
        _LOG.warning("Spark: %s", error)
    else:
        make_later()


def others(live: list[str]) -> list[str]:
    """Those of the live hosts' ids that are not leftovers of a dead process on this machine.

    The group misses a host that was killed only after some seconds; until then a kernel that is started
    anew would believe that somebody runs its topics.
    """
    return [one for one in live if not _is_dead(one)]


def _is_dead(host_id: str) -> bool:
    machine, pid, _ = host_id.rsplit("-", 2) if host_id.count("-") >= 2 else (host_id, "", "")
    if machine != socket.gethostname() or not pid.isdecimal() or int(pid) == os.getpid():
        return False
    return not psutil.pid_exists(int(pid)) or psutil.Process(int(pid)).status() == psutil.STATUS_ZOMBIE
