"""This machine: its clock, free ports, file locks, disk space, and the meaning of system errors."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import grp
import os
import pwd
import random
import resource
import shutil
import socket
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from tabletopic_kernel.model.errors import StackError


def now_ms() -> int:
    """Milliseconds since 1970, as in Kafka's timestamps and Iceberg's snapshots."""
    return time.time_ns() // 1_000_000


def elapsed_ms() -> int:
    """Monotonic milliseconds, unaffected by changes to the system clock."""
    return time.monotonic_ns() // 1_000_000


LOOPBACK = "127.0.0.1"
# Spark has several hundred files open, with its jars, and so has a broker with a few topics; Java raises the
# soft limit to the hard one itself. Threads count as processes: servers and Spark have about 500.
_LIMITS = (
    ("open files", "ulimit -n", "LimitNOFILE", resource.RLIMIT_NOFILE, 1, 1_024),
    ("processes", "ulimit -u", "LimitNPROC", resource.RLIMIT_NPROC, 0, 1_000),
)
# Below the range of ports for outgoing connections: a port that is kept across restarts must not be assigned
# to a connection while the server is down.
_PORTS = range(20_000, 32_000)


def is_free_port(port: int) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket() as probe:
        # As servers do: remains of closed connections do not prevent it.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def is_listening(port: int) -> bool:
    """Whether a server accepts connections on the port."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=0.5).close()
    except OSError:
        return False
    return True


def free_port(besides: set[int]) -> int:
    """A free port outside ``besides``."""
    # Random, so that two stacks that start at the same time rarely collide.
    return next(
        port for port in random.sample(_PORTS, len(_PORTS)) if port not in besides and is_free_port(port)
    )


ROOT = 0
_NOBODY = 65_534
_FIRST_PERSON = 500 if sys.platform == "darwin" else 1_000  # lower ids are the system's own accounts
_NO_SHELLS = ("nologin", "false")


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # a container's
        return str(uid)


def has_other_people(
    us: int | None = None,
    accounts: Sequence[pwd.struct_passwd] | None = None,
    name_of: Callable[[int], str] = _user,
) -> bool:
    """Whether somebody besides this user and root can log in to this machine.

    A user who is not listed, but known, is one of a directory, which has others.
    """
    us = os.geteuid() if us is None else us
    accounts = pwd.getpwall() if accounts is None else accounts
    people = {
        account.pw_uid
        for account in accounts
        if account.pw_uid >= _FIRST_PERSON
        and account.pw_uid != _NOBODY
        and not account.pw_shell.endswith(_NO_SHELLS)
    }
    return bool(people - {us}) or (
        us not in {account.pw_uid for account in accounts} and name_of(us) != str(us)
    )


def owners(path: Path) -> set[int]:
    """The user ids of a file or folder, and of the link to it if it is one. Raises OSError."""
    return {path.lstat().st_uid} | ({path.stat().st_uid} if path.exists() else set())


def strangers(path: Path, trusted: Collection[int]) -> str | None:
    """Who besides ``trusted`` owns a file or folder or may write to it, and the remedy; None: nobody.

    A group without other members does not count: with a umask of 002, every file has one. Raises OSError.
    """
    for uid in owners(path) - set(trusted):
        return f"it belongs to {_user(uid)}; if its content is right: `chown {_user(os.geteuid())} {path}`"
    status = path.stat()
    is_group_writable = bool(status.st_mode & 0o020)
    if status.st_mode & 0o002 or (is_group_writable and _members(status.st_gid) - {ROOT, os.geteuid()}):
        return f"others may write to it; if its content is right: `chmod go-w {path}`"
    return None


def _members(group_id: int) -> set[int]:
    """The user ids of a group's members; reads all accounts, also a directory's."""
    group = {account.pw_uid for account in pwd.getpwall() if account.pw_gid == group_id}
    with contextlib.suppress(KeyError):  # a container's, or an account that was removed
        group |= {pwd.getpwnam(name).pw_uid for name in grp.getgrgid(group_id).gr_mem}
    return group


