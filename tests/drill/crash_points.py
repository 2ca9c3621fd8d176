"""Orders to processes, from the drill's side."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from tabletopic_kernel.local.crash_points import VARIABLE, Hit, Order
from tabletopic_kernel.local.machine import write_whole


class CrashPoints:
    """The folder of orders."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def environment(self) -> dict[str, str]:
        """The environment that makes a process follow orders."""
        return {VARIABLE: str(self._folder)}

    def arm(self, order: Order) -> None:
        """Make the next process that reaches the order's step execute it."""
        write_whole(self._folder / f"armed-{order.step}", json.dumps(asdict(order)))

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
        write_whole(self._folder / f"go-{order.round}", "")
