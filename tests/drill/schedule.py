"""What happens when, from the seed alone: rounds of faults, without carrying them out."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from tabletopic_kernel.local.crash_points import Act
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.steps import Step


class Fault(StrEnum):
    """Something that goes wrong, or that somebody else does; ``GROUPS`` groups them."""

    KILL_HOST = "kill_host"
    STOP_HOST = "stop_host"  # SIGTERM
    FREEZE_HOST = "freeze_host"  # SIGSTOP to the host and its descendants, later SIGCONT
    KILL_SPARK = "kill_spark"
    FREEZE_SPARK = "freeze_spark"
    KILL_WORKERS = "kill_workers"  # the executors' Python workers
    KILL_BROKER = "kill_broker"
    FREEZE_BROKER = "freeze_broker"
    KILL_REGISTRY = "kill_registry"
    FREEZE_REGISTRY = "freeze_registry"
    LOCK_CATALOG = "lock_catalog"
    SLOW_CATALOG = "slow_catalog"  # briefly locked, again and again
    REFUSE_COMMITS = "refuse_commits"
    FILL_DISK = "fill_disk"
    FOREIGN_APPEND = "foreign_append"
    FOREIGN_EXPIRE = "foreign_expire"
    FOREIGN_REWRITE = "foreign_rewrite"
    FOREIGN_ROLLBACK = "foreign_rollback"
    FOREIGN_COLUMN = "foreign_column"
    FOREIGN_PARTITION = "foreign_partition"
    FOREIGN_ORDER = "foreign_order"
    FOREIGN_TAG = "foreign_tag"
    FOREIGN_BRANCH = "foreign_branch"
    FOREIGN_LETTERS = "foreign_letters"  # append to the dead letters, or expire theirs
    PAUSE = "pause"  # and resume
    ALTER = "alter"
    COMMIT = "commit"
    DISABLE = "disable"  # and enable
    REPLAY = "replay"
    COMPACT = "compact"
    EXPIRE = "expire"
    EVOLVE = "evolve"  # a new version of the schema
    ADD_PARTITION = "add_partition"
    RETENTION = "retention"  # the oldest records are deleted, up to what the table has
    GAP = "gap"  # records are deleted before they are read, in a topic that skips gaps


F = Fault
GROUPS: dict[str, tuple[Fault, ...]] = {
    "hosts": (F.KILL_HOST, F.STOP_HOST, F.FREEZE_HOST, F.KILL_SPARK, F.FREEZE_SPARK, F.KILL_WORKERS),
    "servers": (F.KILL_BROKER, F.FREEZE_BROKER, F.KILL_REGISTRY, F.FREEZE_REGISTRY),
    "catalog": (F.LOCK_CATALOG, F.SLOW_CATALOG, F.REFUSE_COMMITS),
    "disk": (F.FILL_DISK,),
    "foreign": tuple(one for one in F if one.startswith("foreign_")),
    "orders": (F.PAUSE, F.ALTER, F.COMMIT, F.DISABLE, F.REPLAY, F.COMPACT, F.EXPIRE),
    "topics": (F.EVOLVE, F.ADD_PARTITION, F.RETENTION, F.GAP),
}
# After these, a host or a server it needs must restart: at most one per round, and not in every round.
HEAVY = frozenset({*GROUPS["hosts"], F.KILL_BROKER, F.KILL_REGISTRY, F.FREEZE_BROKER}) - {F.KILL_WORKERS}
HEAVY_SHARE = 0.2
# These are sometimes tried alone: how long does another host need?
_ALONE = (F.KILL_HOST, F.STOP_HOST)
ALONE_EVERY = 24

# Faults that provoke a rare step. The other steps are passed in every commit.
PROVOKED_BY: dict[Step, Fault] = {
    **dict.fromkeys((Step.TAKE_OVER, Step.CLAIM, Step.CLAIMED, Step.OWNED), F.ALTER),
    **dict.fromkeys((Step.SWEEP, Step.DELETE, Step.SWEPT, Step.DRAIN), F.ALTER),
    **dict.fromkeys((Step.EVOLVE, Step.EVOLVED, Step.DISCARD), F.EVOLVE),
    **dict.fromkeys((Step.REPLAY, Step.MARKED, Step.REPLAYED), F.REPLAY),
    **dict.fromkeys((Step.COMPACT, Step.COMPACTED), F.COMPACT),
    **dict.fromkeys((Step.EXPIRE, Step.EXPIRED), F.EXPIRE),
}
# The topics that provoke a step, where it matters: the one whose schemas change and whose letters may become
# rows, or all of them.
PROVOKED_OF: dict[Step, tuple[str, ...]] = {
    **dict.fromkeys((Step.EVOLVE, Step.EVOLVED, Step.DISCARD), ("orders",)),
    **dict.fromkeys((Step.REPLAY, Step.MARKED, Step.REPLAYED), ("orders",)),
    Step.DELETE: ("orders", "payments", "visits", "accounts"),
}
# Steps that first need an orphan or a lost response: the act at another step that leaves one.
PREPARED_BY: dict[Step, tuple[Step, Act]] = {
    Step.DELETE: (Step.STAGED, Act.KILL),
    Step.SETTLE: (Step.SENT, Act.FAIL),
}
# Where the operating system can raise errors.
_CAN_FAIL = frozenset({Step.STAGE, Step.STAGED, Step.MANIFEST, Step.SENT})
# Reached by a Python worker, so only that dies there.
_OF_WORKERS = frozenset({Step.STAGE, Step.STAGED})
# What can happen while a process is held at a step.
_WHILE_HELD = (
    *GROUPS["foreign"], F.LOCK_CATALOG, F.REFUSE_COMMITS, F.FREEZE_BROKER, F.KILL_SPARK, F.KILL_WORKERS,
    F.KILL_REGISTRY, F.COMMIT, F.PAUSE,
)  # fmt: skip


SPAN_S, SHORT_SPAN_S = 3.0, 1.5
BESIDES, SHORT_BESIDES = (3, 6), (2, 4)

_DEADLY = frozenset({Act.KILL, Act.FREEZE, Act.TERMINATE})
# The fault that must have been chosen for an act.
_NEEDS = {Act.KILL: F.KILL_HOST, Act.FREEZE: F.FREEZE_HOST, Act.TERMINATE: F.STOP_HOST}


@dataclass(frozen=True)
class Round:
    """One round: an act at a step, and faults at other times; or one fault ``alone``.

    ``held``: what happens while the step is held, if ``act`` is ``HOLD``.
    ``besides``: seconds after the round's start, and what happens then.
    """

    number: int
    step: Step | None
    act: Act | None
    held: Fault | None
    besides: tuple[tuple[float, Fault], ...]
    alone: Fault | None = None

    @property
    def faults(self) -> int:
        """The number of faults in it."""
        return len(self.besides) + (self.step is not None) + (self.alone is not None)

    @property
    def is_heavy(self) -> bool:
        """Whether a host, or a server it needs, must restart after it."""
        at_step = self.act in _DEADLY and self.step not in _OF_WORKERS
        return at_step or not HEAVY.isdisjoint({self.held, self.alone, *(fault for _, fault in self.besides)})

    def __str__(self) -> str:
        alone = [f"{self.alone} alone"] if self.alone else []
        at_step = [f"{self.held or self.act} at {self.step}"] if self.step else []
        return ", ".join(
            alone + at_step + [f"{fault} after {seconds:.1f} s" for seconds, fault in self.besides]
        )


def chosen(names: Collection[str]) -> frozenset[Fault]:
    """The faults with these names of faults and groups; all if there are no names.

    Raises:
        UsageError: a name does not exist.
    """
    found: set[Fault] = set()
    for name in names:
        if name in GROUPS:
            found.update(GROUPS[name])
        elif name in Fault._value2member_map_:
            found.add(Fault(name))
        else:
            raise UsageError(
                f"unknown fault {name!r}; use one of {', '.join(Fault)}, or a group: {', '.join(GROUPS)}"
            )
    return frozenset(found or Fault)


def rounds(
    seed: int,
    faults: frozenset[Fault],
    *,
    besides: tuple[int, int] = BESIDES,
    span_s: float = SPAN_S,
    heavy: float = HEAVY_SHARE,
    alone_every: int = ALONE_EVERY,
    missed: Callable[[], Mapping[Step, int]] = dict,
) -> Iterator[Round]:
    """Endless rounds, the same for the same arguments; each takes one of the least frequent steps so far.

    Args:
        seed: any number.
        faults: what may happen.
        besides: the minimum and maximum number of faults besides the one at the step.
        span_s: seconds in which these begin.
        heavy: the share of rounds after which a host, or a server it needs, must restart.
        alone_every: how often a round ends a host alone, if that was chosen.
        missed: called before each round: how often a step was tried and not reached. A miss counts half: the
            step is soon tried again, and an unreachable one takes at most twice its share.
    """
    dice, step_dice = random.Random(seed), random.Random(f"{seed} steps")
    came: Counter[Step] = Counter()
    light = sorted(faults - HEAVY)
    often = [one for one in light if one is not F.EVOLVE]  # an ever wider table only gets slower
    weighty = sorted(faults & HEAVY)
    alone = itertools.cycle([one for one in _ALONE if one in faults] or [None])
    for number in itertools.count(1):
        if number % alone_every == 0 and (single := next(alone)) is not None:
            yield Round(number, None, None, None, (), single)
            continue
        is_heavy = dice.random() < heavy
        in_vain = missed()
        worth = {one: came[one] - in_vain.get(one, 0) / 2 for one in Step}
        step = step_dice.choice([one for one in Step if worth[one] == min(worth.values())])
        came[step] += 1
        choices = _choices(step, faults, is_heavy and dice.random() < 0.7)
        act, held = dice.choice(choices) if choices else (None, None)
        count = dice.randint(*besides) if light else 0
        others = [(round(dice.uniform(0, span_s), 2), dice.choice(often * 3 + light)) for _ in range(count)]
        this = Round(number, step if choices else None, act, held, tuple(sorted(others)))
        if weighty and (is_heavy or not choices) and not this.is_heavy:
            others.append((round(dice.uniform(0, span_s * 2 / 3), 2), dice.choice(weighty)))
        yield replace(this, besides=tuple(sorted(others)))


def _choices(step: Step, faults: frozenset[Fault], heavy: bool) -> list[tuple[Act, Fault | None]]:
    """What may happen at a step, and while it is held; of the other kind if there is nothing of this one."""
    deadly = [(act, None) for act, fault in _NEEDS.items() if fault in faults and act in _DEADLY]
    held = [(Act.HOLD, one) for one in _WHILE_HELD if one in faults]
    fails = [(Act.FAIL, None)] * 6 if step in _CAN_FAIL and Fault.FILL_DISK in faults else []
    all_ = [*deadly * 3, *held, *fails]
    chosen_ = [one for one in all_ if Round(0, step, *one, ()).is_heavy is heavy]
    return chosen_ or all_
