"""The comm over which a grid asks the kernel of its notebook.

ipykernel 7 runs its messages in a thread of their own while a cell runs; ipykernel 6, after it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell

from tabletopic_kernel.faces.notebook.results.kept import Results

if TYPE_CHECKING:
    from tabletopic_kernel.faces.notebook.results.operations import Operations

TARGET = "tabletopic_result"


def listen(shell: InteractiveShell, results: Results) -> None:
    """Let grids connect, if the shell is a kernel's."""

    @cache  # each has a DuckDB, and a page that is loaded again opens another comm
    def operations() -> Operations:
        from tabletopic_kernel.faces.notebook.results.operations import Operations  # noqa: PLC0415 - loads DuckDB

        return Operations(results)

    def opened(comm: Any, _: Any) -> None:
        comm.on_msg(lambda message: comm.send(operations().reply(message["content"]["data"])))

    if (manager := comms_of(shell)) is not None:
        manager.register_target(TARGET, opened)


def stop_listening(shell: InteractiveShell) -> None:
    """Let no further grid connect."""
    if (manager := comms_of(shell)) is not None:
        manager.targets.pop(TARGET, None)


def comms_of(shell: InteractiveShell | None) -> Any:
    """The comm manager of the shell's kernel, if it has one."""
    return getattr(getattr(shell, "kernel", None), "comm_manager", None)
