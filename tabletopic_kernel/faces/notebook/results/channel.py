"""What a grid asks its kernel, over a comm: pages, cells, profiles, copies, files and charts of results.

ipykernel 7 runs these messages in a thread of their own while a cell runs; ipykernel 6, after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell

from tabletopic_kernel.faces.notebook.results.kept import Results
from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.model.redact import redact

if TYPE_CHECKING:
    from tabletopic_kernel.faces.notebook.results.operations import Operations

TARGET = "tabletopic_result"


class Channel:
    """Answers the grids of a shell. Nothing is loaded before the first message."""

    def __init__(self, results: Results) -> None:
        self._results = results
        self._operations: Operations | None = None

    def open(self, shell: InteractiveShell) -> None:
        """Let grids connect, if the shell is a kernel's."""
        if (manager := comms_of(shell)) is not None:
            manager.register_target(TARGET, self._opened)

    def _opened(self, comm: Any, _: Mapping[str, Any]) -> None:
        comm.on_msg(lambda message: comm.send(self.answer(message["content"]["data"])))

    def answer(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to one message, with its number; a grid shows ``error``."""
        from tabletopic_kernel.faces.notebook.results.operations import Operations  # noqa: PLC0415 - loads DuckDB

        if self._operations is None:
            self._operations = Operations(self._results)
        try:
            return {"number": data["number"], **self._operations.run(data)}
        except TableTopicError as error:  # the SQL that DuckDB points to is ours
            return {"number": data["number"], "error": redact(str(error).partition("\n\nLINE ")[0])}


def comms_of(shell: InteractiveShell | None) -> Any:
    """The comm manager of the shell's kernel, if it has one."""
    return getattr(getattr(shell, "kernel", None), "comm_manager", None)
