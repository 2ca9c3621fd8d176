"""A drill's orders to the processes it tests, which carry them out: at this step, die, freeze, fail or wait.

An order is a file ``armed-<step>`` in the folder that ``$TABLETOPIC_DRILL`` names. The first process that
reaches the step takes it by renaming it to ``hit-<round>``, so each order is carried out once.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from tabletopic_kernel.local.machine import write_whole
from tabletopic_kernel.model.steps import Step, install

VARIABLE = "TABLETOPIC_DRILL"
_LOOK_EVERY_S = 0.02


class Act(StrEnum):
    """What a process does to itself at a step."""

    KILL = "kill"  # kill -9
    FREEZE = "freeze"  # SIGSTOP, until the drill sends SIGCONT
    TERMINATE = "terminate"  # SIGTERM
    FAIL = "fail"  # an OSError, as of a full disk or a lost connection
    HOLD = "hold"  # wait while the drill does something else


@dataclass(frozen=True)
class Order:
    """What to do at ``step``; ``round`` is a name unique to the order."""

    round: str
    step: Step
    act: Act
    limit_s: float = 10.0


@dataclass(frozen=True)
class Hit:
    """An executed order: by which process, and when (seconds since 1970)."""

    pid: int
    at_s: float


def obey(environ: Mapping[str, str] = os.environ) -> None:
    """Execute a drill's orders in this process and those it forks; without a drill, do nothing."""
    if folder := environ.get(VARIABLE):
        install(lambda step: _reached(Path(folder), step))


def _reached(folder: Path, step: Step) -> None:
    order_file = folder / f"taken-{step}-{os.getpid()}"
    try:
        (folder / f"armed-{step}").rename(order_file)
    except FileNotFoundError:
        return
    fields = json.loads(order_file.read_text("utf-8"))
    order = Order(fields["round"], Step(fields["step"]), Act(fields["act"]), fields["limit_s"])
    write_whole(folder / f"hit-{order.round}", json.dumps(asdict(Hit(os.getpid(), time.time()))))
    order_file.unlink()
    if order.act is Act.FAIL:
        raise OSError(f"a drill let step {step} fail")
    if order.act is Act.HOLD:
        ends_at = time.monotonic() + order.limit_s
        while not (folder / f"go-{order.round}").exists() and time.monotonic() < ends_at:
            time.sleep(_LOOK_EVERY_S)
        return
    signals = {Act.KILL: signal.SIGKILL, Act.FREEZE: signal.SIGSTOP, Act.TERMINATE: signal.SIGTERM}
    os.kill(os.getpid(), signals[order.act])
