"""The process that runs tools, within limits that the system enforces: whatever a call does, it ends.

DuckDB heeds its own limits only between vectors. So memory is the data of this process, and time an alarm
that ends it; the next call gets another process.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

from tabletopic_kernel.faces.mcp.tools import TOOLS
from tabletopic_kernel.model.errors import ActionNeededError, TableTopicError, UsageError, error_of
from tabletopic_kernel.model.redact import redact
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.workbench import Workbench

LIMIT_S: Final = 60
# Data, see setrlimit(2): a call has half of it, as clients and their threads take 1.4 GB, most of it unused.
_MEMORY_BYTES: Final = 3 * 1024**3
_MOST_LEFT_BYTES: Final = 2 * 1024**3  # by a call; a process with more would refuse the next one


class Child:
    """Runs tools, one at a time, in a process that starts with the first. Thread-safe."""

    def __init__(self, settings: Settings, limit_s: float = LIMIT_S) -> None:
        self._settings, self._limit_s = settings, limit_s
        self._lock = threading.Lock()
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """The answer of a tool as JSON. Raises UsageError if it did not succeed; the message says why."""
        with self._lock:
            pipe, process = self._open()
            try:
                pipe.send((name, dict(arguments)))
                succeeded, text, is_last = pipe.recv()
            except (OSError, EOFError):
                process.join()
                code = process.exitcode
                self._close()
                if code == -signal.SIGALRM:
                    raise UsageError(f"{name} took more than {self._limit_s:g} s: ask for less") from None
                raise ActionNeededError(
                    f"{name} ended its process (exit code {code}): it may take more than "
                    f"{_MEMORY_BYTES >> 30} GB of memory; ask for less"
                ) from None
            if is_last:
                self._end()
        if not succeeded:
            raise UsageError(text)
        return str(text)

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _open(self) -> tuple[Connection, BaseProcess]:
        if self._pipe is None or self._process is None:
            context = multiprocessing.get_context("spawn")  # no thread's lock is copied
            self._pipe, end = context.Pipe()
            self._process = context.Process(
                target=_run, args=(end, self._settings, self._limit_s), daemon=True
            )
            self._process.start()
            end.close()  # so that its end is seen here
        return self._pipe, self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
        self._close()

    def _close(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
        if self._process is not None:
            self._process.close()
        self._pipe = self._process = None


def _run(pipe: Connection, settings: Settings, limit_s: float) -> None:
    """Answer calls until the other side is gone."""
    os.dup2(2, 1)  # standard output belongs to the protocol
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for the parent, which closes the pipe
    workbenches: list[Workbench] = []
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
    while True:
        try:
            name, arguments = pipe.recv()
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        answer = _answer(workbenches, settings, name, arguments)
        signal.setitimer(signal.ITIMER_REAL, 0)
        pages = int(Path("/proc/self/statm").read_text().split()[5])  # of data, see proc(5)
        pipe.send((*answer, pages * resource.getpagesize() > _MOST_LEFT_BYTES))


def _answer(
    workbenches: list[Workbench], settings: Settings, name: str, arguments: Mapping[str, Any]
) -> tuple[bool, str]:
    try:
        if name not in TOOLS:
            raise UsageError(f"there is no tool {name}; tools: {', '.join(TOOLS)}")
        if not workbenches:  # tried again with each call: the servers may start later
            workbenches.append(Workbench(settings))
        return True, TOOLS[name].answer(workbenches[0], arguments)
    except TableTopicError as error:
        return False, str(error)
    except (Exception, MemoryError) as error:  # an answer in any case: whoever asked is no programmer
        return False, redact(f"unexpected {str(error_of(error)).partition(chr(10))[0]}")
