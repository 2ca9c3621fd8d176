"""What the histories covered: every named step of the protocol, by every actor and every fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tabletopic_kernel.model import steps
from tabletopic_kernel.model.steps import Step
from tests.simulation.faults import CALLS, KINDS, STEP_KINDS, fits

if TYPE_CHECKING:
    from tests.simulation.world import World


class Coverage:
    """Counts, which can be added up over histories."""

    def __init__(self) -> None:
        self.steps: Counter[tuple[str, str]] = Counter()  # actor, step
        self.faults: Counter[tuple[str, str]] = Counter()  # call or step, kind
        self.acts: Counter[tuple[str, str]] = Counter()  # actor, verb

    def add(self, other: Coverage) -> None:
        """Take in another's counts."""
        for name in ("steps", "faults", "acts"):
            getattr(self, name).update(getattr(other, name))

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        return {
            name: {f"{one}|{two}": count for (one, two), count in sorted(getattr(self, name).items())}
            for name in ("steps", "faults", "acts")
        }

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Coverage:
        """What ``to_json`` gave."""
        made = cls()
        for name, counts in plain.items():
            for key, count in counts.items():
                one, two = key.split("|")
                getattr(made, name)[one, two] += count
        return made

    def missing(self) -> list[str]:
        """Pairs that no history covered: an owner at a step, a kind of fault at a call or a step."""
        untouched = [f"{who} at {step}" for who in ("A", "B") for step in Step if not self.steps[who, step]]
        untouched += [
            f"{call}: {kind}"
            for call in CALLS
            for kind in KINDS
            if fits(call, kind) and not self.faults[call, kind]
        ]
        return untouched + [
            f"{step}: {kind}" for step in Step for kind in STEP_KINDS if not self.faults[step, kind]
        ]


@contextmanager
def noting_steps(world: World) -> Iterator[None]:
    """Record each step that a process reaches, and let faults strike there as at calls to the outside."""

    def reached(step: Step) -> None:
        if world.acting is not None:
            world.coverage.steps[world.acting.role, step] += 1
            world.acting.at = step
            world.outside.call(step, lambda: None)

    remove = steps.install(reached)
    try:
        yield
    finally:
        remove()
