"""Orders of a drill: who carries them out, once, and what it does to itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabletopic_kernel.local.crash_points import Act, Order, obey
from tabletopic_kernel.model import steps
from tabletopic_kernel.model.steps import Step, reach
from tests.drill.crash_points import CrashPoints

_REACH = """
import sys
from tabletopic_kernel.model.steps import Step, reach
from tabletopic_kernel.local.crash_points import obey

obey()
reach(Step.CLAIM)
reach(Step.COMMIT)
print("survived")
"""


@pytest.fixture
def points(tmp_path: Path) -> CrashPoints:
    """A folder of orders."""
    return CrashPoints(tmp_path / "orders")


@pytest.fixture
def obeying(points: CrashPoints) -> Iterator[None]:
    """This process carries them out."""
    before = list(steps._handlers)
    obey(points.environment())
    yield
    steps._handlers[:] = before


def run(points: CrashPoints) -> subprocess.CompletedProcess[str]:
    """A process that claims and commits."""
    environment = {**os.environ, **points.environment()}
    command = [sys.executable, "-c", _REACH]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.parametrize(("act", "number"), [(Act.KILL, signal.SIGKILL), (Act.TERMINATE, signal.SIGTERM)])
def test_a_process_ends_itself_at_the_step(points: CrashPoints, act: Act, number: int) -> None:
    """It is gone at the step it was armed for, and the drill learns which process that was; once."""
    order = Order("1", Step.COMMIT, act)
    points.arm(order)
    ended = run(points)
    assert ended.returncode == -number
    assert (hit := points.hit(order)) is not None
    assert hit.pid > 0
    assert run(points).stdout == "survived\n"


def test_without_an_order_nothing_happens(points: CrashPoints) -> None:
    """An order that was taken back, or is for another step, is not carried out."""
    order = Order("1", Step.COMMIT, Act.KILL)
    points.arm(order)
    points.disarm(order)
    points.arm(Order("2", Step.SWEEP, Act.KILL))
    assert run(points).stdout == "survived\n"
    assert points.hit(order) is None


@pytest.mark.usefixtures("obeying")
def test_a_step_can_fail_or_be_held(points: CrashPoints) -> None:
    """The error is the operating system's, once; a held process waits until it is let go, or the end."""
    points.arm(Order("1", Step.MANIFEST, Act.FAIL))
    with pytest.raises(OSError, match="manifest"):
        reach(Step.MANIFEST)
    reach(Step.MANIFEST)
    order = Order("1", Step.TAGGED, Act.HOLD, limit_s=60)
    points.arm(order)
    holding = threading.Thread(target=reach, args=(Step.TAGGED,), daemon=True)
    holding.start()
    while points.hit(order) is None:
        assert holding.is_alive()
    assert holding.is_alive()
    points.release(order)
    holding.join(240)
    assert not holding.is_alive()
    points.arm(Order("2", Step.TAGGED, Act.HOLD, limit_s=0.01))  # nobody lets this round go
    reach(Step.TAGGED)
