"""What happens when, by the seed alone: rounds of faults, without any doing."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum

from tabletopic_kernel.core.errors import UsageError
from tabletopic_kernel.core.steps import Step
from tabletopic_kernel.local.crash_points import Act


class Fault(StrEnum):
    """Something that goes wrong, or that somebody else does; ``GROUPS`` says what belongs together."""

    KILL_HOST = "kill_host"
    STOP_HOST = "stop_host"  # SIGTERM
    FREEZE_HOST = "freeze_host"  # SIGSTOP to the host and all below it, later SIGCONT
    KILL_SPARK = "kill_spark"
    FREEZE_SPARK = "freeze_spark"
    KILL_WORKERS = "kill_workers"  # Python workers of the executors
    KILL_BROKER = "kill_broker"
    FREEZE_BROKER = "freeze_broker"
    KILL_REGISTRY = "kill_registry"
    FREEZE_REGISTRY = "freeze_registry"
    LOCK_CATALOG = "lock_catalog"
    SLOW_CATALOG = "slow_catalog"  # locked again and again for a moment
    REFUSE_COMMITS = "refuse_commits"
    FILL_DISK = "fill_disk"
    FOREIGN_APPEND = "foreign_append"
    FOREIGN_EXPIRE = "foreign_expire"
    FOREIGN_REWRITE = "foreign_rewrite"
    FOREIGN_ROLLBACK = "foreign_rollback"
    FOREIGN_COLUMN = "foreign_column"
    FOREIGN_PARTITION = "foreign_partition"
    FOREIGN_TAG = "foreign_tag"
    FOREIGN_BRANCH = "foreign_branch"
    PAUSE = "pause"  # and resume
    ALTER = "alter"
    COMMIT = "commit"
    DISABLE = "disable"  # and enable
    REPLAY = "replay"
    EVOLVE = "evolve"  # a new version of the schema
    ADD_PARTITION = "add_partition"
    RETENTION = "retention"  # the oldest records are deleted, up to what the table has


F = Fault
GROUPS: dict[str, tuple[Fault, ...]] = {
    "hosts": (F.KILL_HOST, F.STOP_HOST, F.FREEZE_HOST, F.KILL_SPARK, F.FREEZE_SPARK, F.KILL_WORKERS),
    "servers": (F.KILL_BROKER, F.FREEZE_BROKER, F.KILL_REGISTRY, F.FREEZE_REGISTRY),
    "catalog": (F.LOCK_CATALOG, F.SLOW_CATALOG, F.REFUSE_COMMITS),
    "disk": (F.FILL_DISK,),
    "foreign": tuple(one for one in F if one.startswith("foreign_")),
    "orders": (F.PAUSE, F.ALTER, F.COMMIT, F.DISABLE, F.REPLAY),
    "topics": (F.EVOLVE, F.ADD_PARTITION, F.RETENTION),
}
# After these a host, or what it needs, must start again: at most one in a round.
_HEAVY = frozenset({*GROUPS["hosts"], F.KILL_BROKER, F.KILL_REGISTRY, F.FREEZE_BROKER}) - {F.KILL_WORKERS}

# What makes a step come soon that otherwise comes seldom. The others are passed with every commit.
PROVOKED_BY: dict[Step, Fault] = {
    **dict.fromkeys((Step.TAKE_OVER, Step.CLAIM, Step.CLAIMED, Step.OWNED), F.ALTER),
    **dict.fromkeys((Step.SWEEP, Step.DELETE, Step.SWEPT, Step.DRAIN), F.ALTER),
    **dict.fromkeys((Step.EVOLVE, Step.EVOLVED, Step.DISCARD), F.EVOLVE),
    **dict.fromkeys((Step.REPLAY, Step.MARKED, Step.REPLAYED), F.REPLAY),
}
# Who needs an orphan or a lost answer first: the act at another step that leaves one.
PREPARED_BY: dict[Step, tuple[Step, Act]] = {
    Step.DELETE: (Step.STAGED, Act.KILL),
    Step.SETTLE: (Step.SENT, Act.FAIL),
}
# Where an error of the operating system can come from.
_CAN_FAIL = frozenset({Step.STAGE, Step.STAGED, Step.MANIFEST, Step.SENT})
# What others can do while a process is held at a step.
_WHILE_HELD = (
    *GROUPS["foreign"], F.LOCK_CATALOG, F.REFUSE_COMMITS, F.FREEZE_BROKER, F.KILL_SPARK, F.KILL_WORKERS,
    F.KILL_REGISTRY, F.COMMIT, F.PAUSE,
)  # fmt: skip


@dataclass(frozen=True)
class Round:
    """One round: an act at a step, and others at moments of their own.

    ``held``: what is done to the others while the step is held, where ``act`` is ``HOLD``.
    ``besides``: seconds after the round's start, and what happens then.
    """

    number: int
    step: Step | None
    act: Act | None
    held: Fault | None
    besides: tuple[tuple[float, Fault], ...]

    @property
    def faults(self) -> int:
        """How many things go wrong in it."""
        return len(self.besides) + (self.step is not None)

    def __str__(self) -> str:
        at_step = [f"{self.held or self.act} at {self.step}"] if self.step else []
        return ", ".join(at_step + [f"{fault} after {seconds:.1f} s" for seconds, fault in self.besides])


def chosen(names: Collection[str]) -> frozenset[Fault]:
    """Faults by the names of groups and faults; all for none.

    Raises:
        UsageError: a name that is none.
    """
    found: set[Fault] = set()
    for name in names:
        if name in GROUPS:
            found.update(GROUPS[name])
        elif name in Fault._value2member_map_:
            found.add(Fault(name))
        else:
            raise UsageError(f"no fault is called {name!r}; groups are {', '.join(GROUPS)}, and see --help")
    return frozenset(found or Fault)


def rounds(seed: int, faults: frozenset[Fault], besides: int = 4) -> Iterator[Round]:
    """Rounds without end, the same for the same arguments: every step comes up equally often.

    Args:
        seed: any number.
        faults: what may happen.
        besides: at most so many faults beside the one at the step.
    """
    dice = random.Random(seed)
    light = sorted(faults - _HEAVY)
    heavy = sorted(faults & _HEAVY)
    acts = _acts(faults)
    steps: list[Step] = []
    number = 0
    while True:
        if not steps:
            steps = list(Step)
            dice.shuffle(steps)
        number += 1
        step = steps.pop() if acts else None
        act, held = _act_at(step, acts, faults, dice) if step else (None, None)
        quiet = held in _HEAVY or act in (Act.KILL, Act.FREEZE, Act.TERMINATE)
        count = dice.randint(2, besides) if light else 0
        others = [(round(dice.uniform(0, 4), 2), dice.choice(light)) for _ in range(count)]
        if heavy and not quiet and dice.random() < 0.4:
            others.append((round(dice.uniform(0, 2), 2), dice.choice(heavy)))
        yield Round(number, step, act, held, tuple(sorted(others)))


def _acts(faults: frozenset[Fault]) -> list[Act]:
    found = []
    if Fault.KILL_HOST in faults:
        found += [Act.KILL, Act.KILL]
    if Fault.FREEZE_HOST in faults:
        found.append(Act.FREEZE)
    if Fault.STOP_HOST in faults:
        found.append(Act.TERMINATE)
    if Fault.FILL_DISK in faults:
        found += [Act.FAIL, Act.FAIL]
    if any(one in faults for one in _WHILE_HELD):
        found += [Act.HOLD] * 4
    return found


def _act_at(
    step: Step, acts: list[Act], faults: frozenset[Fault], dice: random.Random
) -> tuple[Act, Fault | None]:
    possible = [act for act in acts if act is not Act.FAIL or step in _CAN_FAIL] or [Act.HOLD]
    act = dice.choice(possible)
    if act is not Act.HOLD:
        return act, None
    return act, dice.choice([one for one in _WHILE_HELD if one in faults] or [Fault.COMMIT])
