"""What the magics of one shell share: the workbench of the settings in force, and the host in the kernel."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from tabletopic_kernel.faces.notebook.kernel_host import KernelHost, others
from tabletopic_kernel.model.errors import RetryableError

if TYPE_CHECKING:
    from tabletopic_kernel.host.host import Host
    from tabletopic_kernel.local.progress import Report
    from tabletopic_kernel.workbench.workbench import Workbench


class Session:
    """One for each shell. A ``workbench`` that a person made in a cell is the one that counts."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._lock = threading.Lock()
        self._made: Workbench | None = None
        self.kernel_host = KernelHost()

    @property
    def workbench(self) -> Workbench:
        """The workbench of the settings and servers as they are now.

        Raises:
            SettingsError: no servers, or a wrong setting.
        """
        from tabletopic_kernel.workbench.config import load_settings  # noqa: PLC0415 - the first magic pays, not %load_ext
        from tabletopic_kernel.workbench.servers import find_servers  # noqa: PLC0415
        from tabletopic_kernel.workbench.workbench import Workbench  # noqa: PLC0415

        named = self._namespace.get("workbench")
        if isinstance(named, Workbench):
            return named
        settings = load_settings().settings
        with self._lock:
            made = self._made
            stale = made is None or made.settings != settings or made.servers != find_servers(settings)
            if made is None or stale:  # a stack that was started anew may have other ports
                made = self._made = Workbench(settings)
            return made

    def hosts(self) -> list[str]:
        """Ids of the hosts that live, this kernel's too; none where the broker knows no groups yet."""
        try:
            return others(self.workbench.hosts())
        except RetryableError:  # so it is on a new broker, until somebody joins the first group
            return []

    def ensure_host(self) -> Host | None:
        """See that somebody runs table topics: this kernel, unless another host lives (then None)."""
        mine = self.kernel_host.running
        if mine is None and self.hosts():
            return None
        return mine or self.kernel_host.start(self.workbench)

    def start_stack(self, report: Report) -> None:
        """Start the embedded broker, registry and catalog; they stay when the kernel ends.

        Raises:
            StackError: they do not start; the message says why.
        """
        from pathlib import Path  # noqa: PLC0415

        from tabletopic_kernel.local.stack import LocalStack  # noqa: PLC0415
        from tabletopic_kernel.workbench.config import load_settings, wants_login  # noqa: PLC0415

        settings = load_settings().settings
        stack = LocalStack(Path(settings.state_dir), report, wants_login=wants_login(settings))
        stack.up(die_with_parent=False)

    def stop_stack(self) -> None:
        """Stop the host here, those in the background and the embedded servers; the data stay."""
        from pathlib import Path  # noqa: PLC0415

        from tabletopic_kernel.local.stack import LocalStack  # noqa: PLC0415
        from tabletopic_kernel.workbench.config import load_settings  # noqa: PLC0415

        self.stop_hosts()
        LocalStack(Path(load_settings().settings.state_dir)).down()

    def stop_hosts(self) -> list[int]:
        """Stop the host here and those in the background of this machine; returns the pids of these."""
        from pathlib import Path  # noqa: PLC0415

        from tabletopic_kernel.local.hosts import stop_detached  # noqa: PLC0415
        from tabletopic_kernel.workbench.config import load_settings  # noqa: PLC0415

        self.kernel_host.stop()
        return stop_detached(Path(load_settings().settings.state_dir))