def check_own(folder: Path) -> None:
    """Raise StackError if a state folder exists that others may change: they could place programs in it."""
    with stack_errors(folder, STATE_DIR), contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if trouble := strangers(folder, {os.geteuid()}):
            raise StackError(f"The state folder {folder} is not yours alone: {trouble}, or choose another.")


STATE_DIR = "--state-dir or the setting state_dir"
_REMEDIES = {
    errno.ENOSPC: "the disk is full: free some space, then try again",
    errno.EDQUOT: "the disk quota is used up: free some space, then try again",
    errno.EROFS: "the file system is read-only: choose another folder{choice}",
    errno.EACCES: "no permission: choose a folder that you may write to{choice}",
    errno.EPERM: "no permission: choose a folder that you may write to{choice}",
    errno.ENOTDIR: "a file is where a folder should be: move it, or choose another{choice}",
    errno.EEXIST: "a file is where a folder should be: move it, or choose another{choice}",
}


@contextlib.contextmanager
def stack_errors(folder: Path, setting: str) -> Iterator[None]:
    """Turn an OSError that the user can fix into a StackError about ``folder``, which ``setting`` chooses."""
    try:
        yield
    except OSError as error:
        if (remedy := remedy_of(error, setting)) is None:
            raise
        raise StackError(f"Cannot use {error.filename or folder}: {remedy}.") from error


def remedy_of(error: OSError, setting: str = "") -> str | None:
    """What is wrong, and what the user can do, such as change ``setting``; None if nothing is known."""
    remedy = _REMEDIES.get(error.errno or 0)
    return remedy and remedy.format(choice=f" with {setting}" if setting else "")


def need_space(folder: Path, needed_bytes: int, purpose: str) -> None:
    """Raise StackError unless ``needed_bytes`` are free at ``folder``."""
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise StackError(
            f"{purpose} needs {needed_bytes // 1024**2} MiB in {folder}, but only {free // 1024**2} MiB "
            "are free: free some space or choose another folder."
        )


def need_limits() -> str:
    """The limits of this process and its children, in words; StackError if Java would fail with them."""
    limits = []
    for counted, command, unit, limit, soft_or_hard, needed in _LIMITS:
        allowed = resource.getrlimit(limit)[soft_or_hard]
        if 0 <= allowed < needed:
            raise StackError(
                f"only {allowed:,} {counted} are allowed here, and Java needs {needed:,}: raise the limit "
                f"with `{command} {needed}`, or {unit} in a systemd unit"
            )
        limits.append(f"{'unlimited' if allowed < 0 else f'{allowed:,}'} {counted}")
    return ", ".join(limits)


@contextlib.contextmanager
def file_lock(path: Path, on_wait: Callable[[], None], timeout_s: float = 900) -> Iterator[None]:
    """Hold the lock on ``path`` against other processes; ``on_wait`` is called once if another has it.

    The operating system releases the lock of a process that dies. Raises StackError after ``timeout_s``.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        deadline = time.monotonic() + timeout_s
        waiting = False
        while not _try_lock(handle):
            if not waiting:
                waiting = True
                on_wait()
            if time.monotonic() > deadline:
                raise StackError(f"Another process has held {path} for {timeout_s:.0f} s: end it first.")
            time.sleep(0.05)
        yield
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def logs_folder(state_dir: Path) -> Path:
    """The folder for logs in a state folder, both created if missing; nobody else has access to them.

    Raises StackError if the state folder is another user's, or OSError.
    """
    check_own(state_dir)
    folder = state_dir / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    state_dir.chmod(0o700)
    check_own(state_dir)  # some file systems, such as Windows', ignore modes
    return folder


def write_whole(path: Path, text: str, mode: int = 0o600) -> None:
    """Replace a file atomically: a reader finds the old text or the new one, never a part."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
            file.write(text)
        fresh.chmod(mode)  # independent of the umask
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def tail(path: Path, lines: int) -> str:
    """The last lines of a log; empty if there is none."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - 200 * lines))
            text = log.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
