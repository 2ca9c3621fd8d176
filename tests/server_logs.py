"""The servers' last log lines, below a failed test's traceback: whether one ended, and by whom."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import psutil
import pytest

from tabletopic_kernel.local.machine import tail
from tabletopic_kernel.local.stack import StackInfo

_LINES = 12
_FIXTURES = ("stack", "quiet_stack")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add them to the report."""
    report = yield
    if report.failed:
        report.sections += [
            ("what the servers logged last", text) for text in _told(getattr(item, "funcargs", {}))
        ]
    return report


def _told(arguments: dict[str, object]) -> Iterator[str]:
    for name in _FIXTURES:
        stack = arguments.get(name)
        if isinstance(stack, StackInfo):
            lives = {one: _state(pid) for one, pid in stack.pids.items()}
            free = psutil.virtual_memory().available >> 20
            told = [f"{name}: {lives}, {free} MiB free, {_oom_kills()} processes killed for memory"]
            logs = sorted(Path(stack.state_dir, "logs").glob("*"))
            yield "\n".join(told + [f"--- {log.name}\n{tail(log, _LINES)}" for log in logs if log.is_file()])


def _state(pid: int) -> str:
    """A server's state, and how it ended, if its exit code is still available."""
    try:
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # another process started it
        ended = None
    if ended is not None:
        return f"{pid} ended, {'exit code' if ended.si_code == os.CLD_EXITED else 'signal'} {ended.si_status}"
    return f"{pid} {psutil.Process(pid).status()}" if psutil.pid_exists(pid) else f"{pid} gone"


def _oom_kills() -> str:
    """How many processes the kernel has killed for memory since it started; ? if it does not report that."""
    try:
        lines = Path("/proc/vmstat").read_text("ascii").splitlines()
    except OSError:
        return "?"
    return next((line.split()[1] for line in lines if line.startswith("oom_kill ")), "?")
