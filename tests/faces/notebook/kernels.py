"""A real kernel "Table Topic (PySpark)", from the package's kernelspec or another one of that name."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

from tests.environment import without_settings

ROOT = Path(__file__).parents[3]
KERNELSPECS = ROOT / "jupyter-config" / "kernels"
_LIMIT_S = 480.0


@dataclass
class CellOutcome:
    """The result of a cell: the text of its value and displays, its output, and its error."""

    value: str = ""
    html: str = ""
    stdout: str = ""
    stderr: str = ""
    error: str = ""
    displays: list[str] = field(default_factory=list)


class TableTopicKernel:
    """One kernel process, in a folder; by default that is the state folder of the servers, too."""

    def __init__(
        self, folder: Path, specs: Path = KERNELSPECS, variables: Mapping[str, str] | None = None
    ) -> None:
        variables = {"TABLETOPIC_STATE_DIR": str(folder)} if variables is None else variables
        manager = KernelManager(
            kernel_name="tabletopic", kernel_spec_manager=KernelSpecManager(kernel_dirs=[str(specs)])
        )
        manager.start_kernel(cwd=str(folder), env={**without_settings(), **variables})
        self.manager = manager
        self.client: Any = manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=_LIMIT_S)

    @property
    def pid(self) -> int:
        """The kernel's process."""
        return int(self.manager.provisioner.pid)

    def children(self) -> list[psutil.Process]:
        """Processes below the kernel: Spark's JVM and its Python workers."""
        return psutil.Process(self.pid).children(recursive=True)

    def run(self, cell: str, limit_s: float = _LIMIT_S) -> CellOutcome:
        """Run a cell to its end."""
        return self.finish(self.begin(cell), limit_s)

    def begin(self, cell: str) -> str:
        """Send a cell."""
        return str(self.client.execute(cell))

    def finish(self, sent: str, limit_s: float = _LIMIT_S) -> CellOutcome:
        """Wait for the end of a cell and collect its result."""
        outcome = CellOutcome()
        deadline = time.monotonic() + limit_s
        while True:
            message = self.client.get_iopub_msg(timeout=max(0.1, deadline - time.monotonic()))
            if message["parent_header"].get("msg_id") != sent:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                return outcome
            if kind == "stream":
                setattr(outcome, content["name"], getattr(outcome, content["name"]) + content["text"])
            elif kind == "execute_result":
                outcome.value = content["data"]["text/plain"]
                outcome.html = content["data"].get("text/html", "")
            elif kind in ("display_data", "update_display_data"):
                outcome.displays.append(content["data"].get("text/plain", ""))
            elif kind == "error":
                outcome.error = f"{content['ename']}: {content['evalue']}"

    def wait_for_output(self, sent: str, text: str, limit_s: float = _LIMIT_S) -> None:
        """Wait until a running cell has printed a text."""
        while True:
            message = self.client.get_iopub_msg(timeout=limit_s)
            ours = message["parent_header"].get("msg_id") == sent and message["msg_type"] == "stream"
            if ours and text in message["content"]["text"]:
                return

    def kill(self) -> None:
        """``kill -9``: nothing of the kernel keeps running."""
        psutil.Process(self.pid).kill()
        self.client.stop_channels()
        self.manager.cleanup_resources()

    def shut_down(self) -> None:
        """Restart it like JupyterLab."""
        self.client.stop_channels()
        self.manager.shutdown_kernel()
