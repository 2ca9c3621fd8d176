"""Broker, registry and catalog of a state folder: one call to start, one to stop.

The servers outlive the process that starts them. Their records are in ``stack.json``, and each has a mark on
its command line.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import psutil

from tabletopic_kernel.local import folder, machine, processes, state, watcher
from tabletopic_kernel.local.java import jvm
from tabletopic_kernel.local.machine import (
    STATE_DIR,
    file_lock,
    logs_folder,
    need_limits,
    need_space,
    stack_errors,
    tail,
)
from tabletopic_kernel.local.progress import Report, Step, silent
from tabletopic_kernel.local.servers import broker, registry_server
from tabletopic_kernel.local.servers.broker import Broker
from tabletopic_kernel.local.servers.registry_server import RegistryServer
from tabletopic_kernel.local.state import Recorded, StackInfo
from tabletopic_kernel.model.errors import StackError

__all__ = ["SERVERS", "LocalStack", "StackInfo"]

# The registry takes longer to start, so it goes first.
SERVERS = (registry_server.NAME, broker.NAME)
_STEP = "stack"
_READY_LIMIT_S = 120  # three seconds on an idle laptop
_STOP_LIMIT_S = 30
# A broker whose disk is full halts by itself.
_SPACE_BYTES = 256 * 1024**2
# These end the path in a database URL or a file URI, begin an escape, or are dropped there; DuckDB reads no
# table below a double quote.
_IMPOSSIBLE_IN_PATH = frozenset('?#%"\t\r\n')


class LocalStack:
    """The stack of ``state_dir``, running or not. Several processes may use it at once.

    ``kafka_port`` and ``registry_port`` fix a port; otherwise free ones are chosen at the first start and
    kept. ``wants_login``: whether servers started here require a login; None: as at their last start.
    ``servers``: those to start, if the user has some of their own; ``down`` stops all. The catalog is a file
    and needs no server. ``fork``: whether ``up`` makes the copy of a state folder independent.
    """

    def __init__(
        self,
        state_dir: Path,
        report: Report = silent,
        *,
        kafka_port: int | None = None,
        registry_port: int | None = None,
        wants_login: bool | None = None,
        servers: Collection[str] = SERVERS,
        fork: bool = False,
    ) -> None:
        self._fork = fork
        self._wants_login = wants_login
        self._servers = tuple(name for name in SERVERS if name in servers)
        machine.check_own(state_dir.expanduser())  # before links to it are followed
        self.state_dir = state_dir.expanduser().resolve()
        self._report = report
        self._demanded = {(broker.NAME, "client"): kafka_port, (registry_server.NAME, "http"): registry_port}
        if bad := _IMPOSSIBLE_IN_PATH.intersection(str(self.state_dir)):
            named = repr("".join(sorted(bad)))[1:-1]
            raise StackError(
                f"The state folder {self.state_dir} has {named} in its path: choose another with {STATE_DIR}."
            )

    def up(self, *, die_with_parent: bool = False) -> StackInfo:
        """Start what is not running and wait until it is ready.

        With ``die_with_parent`` the servers that this call starts end with the calling process, however it
        ends. An error or Ctrl-C stops them again. Raises StackError, which says what to do.
        """
        began = time.monotonic()
        with self._locked():
            self._settle()
            records = Recorded(self.state_dir, SERVERS)
            self._check_demanded_ports(records)
            missing = [name for name in self._servers if not records.is_alive(name)]
            waiting = [name for name in self._servers if name in missing or not records[name].ready]
            if waiting:
                self._start(records, missing, waiting, die_with_parent)
        info = self._info(records, tuple(missing))
        text = "ready" if waiting else "already running" if self._servers else "no server to start"
        self._report(Step(_STEP, "done", time.monotonic() - began, text))
        return info

    def down(self, servers: Collection[str] = SERVERS) -> list[str]:
        """Stop the servers, whatever their state; data stays. Returns which ran, or raises StackError."""
        began = time.monotonic()
        # A deleted folder has no records and no lock, but perhaps servers.
        with self._locked() if self.state_dir.is_dir() else contextlib.nullcontext():
            stopped = self._stop(Recorded(self.state_dir, SERVERS), servers)
        if stopped:
            self._report(Step(_STEP, "done", time.monotonic() - began, f"stopped {' and '.join(stopped)}"))
        return stopped

    def info(self) -> StackInfo | None:
        """The stack if its servers run and have responded, else None; sends no requests, takes milliseconds.

        Raises StackError if the state folder is damaged, was moved, or is a copy.
        """
        known = self.known()
        return None if known is None or known.ended or known.starting else known

    def known(self) -> StackInfo | None:
        """The stack, even if some of its servers do not run at present; raises StackError like ``info``.

        None if it was stopped or never started: a server that ended by itself keeps its ports.
        """
        folder.check_place(self.state_dir)
        records = Recorded(self.state_dir, SERVERS)
        if not self._servers:
            return self._info(records) if self.state_dir.is_dir() else None
        servers = [records[name] for name in self._servers]
        if not all(record.ports for record in servers) or not any(record.process for record in servers):
            return None
        ended = [name for name in self._servers if not records.is_alive(name)]
        late = tuple(name for name in self._servers if name not in ended and not records[name].ready)
        return replace(self._info(records), ended=tuple(ended), starting=late)

    def _info(self, records: Recorded, started: tuple[str, ...] = ()) -> StackInfo:
        pids = {name: process.pid for name in SERVERS if (process := records[name].process)}
        catalog = {
            "name": "lake",
            "type": "sql",
            # Seconds to wait for the file lock; SQLite's own 5 s are too short beside a Spark job.
            "uri": f"sqlite:///{self.state_dir}/catalog.db?timeout=30",
            "warehouse": f"file://{self.state_dir}/warehouse",
        }
        kafka, registry = self._server(broker.NAME, records), self._server(registry_server.NAME, records)
        return StackInfo(
            kafka.address if kafka.ports else "",
            registry.address if registry.ports else "",
            catalog,
            self.state_dir,
            pids,
            started,
            kafka_login=state.kafka_login(kafka.password) if kafka.password else {},
            registry_login=state.registry_login(registry.password) if registry.password else {},
        )

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with stack_errors(self.state_dir, STATE_DIR):
            logs_folder(self.state_dir)
            (self.state_dir / ".gitignore").write_text("*\n")
            on_wait = Step(_STEP, "started", detail="waiting for another process that starts or stops it")
            with file_lock(self.state_dir / "lock", lambda: self._report(on_wait)):
                yield

    def _settle(self) -> None:
        for before in folder.places(self.state_dir)[1:]:
            if processes.find({processes.mark(name, before) for name in SERVERS}):
                folder.check_place(self.state_dir)  # moved, with servers that still write

        def report(text: str) -> None:
            self._report(Step(_STEP, "started", detail=text))

        folder.settle(self.state_dir, fork=self._fork, on_change=report)

    def _check_demanded_ports(self, records: Recorded) -> None:
        for (name, use), demanded in self._demanded.items():
            port = records[name].ports.get(use)
            if demanded and port != demanded and records.is_alive(name):
                raise StackError(f"The {name} server runs on port {port}, not {demanded}: stop it first.")

    def _start(
        self, records: Recorded, missing: list[str], waiting: list[str], die_with_parent: bool
    ) -> None:
        """Start the ``missing`` servers, and wait for those ``waiting``; changes the records."""
        need_space(self.state_dir, _SPACE_BYTES, "The local stack")
        need_limits()
        installed = jvm.install(self._report)
        began = time.monotonic()
        # While a server runs, or has ended by itself, hosts may wait for it with the login that they know.
        waited_for = any(
            record.process and record.process.start_time_s > psutil.boot_time() for record in records.values()
        )
        if self._wants_login is not None and not waited_for:
            for name in missing:
                records.change(name, login=self._wants_login)
        if any(record.login for record in records.values()):
            state.make_password(self.state_dir)
        try:
            if die_with_parent and missing:
                watcher.start_watcher(self.state_dir, missing)
            # Servers of a killed starter, or without records: nobody knows their ports.
            strays = processes.find({processes.mark(name, self.state_dir) for name in missing})
            processes.stop((process for _, process in strays), _STOP_LIMIT_S)
            for name in missing:
                records.change(name, ports=self._choose_ports(name, records))
                self._report(Step(name, "started"))
                server = self._server(name, records)
                server.prepare(installed)
                command = server.command(installed, processes.mark(name, self.state_dir))
                process = processes.spawn(command, server.folder, self.state_dir / "logs" / f"{name}.out")
                records.change(name, process=process, ready=False)
                records.save()
            self._wait_until_ready(records, waiting, began)
        except BaseException:  # Ctrl-C too
            self._stop(records, waiting)
            self._report(Step(_STEP, "failed", time.monotonic() - began))
            raise

    def _choose_ports(self, name: str, records: Recorded) -> dict[str, int]:
        used = {port for record in records.values() for port in record.ports.values()}
        chosen: dict[str, int] = {}
        for use in broker.PORTS if name == broker.NAME else registry_server.PORTS:
            demanded, last = self._demanded.get((name, use)), records[name].ports.get(use)
            if demanded and not machine.is_free_port(demanded):
                raise StackError(
                    f"Port {demanded}, set for the {name} server, is in use: stop the program that uses it, "
                    "set another port, or set none to use a free one."
                )
            usable = last if last and last not in chosen.values() and machine.is_free_port(last) else None
            port = demanded or usable or machine.free_port(used)
            if last and port != last and not demanded:
                self._report(Step(name, "started", detail=f"port {last} was taken meanwhile, using {port}"))
            chosen[use] = port
            used.add(port)
        return chosen

    def _server(self, name: str, records: Recorded) -> Broker | RegistryServer:
        kind = Broker if name == broker.NAME else RegistryServer
        password = state.read_password(self.state_dir) if records[name].login else None
        return kind(self.state_dir / name, records[name].ports, password)

    def _wait_until_ready(self, records: Recorded, names: list[str], began: float) -> None:
        pending = {name: self._server(name, records) for name in names}
        while pending:
            for name, server in list(pending.items()):
                if not records.is_alive(name):
                    raise StackError(_obituary(self.state_dir / "logs", name, "ended while it started"))
                if server.is_ready():
                    del pending[name]
                    records.change(name, ready=True)
                    records.save()
                    self._report(Step(name, "done", time.monotonic() - began, "responds"))
            if pending and time.monotonic() - began > _READY_LIMIT_S:
                late = next(iter(pending))
                raise StackError(
                    _obituary(self.state_dir / "logs", late, f"did not respond within {_READY_LIMIT_S} s")
                )
            time.sleep(0.05)

    def _stop(self, records: Recorded, servers: Collection[str]) -> list[str]:
        others = [name for name in SERVERS if name not in servers and records.is_alive(name)]
        # Watchers end with the last server; one of them may itself be what stops it.
        names = [*servers, *([] if others else [watcher.WATCHER])]
        marks = {processes.mark(name, path): name for path in folder.places(self.state_dir) for name in names}
        alive = {(marks[its_mark], process) for its_mark, process in processes.find(marks)}
        for name in servers:
            if (process := records[name].process) and records.is_alive(name):
                alive.add((name, process))
            records.change(name, process=None, ready=False)
        processes.stop({process for _, process in alive}, _STOP_LIMIT_S)
        if self.state_dir.is_dir():
            records.save()
        ran = {name for name, _ in alive}
        return [name for name in servers if name in ran]


def _obituary(logs: Path, name: str, event: str) -> str:
    lines = "\n".join(filter(None, (tail(logs / f"{name}.out", 5), tail(logs / f"{name}.log", 15))))
    return (
        f"The {name} server {event}. If its last lines below (the rest is in {logs}) show no cause that "
        f"you can fix, start it again.\n{lines}"
    )
