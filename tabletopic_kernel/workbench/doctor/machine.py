"""Checks of this machine: Python, Java, disk, ports, and the login of the local stack."""

# Imports are deferred: a check that cannot even import reports that.
# ruff: noqa: PLC0415

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.config import embedded_servers
from tabletopic_kernel.workbench.doctor.check import Failed

if TYPE_CHECKING:
    from tabletopic_kernel.local.stack import StackInfo

# For the jars, the broker's log, and the tables; below the first number something fails at once.
_LEAST_BYTES, _ENOUGH_BYTES = 1024**3, 5 * 1024**3
_LEAST_MEMORY_BYTES = 2 * 1024**3


def python() -> str:
    missing = [name for name in ("pyspark", "pyiceberg", "pyarrow", "duckdb", "datafusion")
               if importlib.util.find_spec(name) is None]  # fmt: skip
    if missing:
        raise Failed(f"{', '.join(missing)} not installed", "reinstall the package: pip install tabletopic")
    return f"{platform.python_version()} on {platform.system()} {platform.machine()}"


def jdk() -> str:
    from tabletopic_kernel.local.java import jvm

    java = jvm.java()
    process = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    if process.returncode != 0:
        raise Failed(
            f"{java} does not run: {process.stderr.strip()[:200]}", f"set {jvm.JAVA_HOME_VARIABLE} to a JDK"
        )
    version = next((line for line in process.stderr.splitlines() if "version" in line), "")
    return f"{version.strip()} at {java}"


def kafka_reader() -> str:
    from tabletopic_kernel.clients.kafka.ranges.reading import why_slow

    if why := why_slow():
        raise Failed(
            f"the C function that copies records cannot be loaded ({why}); hosts need several times the CPU "
            "time for reading",
            "install the wheel for this platform, or install again where there is a C compiler",
            "warn",
        )
    return "records are copied by the C function"


def jars() -> str:
    from tabletopic_kernel.local.java import jvm
    from tabletopic_kernel.local.progress import Step

    def refuse(step: Step) -> None:  # a download is due: that is left to `up`
        raise Failed(
            f"not downloaded yet ({step.detail})", "`tabletopic up` downloads them, about 270 MB", "warn"
        )

    jars = jvm.install(refuse)
    return f"{len(jars.of('spark'))} for Spark and those of the servers in {jars.folder}"


def extensions() -> str:
    import duckdb

    from tabletopic_kernel.query.duckdb_connection import EXTENSIONS, connect

    connect().close()
    return f"DuckDB {duckdb.__version__} with {', '.join(EXTENSIONS)}"


def limits() -> str:
    from tabletopic_kernel.local.machine import need_limits

    limits, free = need_limits(), psutil.virtual_memory().available
    memory = f"{free / 1024**3:.1f} GiB of memory available"
    if free < _LEAST_MEMORY_BYTES:
        raise Failed(memory, "close other programs: servers and Spark use about 2 GiB", "warn")
    return f"{limits}, {memory}"


def disk(state_dir: Path) -> str:
    from tabletopic_kernel.local.java import jars

    free_space = []
    for name, folder in (("state folder", state_dir), ("cache", jars.cache_dir())):
        free = shutil.disk_usage(_existing(folder)).free
        free_space.append(f"{name} {free / 1024**3:.1f} GiB free")
        if free < _ENOUGH_BYTES:
            raise Failed(
                free_space[-1],
                f"free disk space at {folder}, or choose another folder",
                "fail" if free < _LEAST_BYTES else "warn",
            )
    return ", ".join(free_space)


def state_folder(state_dir: Path) -> str:
    folder = _existing(state_dir)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise Failed(f"cannot write to {folder}", "choose another folder with --state-dir")
    return str(state_dir) if folder == state_dir else f"{state_dir} (created when needed)"


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


def ports(state_dir: Path, servers: tuple[str, ...]) -> str:
    from tabletopic_kernel.local import machine, state
    from tabletopic_kernel.local.stack import LocalStack

    with socket.socket() as probe:
        probe.bind((machine.LOOPBACK, 0))
    if servers and stack(state_dir, servers) is not None:
        return "the local stack has its own"
    known = LocalStack(state_dir, servers=servers).known()
    running = set(known.pids) - set(known.ended) if known else set()  # a server may have ended by itself
    records = state.load(state_dir).items()
    last_ports = [port for name, record in records if name not in running for port in record.ports.values()]
    in_use = [str(port) for port in last_ports if not machine.is_free_port(port)]
    if in_use:
        raise Failed(
            f"{', '.join(in_use)} of the last start: in use by another program",
            "nothing to do: `tabletopic up` chooses others",
            "warn",
        )
    choice = "those of the last start are free" if last_ports else "free ones are chosen at the start"
    return f"loopback works; {choice}"


def stack(state_dir: Path, servers: tuple[str, ...]) -> StackInfo | None:
    from tabletopic_kernel.local.stack import LocalStack

    return LocalStack(state_dir, servers=servers).info()


def login(settings: Settings) -> str:
    """Whether the local stack is open to every user of this machine, and whether it should be."""
    from tabletopic_kernel.workbench.config import behind_hub, wants_login

    servers = embedded_servers(settings)
    info = stack(Path(settings.state_dir), servers)
    logins = {"kafka": info.kafka_login, "registry": info.registry_login} if info is not None else {}
    has_login = info is not None and all(logins[name] for name in servers)
    subject = " and ".join("broker" if name == "kafka" else name for name in servers)
    reason = f"local.login is {settings.local.login}"
    if settings.local.login == "auto":
        others = (
            "others have accounts on this machine" if wants_login(settings) else "nobody else has an account"
        )
        reason += f", {'behind a JupyterHub' if behind_hub() else others}"
    s, are = ("s", "is") if len(servers) == 1 else ("", "are")
    state = f"require{s} one" if has_login else f"{are} open to every user of this machine"
    if has_login != wants_login(settings):
        wanted = "with" if wants_login(settings) else "without"
        raise Failed(
            f"{subject} {state}, but {reason}",
            f"restart the stack {wanted} a login: `tabletopic down`, `tabletopic up`; then restart the hosts",
            "warn",
        )
    return f"{subject} {state} ({reason})"
