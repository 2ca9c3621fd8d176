"""A drill's orders to the processes it tests: at this step, die, freeze, fail or wait.

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


class CrashPoints:
    """The folder of orders, from the drill's side."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def environment(self) -> dict[str, str]:
        """The environment that makes a process follow orders."""
        return {VARIABLE: str(self._folder)}

    def arm(self, order: Order) -> None:
        """Make the next process that reaches the order's step execute it."""
        _write(self._folder / f"armed-{order.step}", json.dumps(asdict(order)))

    def disarm(self, order: Order) -> None:
        """Withdraw the order, unless it has been executed."""
        (self._folder / f"armed-{order.step}").unlink(missing_ok=True)

    def hit(self, order: Order) -> Hit | None:
        """Who executed the order; None if nobody has yet."""
        try:
            return Hit(**json.loads((self._folder / f"hit-{order.round}").read_text("utf-8")))
        except FileNotFoundError:
            return None

    def release(self, order: Order) -> None:
        """Release a process that is held."""
        _write(self._folder / f"go-{order.round}", "")


def obey(environ: Mapping[str, str] = os.environ) -> None:
    """Execute a drill's orders in this process and those it forks; without a drill, do nothing."""
    if folder := environ.get(VARIABLE):
        install(lambda step: _reached(Path(folder), step))


def _reached(folder: Path, step: Step) -> None:
    taken = folder / f"taken-{step}-{os.getpid()}"
    try:
        (folder / f"armed-{step}").rename(taken)
    except FileNotFoundError:
        return
    read = json.loads(taken.read_text("utf-8"))
    order = Order(read["round"], Step(read["step"]), Act(read["act"]), read["limit_s"])
    _write(folder / f"hit-{order.round}", json.dumps(asdict(Hit(os.getpid(), time.time()))))
    taken.unlink()
    if order.act is Act.FAIL:
        raise OSError(f"a drill let step {step} fail")
    if order.act is Act.HOLD:
        _hold(folder / f"go-{order.round}", order.limit_s)
        return
    signals = {Act.KILL: signal.SIGKILL, Act.FREEZE: signal.SIGSTOP, Act.TERMINATE: signal.SIGTERM}
    os.kill(os.getpid(), signals[order.act])


def _hold(sign: Path, limit_s: float) -> None:
    ends_at = time.monotonic() + limit_s
    while not sign.exists() and time.monotonic() < ends_at:
        time.sleep(_LOOK_EVERY_S)


def _write(path: Path, text: str) -> None:
    """Write atomically: no reader sees a partial file."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
    draft.write_text(text, "utf-8")
    draft.rename(path)
