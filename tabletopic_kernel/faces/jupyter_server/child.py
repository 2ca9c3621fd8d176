"""A child process of the Jupyter server.

A stopping server asks host and dashboard to end. A killed server cannot, so they also get its pid and watch
their parent. Sample events are sent to their end.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from tabletopic_kernel.local.machine import tail
from tabletopic_kernel.model.errors import StackError
from tabletopic_kernel.model.redact import redact

_LOG_LINES = 5


class Child:
    """One process at a time, started and stopped from any thread. ``program`` names it in messages."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._lock = threading.Lock()  # guards the process and the knowledge of its end
        self._process: subprocess.Popen[bytes] | None = None
        self._stop_requested = False
        self._log: Path | None = None

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        with self._lock:
            return self._process.pid if self._process and self._process.poll() is None else None

    def start(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> bool:
        """Start it unless it runs, its output in ``log``; returns whether it was started, or StackError."""
        with self._lock:
            if self._process and self._process.poll() is None:
                return False
            try:
                log.parent.mkdir(parents=True, exist_ok=True)
                with log.open("wb") as output:
                    self._process = subprocess.Popen(
                        command,
                        env={**os.environ, **environment},
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        # Ctrl-C in the server's terminal asks for confirmation; the child must not get it.
                        start_new_session=True,
                    )
            except OSError as error:
                raise StackError(f"{self._program} cannot be started: {error}") from error
            self._log, self._stop_requested = log, False
            return True

    def stop(self, limit_s: float) -> None:
        """Ask it to end, and wait; it is killed after ``limit_s``. Idempotent."""
        self.ask_to_stop()
        if not self.wait(limit_s) and self._process is not None:
            self._process.kill()
            self._process.wait()

    def ask_to_stop(self) -> None:
        """Ask it to end without waiting."""
        with self._lock:
            self._stop_requested = True
            if self._process and self._process.poll() is None:
                self._process.terminate()

    def wait(self, limit_s: float) -> bool:
        """Wait for its end; returns whether it has ended."""
        with self._lock:
            process = self._process
        try:
            return process is None or process.wait(limit_s) is not None
        except subprocess.TimeoutExpired:
            return False

    def obituary(self) -> str | None:
        """Why it failed; None if it runs, was stopped, or has finished."""
        with self._lock:
            process, log = self._process, self._log
            if process is None or self._stop_requested or log is None or not process.poll():
                return None
        code = process.returncode
        if code < 0:  # the log's last lines are Spark's, about its lost parent
            return f"{self._program} was killed by signal {-code}; see {log}"
        ending = redact(tail(log, _LOG_LINES).strip())
        return f"{self._program} ended with exit code {code}{f': {ending}' if ending else ''}; see {log}"

    def last_pid(self) -> int | None:
        """Id of the last started process, which may have ended."""
        with self._lock:
            return self._process.pid if self._process else None
