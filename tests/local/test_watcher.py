"""What ends with a Jupyter server that was killed: idle processes stand for servers and hosts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from tabletopic_kernel.local import hosts, processes, watcher
from tabletopic_kernel.local.servers import broker

_IDLE = "import sys; print('here', flush=True); sys.stdin.read()"
_JUPYTER = """
import sys
from pathlib import Path
from tabletopic_kernel.local import watcher
print(watcher.start_keeper(Path(sys.argv[1])).pid, flush=True)
sys.stdin.read()
"""


class Processes:
    """Those of a test; they end with it."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir
        self._open = ExitStack()

    def start(self, code: str, *words: str) -> tuple[subprocess.Popen[str], str]:
        """A Python process with these words on its command line, and its first line."""
        command = [sys.executable, "-c", code, *words]
        one = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._open.enter_context(one)
        self._open.callback(one.kill)
        return one, one.stdout.readline()

    def jupyter(self) -> tuple[subprocess.Popen[str], psutil.Process]:
        """A process that starts a keeper, and that keeper."""
        one, line = self.start(_JUPYTER, str(self.state_dir))
        return one, psutil.Process(int(line))

    def close(self) -> None:
        """End them all."""
        self._open.close()


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Processes]:
    """Processes around a state folder; keepers too are gone afterwards."""
    made = Processes(tmp_path)
    yield made
    made.close()
    processes.stop([one for _, one in processes.find({processes.mark(watcher.KEEPER, tmp_path)})], 10)


def test_servers_and_hosts_end_with_a_killed_jupyter_server(started: Processes, tmp_path: Path) -> None:
    """Whoever started them; those of another folder, and a host in a terminal, go on."""
    jupyter, its_keeper = started.jupyter()
    ends = [
        started.start(_IDLE, processes.mark(broker.NAME, tmp_path))[0],
        started.start(_IDLE, "serve", hosts.host_mark(tmp_path))[0],
    ]
    stays = [
        started.start(_IDLE, processes.mark(broker.NAME, tmp_path / "other"))[0],
        started.start(_IDLE, "serve", hosts.host_mark(tmp_path / "other"))[0],
        started.start(_IDLE, "serve", "--state-dir", str(tmp_path))[0],
    ]
    jupyter.kill()
    for end in ends:
        end.wait(240)
    psutil.wait_procs([its_keeper], timeout=240)
    assert not its_keeper.is_running()
    assert [stay.poll() for stay in stays] == [None] * len(stays)


def test_another_jupyter_server_keeps_the_stack(started: Processes, tmp_path: Path) -> None:
    """Of two on one state folder, as one that is started anew, the last one takes the servers with it."""
    first, first_keeper = started.jupyter()
    second, _ = started.jupyter()
    server, _ = started.start(_IDLE, processes.mark(broker.NAME, tmp_path))
    first.kill()
    first.wait()
    psutil.wait_procs([first_keeper], timeout=240)
    assert not first_keeper.is_running()
    assert server.poll() is None
    second.kill()
    assert server.wait(240) != 0


def test_a_host_of_a_program_is_stopped_by_name(started: Processes, tmp_path: Path) -> None:
    """`tabletopic down` finds it by its mark, and says so before it waits."""
    host, _ = started.start(_IDLE, "serve", "--mark", hosts.host_mark(tmp_path))
    lines: list[str] = []
    assert hosts.stop_detached(tmp_path, lines.append) == [host.pid]
    assert lines == ["stopping the host in the background; staged files are committed first …"]
    assert host.poll() is not None
