"""Free ports, locks, room, and what the system's errors mean."""

from __future__ import annotations

import errno
import multiprocessing
import os
import socket
from collections import namedtuple
from pathlib import Path

import pytest

from tabletopic_kernel.local import machine
from tabletopic_kernel.model.errors import StackError


def test_a_listening_port_is_not_free() -> None:
    """It accepts connections; a server on every interface would catch our clients, too."""
    with socket.create_server((machine.LOOPBACK, 0)) as server:
        taken = server.getsockname()[1]
        assert not machine.is_free_port(taken)
        assert machine.is_listening(taken)
    assert machine.is_free_port(taken)
    assert not machine.is_listening(taken)
    with socket.create_server(("0.0.0.0", 0)) as server:
        assert not machine.is_free_port(server.getsockname()[1])


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.ENOSPC, "disk is full"), (errno.EACCES, "no permission"), (errno.EROFS, "read-only")],
)
def test_errors_of_the_system_say_what_to_do(number: int, words: str, tmp_path: Path) -> None:
    """Full, forbidden and read-only become errors that name the file and the remedy."""
    with pytest.raises(StackError, match=rf"/data/x.*{words}"), machine.stack_errors(tmp_path, "--here"):
        raise OSError(number, os.strerror(number), "/data/x")


def test_too_little_room_is_refused_before_the_work(monkeypatch, tmp_path: Path) -> None:
    """The message says how much is needed and how much is there."""
    usage = namedtuple("usage", "total used free")(0, 0, 5 * 1024**2)
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(StackError, match=r"needs 800 MiB in .*only 5 MiB"):
        machine.need_space(tmp_path, 800 * 1024**2, "It")


def _hold(path: Path, taken, release) -> None:
    with machine.file_lock(path, lambda: None):
        taken.set()
        release.wait()


def test_a_lock_is_held_against_other_processes_and_freed_by_death(tmp_path: Path) -> None:
    """A second process waits, is told so, gives up in time; a holder that is killed holds nothing."""
    context = multiprocessing.get_context("spawn")
    taken, release = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(tmp_path / "lock", taken, release))
    holder.start()
    assert taken.wait(240)
    told = []
    with (
        pytest.raises(StackError, match="end it first"),
        machine.file_lock(tmp_path / "lock", lambda: told.append("waiting"), timeout_s=0.2),
    ):
        pass
    assert told == ["waiting"]
    holder.kill()
    holder.join()
    with machine.file_lock(tmp_path / "lock", lambda: told.append("again")):
        assert told == ["waiting"]


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """The new text with its mode and nothing else; a failed write leaves no draft."""
    path = tmp_path / "state"
    machine.write_whole(path, "one")
    machine.write_whole(path, "two", mode=0o755)
    assert path.read_text() == "two"
    assert path.stat().st_mode & 0o777 == 0o755
    assert list(tmp_path.iterdir()) == [path]
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        machine.write_whole(tmp_path / "folder", "secret")
    assert {path.name for path in tmp_path.iterdir()} == {"state", "folder"}


def test_the_tail_of_a_log_is_its_last_lines(tmp_path: Path) -> None:
    """Missing and broken ones do not matter, and an error that nobody can act on stays what it is."""
    log = tmp_path / "log"
    assert machine.tail(log, 3) == ""
    log.write_bytes(b"x" * 5000 + b"\n\xff one\ntwo\nthree\n")
    assert machine.tail(log, 2) == "two\nthree"
    with pytest.raises(BrokenPipeError), machine.stack_errors(tmp_path, "--here"):
        raise BrokenPipeError(errno.EPIPE, "broken")
