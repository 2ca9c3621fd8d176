"""The outcome of a drill: what was done, what came of it, and how long the topics took to recover."""

from __future__ import annotations

import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tabletopic_kernel.local.crash_points import Act
from tabletopic_kernel.model.steps import Step
from tests.drill.arena import Happening
from tests.drill.schedule import Fault
from tests.drill.tables import Sample, commit_after, handed_over_after
from tests.drill.verdict import TopicVerdict

# A topic without a commit for this long stands still (in seconds as `Patience` counts them).
STANDS_STILL_S = 150.0
# What happened, how often, and the median and maximum time in seconds.
Recovery = tuple[str, int, float, float]
# After these, a topic may need a person: the table is not as its owner left it.
_ASKS_FOR_A_PERSON = frozenset({Fault.FOREIGN_ROLLBACK})


class Patience:
    """A time limit whose seconds count less while the processors are overloaded.

    Args:
        limit_s: seconds on a machine with enough processors.
        crowd: how many times as many processors are needed now; at least 1.
        clock: seconds.
    """

    def __init__(
        self,
        limit_s: float,
        crowd: Callable[[], float] = lambda: os.getloadavg()[0] / (os.cpu_count() or 1),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._left_s, self._crowd, self._clock = limit_s, crowd, clock
        self._looked_at = clock()

    @property
    def is_over(self) -> bool:
        """Whether the time is over; call it at least every few seconds."""
        now = self._clock()
        self._left_s -= (now - self._looked_at) / max(1.0, self._crowd())
        self._looked_at = now
        return self._left_s <= 0


@dataclass(frozen=True)
class StepHit:
    """An order at a step, and whether some process got there."""

    round: int
    step: Step
    act: Act
    held: Fault | None
    hit: bool


@dataclass
class Outcome:
    """The outcome of one drill. ``problems``: what was seen meanwhile and must not happen."""

    seed: int
    began_s: float
    ended_s: float = 0.0
    rounds: int = 0
    happenings: Sequence[Happening] = ()
    steps: list[StepHit] = field(default_factory=list)
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    verdicts: list[TopicVerdict] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    options: str = ""  # that shape the schedule, besides the seed

    @property
    def command(self) -> str:
        """The command that repeats the schedule."""
        more = f" {self.options}" if self.options else ""
        return f'make drill ARGS="--seed {self.seed} --rounds {self.rounds}{more}"'

    @property
    def ok(self) -> bool:
        """Whether each record is where it belongs, once, and no topic stood still."""
        exact = bool(self.verdicts) and all(verdict.ok for verdict in self.verdicts)
        return exact and not self.problems

    @property
    def faults(self) -> list[Happening]:
        """The faults that succeeded."""
        return [happening for happening in self.happenings if happening.is_fault]

    def stood_still(self, topic: str, seconds: float, state: str) -> None:
        """Record that a topic did not commit."""
        self.problems.append(f"{topic} did not commit for {seconds:.0f} s ({state})")

    def failed(self, topic: str, reason: str, happenings: Sequence[Happening]) -> None:
        """Record that the topic stopped for a person, and whether that was right."""
        if not any(
            happening.what in _ASKS_FOR_A_PERSON and happening.target == topic for happening in happenings
        ):
            self.problems.append(f"{topic} failed without a cause: {reason}")

    def recoveries(self) -> dict[str, list[float]]:
        """Seconds until the slowest topic had committed again, by kind of fault; faults may overlap."""
        found: dict[str, list[float]] = {}
        for fault in self.faults:
            waits = [commit_after(samples, fault.at_s) for samples in self.samples.values()]
            if waits and None not in waits and not fault.moved:
                found.setdefault(fault.what, []).append(max(wait - fault.at_s for wait in waits if wait))
        return found

    def hand_overs(self) -> dict[str, list[float]]:
        """Seconds until the next owner of each topic of the host had committed, by kind of fault.

        Only for hosts that were ended alone, while another stood by and nothing else went wrong.
        """
        found: dict[str, list[float]] = {}
        for fault in self.faults:
            waits = [handed_over_after(self.samples[topic], fault.at_s) for topic in fault.moved]
            if waits and None not in waits:
                found.setdefault(fault.what, []).append(max(wait - fault.at_s for wait in waits if wait))
        return found

    def recovery_table(self) -> list[Recovery]:
        """Slowest first."""
        return _sums(self.recoveries())

    def hand_over_table(self) -> list[Recovery]:
        """Slowest first."""
        return _sums(self.hand_overs())

    def step_table(self) -> list[tuple[Step, int, int]]:
        """Every step, with how often something was done there, and how often it was not reached in time."""
        hits = Counter(one.step for one in self.steps if one.hit)
        missed = Counter(one.step for one in self.steps if not one.hit)
        return [(step, hits[step], missed[step]) for step in Step]


def _sums(seconds: Mapping[str, Sequence[float]]) -> list[Recovery]:
    rows = [(name, len(some), statistics.median(some), max(some)) for name, some in seconds.items()]
    return sorted(rows, key=lambda row: -row[2])
