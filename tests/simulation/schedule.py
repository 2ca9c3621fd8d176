"""A schedule: the moves of a history, drawn from a seed before anything happens.

The same seed makes the same schedule; each move has its own seed for its choices, so removing moves changes
nothing in the others.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Literal

from tabletopic_kernel.model.steps import Step
from tests.simulation import foreign
from tests.simulation.faults import CALLS, KINDS, STEP_KINDS, fits
from tests.simulation.store import SPELLINGS

ORDERS = {
    "pause": 1,
    "resume": 3,
    "commit": 3,
    "replay": 7,
    "compact": 8,
    "expire": 8,
    "alter": 2,
    "disable": 1,
    "enable": 4,
}
CIRCUMSTANCES = {
    "produce": 26,
    "rebalance": 5,
    "learn a schema": 1,
    "outage": 2,
    "late requests arrive": 2,
    "a staged file is lost": 1,
    "add a partition": 1,
    "retention": 2,
    "neighbour commits": 2,
}
HOST = {"run": 100, "poll": 14, "start": 14, "kill": 2, "fault": 40}
_LONG = ("slow", "slow after", "answer lost", "comes late")  # others go on meanwhile
FIRST_KEYED, KEYED_EVERY = 5, 16  # of so many seeds, one has a table kept by key
_RARE = ("drop", "replace", "roll back", "delete rows")


@dataclass(frozen=True)
class Setting:
    """What stays as it is during a history."""

    seed: int
    spelling: str = "file:///lake"
    on_gap: Literal["stop", "go_on"] = "stop"
    shares_folder: bool = False
    on_sqlite: bool = True
    lenient: bool = False  # of the catalog that is not on SQLite: old sequence numbers are taken
    expires: bool = False  # by itself each quarter of a minute, too
    many_letters: bool = False  # each batch has some; and few files are put together
    sort_by: tuple[str, ...] = ()  # of the topic's table, at first
    large_files: bool = False  # each is larger than the table wants
    keyed: Literal["", "place", "order"] = ""  # the table has one row for each key, the newest by that


@dataclass(frozen=True)
class Move:
    """One move. Of a fault: ``call``, ``kind``, ``skip``, ``others`` as in ``faults.Fault``."""

    actor: str
    verb: str
    seed: int = 0
    of: str = "table"
    call: str = ""
    kind: str = ""
    skip: int = 0
    others: int = 0

    def __str__(self) -> str:
        if self.verb == "fault":
            more = f" after {self.skip} others" if self.skip else ""
            meanwhile = f", {self.others} moves meanwhile" if self.others else ""
            return f"{self.actor}: the next {self.call}{more}: {self.kind}{meanwhile}"
        return f"{self.actor}: {self.verb}" + (" (letters)" if self.of == "letters" else "")


def setting_of(seed: int) -> Setting:
    """The setting of a seed's history."""
    dice = random.Random(f"setting {seed}")
    spelling = dice.choice([one for some in SPELLINGS.values() for one in some])
    on_gap: Literal["stop", "go_on"] = "go_on" if dice.random() < 0.5 else "stop"
    chances = [dice.random() < chance for chance in (0.15, 0.1, 0.2)]
    expires = random.Random(f"expires {seed}").random() < 0.5
    many_letters = random.Random(f"letters {seed}").random() < 0.3
    sort_by = random.Random(f"sorted {seed}").choice([(), (), ("a desc",), ("bucket(3, a)", "a")])
    made = Setting(seed, spelling, on_gap, *chances)
    made = replace(made, expires=expires, many_letters=many_letters, sort_by=sort_by)
    made = replace(made, large_files=random.Random(f"large {seed}").random() < 0.15)
    return replace(
        made, keyed=("place", "order")[seed // KEYED_EVERY % 2] if seed % KEYED_EVERY == FIRST_KEYED else ""
    )


# Where a fault may strike, and how.
PAIRS: list[tuple[str, str]] = [(step, kind) for step in Step for kind in STEP_KINDS]
PAIRS += [(call, kind) for call in CALLS for kind in KINDS if fits(call, kind)]
# What leads to places that are rarely met.
_LEADS_TO: dict[str, dict[tuple[str, str], float]] = {
    Step.REPLAY: {("people", "replay"): 25, ("circumstances", "learn a schema"): 4},
    "catalog create": {("foreign", "drop"): 2},
    "storage list": {("circumstances", "rebalance"): 25},
}
_LEADS_TO |= {step: {("people", "compact"): 30} for step in (Step.COMPACT, Step.COMPACTED)}
_LEADS_TO |= {step: {("people", "expire"): 30} for step in (Step.EXPIRE, Step.EXPIRED)}
_LEADS_TO |= {Step.MARKED: _LEADS_TO[Step.REPLAY], Step.REPLAYED: _LEADS_TO[Step.REPLAY]}
_LEADS_TO |= dict.fromkeys(
    ("storage delete", "spark", Step.SWEEP, Step.DELETE, Step.SWEPT, Step.DRAIN, "broker facts"),
    _LEADS_TO["storage list"],
)


def focus_of(seed: int) -> tuple[str, str] | None:
    """Every third history tests one pair of place and fault, one after the other."""
    return PAIRS[seed // 3 % len(PAIRS)] if seed % 3 == 0 else None


def moves_of(seed: int, length: int = 180) -> list[Move]:
    """The moves of a seed's history.

    Not every history has everything: each omits some kinds of moves, to find errors that need many moves of
    one kind too.
    """
    dice, focus = random.Random(seed), focus_of(seed)
    weights = _weights(seed, dice)
    calm = dice.random() < 0.15
    kinds = {kind: one for kind, one in KINDS.items() if not calm and dice.random() < 0.7}
    names, chances = list(weights), list(weights.values())
    moves = [Move("circumstances", "rebalance", seed), Move("A", "start"), Move("B", "start")]
    moves += [Move("A", "poll"), Move("B", "poll")]
    while len(moves) < length:
        actor, verb, of = dice.choices(names, chances)[0]
        move = Move(actor, verb, dice.getrandbits(32), of)
        if verb == "fault":
            moves += _fault(dice, actor, kinds, focus if move.seed % 2 else None)
        else:
            moves.append(move)
    return moves


def _weights(seed: int, dice: random.Random) -> dict[tuple[str, str, str], float]:
    """How often each move is made."""
    weights: dict[tuple[str, str, str], float] = {}
    for verb, weight in HOST.items():
        for host in ("A", "B"):
            weights[host, verb, "table"] = weight / 2
    weights |= {("people", verb, "table"): one for verb, one in ORDERS.items() if dice.random() < 0.6}
    for verb, weight in CIRCUMSTANCES.items():
        if dice.random() < (0.3 if verb == "retention" else 0.8):
            weights["circumstances", verb, "table"] = weight
    weights["circumstances", "produce", "table"] = CIRCUMSTANCES["produce"]
    weights["circumstances", "rebalance", "table"] = CIRCUMSTANCES["rebalance"]
    if dice.random() < 0.06:
        weights["circumstances", "make the topic anew", "table"] = 1
    if random.Random(f"cut {seed}").random() < 0.1:
        weights["circumstances", "cut the log", "table"] = 1
    share = dice.choice([0.0, 0.5, 1.3])
    for of, known in (("table", foreign.OF_MAIN), ("letters", foreign.OF_LETTERS)):
        for verb, (_, weight) in known.items():
            if dice.random() < (0.15 if verb in _RARE else 0.5):
                weights["foreign", verb, of] = weight * share
    focus = focus_of(seed)
    leads = _LEADS_TO.get(focus[0], {}) if focus else {}
    weights |= {(who, verb, "table"): weight for (who, verb), weight in leads.items()}
    if random.Random(f"refilled {seed}").random() < 0.1:
        weights["circumstances", "refill the registry", "table"] = 2
        weights["people", "accept the new text", "table"] = 3
    return weights


def _fault(
    dice: random.Random, actor: str, kinds: dict[str, int], pair: tuple[str, str] | None
) -> list[Move]:
    """That ``pair``, else any, if there is one."""
    if pair is not None:
        return [_fault_at(dice, actor, *pair)]
    at_step = dice.random() < 0.35
    call = dice.choice(list(Step)) if at_step else dice.choices(list(CALLS), list(CALLS.values()))[0]
    kinds = STEP_KINDS if at_step else kinds
    chosen = {kind: weight for kind, weight in kinds.items() if fits(call, kind)}
    if not chosen:
        return []
    return [_fault_at(dice, actor, call, dice.choices(list(chosen), list(chosen.values()))[0])]


def _fault_at(dice: random.Random, actor: str, call: str, kind: str) -> Move:
    others = dice.choice([1, 3, 8, 20, 40]) if kind in _LONG else 0
    skip = dice.choice([0, 0, 0, 0, 1, 2, 5])
    return Move(actor, "fault", dice.getrandbits(32), call=call, kind=kind, skip=skip, others=others)
