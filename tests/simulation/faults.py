"""What may go wrong at a call to the outside, as data, and the one place where it does.

A fault is armed for a process and a kind of call, and strikes when that process makes such a call, so a
schedule reads as "the next commit of A: answer lost". All of the product's requests to a catalog, the
storage, the broker, the registry or Spark go through ``Outside.call``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    ServerError,
    ServiceUnavailableError,
)
from sqlalchemy.exc import OperationalError

from tabletopic_kernel.model.errors import RetryableError

if TYPE_CHECKING:
    from tests.simulation.world import World

# Calls to the outside, by the system that answers; the weight says how often a fault is armed for it.
CALLS = {
    "catalog load": 6,
    "catalog create": 3,
    "catalog commit": 8,  # of a claim, of columns, or partitions
    "catalog commit of rows": 50,
    "catalog commit of letters": 8,
    "storage read": 4,
    "storage write": 6,
    "storage stat": 3,
    "storage list": 4,
    "storage delete": 8,
    "broker facts": 2,
    "broker topic id": 3,
    "registry": 12,
    "spark": 2,
}
# What happens there; the weights likewise.
KINDS = {
    "fails": 4,  # an error, and it was not done
    "fails after": 4,  # it was done, and an error comes all the same
    "answer lost": 6,  # it was done; after a minute, in which others go on, the connection is given up
    "comes late": 4,  # the connection is given up, and it is done later, while others go on
    "refused": 3,  # a commit alone: the catalog says that another writer was first
    "twice": 6,  # something between the two sends it again; the second answer comes back
    "slow": 12,  # others go on before it is done
    "slow after": 6,  # others go on before its answer comes
    "dies": 5,  # the process, before it is done
    "dies after": 5,  # the process, before the answer comes
}
# What happens at a named step of the protocol (``model/steps.py``), between two calls.
STEP_KINDS = {"dies": 4, "slow": 6}
_ONLY_COMMITS = {"comes late", "refused"}
OUTAGES = ("catalog", "storage", "broker", "registry", "spark")
_SLOW_MS = 60_000
_NEVER = 1_000_000  # moves: not before somebody lets all late requests arrive


class Died(BaseException):
    """The process was killed in the middle of a call; no ``except Exception`` sees it."""


@dataclass
class Fault:
    """Strikes at a ``call`` of a process, after ``skip`` of them; ``others``: moves made meanwhile."""

    call: str
    kind: str
    skip: int = 0
    others: int = 0

    def __str__(self) -> str:
        later = f", the {self.skip + 1}th from now" if self.skip else ""
        return f"{self.call}: {self.kind}{later}" + (
            f", {self.others} moves meanwhile" if self.others else ""
        )


def fits(call: str, kind: str) -> bool:
    """Whether the kind applies to this call, or step."""
    if call not in CALLS:
        return kind in STEP_KINDS
    return kind not in _ONLY_COMMITS or is_commit(call)


def is_commit(call: str) -> bool:
    """Whether the call is one of those that change a table."""
    return call.startswith("catalog commit")


def error_of(call: str, flavour: int) -> Exception:
    """The product's error when a system does not respond; ``flavour`` chooses among a system's errors."""
    system = call.split(maxsplit=1)[0]
    if system == "catalog":
        kinds: list[Exception] = [
            ConnectionError("connection reset"),
            OperationalError("UPDATE", {}, Exception("database is locked")),
            ServerError("500: internal error"),
            ServiceUnavailableError("503: service unavailable"),
            TimeoutError("timed out"),
        ]
        if is_commit(call):
            kinds.append(CommitStateUnknownException("504: gateway timeout"))
        return kinds[flavour % len(kinds)]
    if system == "storage":
        return [OSError("no space left on device"), TimeoutError("timed out")][flavour % 2]
    if system == "spark":
        return RuntimeError("the JVM is gone")
    return RetryableError(f"the {system} does not respond")


@dataclass(eq=False)
class _Late:
    """An abandoned request: arrives after this many ``moves``."""

    moves: int
    sender: str
    act: Callable[[], Any]


class Outside:
    """Between the product and everything else: counts calls and lets armed faults strike."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.sender: str | None = None  # whose request arrives just now, late
        self.down: dict[str, int] = {}  # system → virtual time when it is back
        self.later: list[_Late] = []  # requests that are still on their way

    def call(self, call: str, act: Callable[[], Any]) -> Any:
        """Do ``act`` for the process whose turn it is; the model's own readers are never disturbed."""
        world = self._world
        process = world.acting
        if process is None:
            return act()
        world.now_ms += 5
        if self.down.get(call.split(maxsplit=1)[0], 0) > world.now_ms:
            raise error_of(call, world.now_ms)
        fault = process.fault_at(call)
        if fault is None:
            return act()
        world.struck(process, fault)
        return self._strike(fault, act)

    def tick(self) -> None:
        """Count a move: late requests come nearer."""
        for late in self.later:
            late.moves -= 1
        self.deliver(only_due=True)

    def deliver(self, *, only_due: bool = False) -> None:
        """Let late requests arrive now; nobody waits for their responses any more."""
        waiting = [late for late in self.later if late.moves <= 0 or not only_due]
        self.later = [late for late in self.later if late not in waiting]
        for late in waiting:
            self.sender = late.sender
            try:
                late.act()
            except Exception:  # refused, as it should be; the reader looks at what is there
                continue
            finally:
                self.sender = None

    def _strike(self, fault: Fault, act: Callable[[], Any]) -> Any:
        world, error = self._world, error_of(fault.call, fault.skip + fault.others)
        if fault.kind == "fails":
            raise error
        if fault.kind == "refused":
            raise CommitFailedException("409: another writer was first")
        if fault.kind == "comes late":
            name = world.acting.name if world.acting else ""
            self.later.append(_Late(fault.others or _NEVER, name, act))
            world.now_ms += _SLOW_MS
            raise error
        if fault.kind == "dies":
            raise Died
        if fault.kind == "slow":
            world.meanwhile(fault.others, _SLOW_MS)
            return act()
        answer = act()
        if fault.kind == "fails after":
            raise error
        if fault.kind == "dies after":
            raise Died
        if fault.kind == "twice":
            return act()
        world.meanwhile(fault.others, _SLOW_MS)
        if fault.kind == "answer lost":
            raise error
        return answer
