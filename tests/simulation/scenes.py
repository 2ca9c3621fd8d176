"""Short schedules that lead to one point which chance reaches too rarely to prove anything."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.simulation.schedule import Move

_ROWS = "catalog commit of rows"


def _seed(wanted: Sequence[str], chosen: str) -> int:
    """A move's seed with which its dice choose so, after the time that every move takes."""
    for seed in range(10_000):
        dice = random.Random(seed)
        dice.randint(1, 1500)
        if dice.choice(wanted) == chosen:
            return seed
    raise ValueError(chosen)


def give(host: str) -> Move:
    """The group gives the topic to a host."""
    return Move("circumstances", "rebalance", _seed(["A", "B"], host))


def go_on(host: str, times: int = 12, seed: int = 0) -> list[Move]:
    """The host polls, and does what there is to do."""
    runs = [Move(host, "run", seed * 1_000 + at) for at in range(times)]
    return [Move(host, "poll"), *runs]


def produce(seed: int = 0, times: int = 3) -> list[Move]:
    """Records come in."""
    return [Move("circumstances", "produce", seed * 1_000 + at) for at in range(times)]


def fault(host: str, call: str, kind: str, others: int = 0) -> Move:
    """The host's next call of this kind fails."""
    return Move(host, "fault", call=call, kind=kind, others=others)


def begin(seed: int = 0) -> list[Move]:
    """A owns the topic, its table has rows, and B waits."""
    return [Move("A", "start"), Move("B", "start"), give("A"), *produce(seed), *go_on("A", 20, seed)]


def lost_and_not_done(seed: int = 0) -> list[Move]:
    """The catalog ignores a commit without saying so; it accepts the next ones."""
    return [
        *begin(seed),
        fault("A", _ROWS, "fails"),
        *(move for at in range(1, 5) for move in (*produce(seed + at), *go_on("A", 12, seed + at))),
    ]


def lost_and_built_upon(seed: int = 0) -> list[Move]:
    """A commit is in the table, its answer is lost, and by then another writer's snapshot is the head."""
    return [
        *begin(seed),
        *produce(seed + 1),
        fault("A", _ROWS, "answer lost", 1),
        Move("A", "poll"),
        *(
            move
            for at in range(12)
            for move in (Move("A", "run", seed * 1_000 + 500 + at), Move("foreign", "append", at))
        ),
        *produce(seed + 2),
        *go_on("A", 12, seed + 2),
    ]


def late_after_a_rollback(seed: int = 0) -> list[Move]:
    """A's commit is in flight while B claims the table, the claim is rolled back, and it arrives."""
    return [
        *begin(seed),
        *produce(seed + 1),
        fault("A", _ROWS, "comes late"),
        fault("A", "settle", "dies"),
        *go_on("A", 20, seed + 1),
        give("B"),
        Move("B", "poll"),
        fault("B", "claimed", "dies"),
        *(Move("B", "step", at) for at in range(6)),
        Move("foreign", "roll back", _first_of_some()),
        Move("circumstances", "late requests arrive"),
    ]


def _first_of_some() -> int:
    """A seed whose dice take the first, of one to five."""
    for seed in range(1_000_000):
        dice = [random.Random(seed) for _ in range(5)]
        if not any(one.randint(1, 1500) * 0 + one.choice(range(n)) for n, one in enumerate(dice, 1)):
            return seed
    raise AssertionError


def registry_away(seed: int = 0) -> list[Move]:
    """The registry does not respond for the first records of some schemas."""
    plain = [at for at in range(seed * 100, seed * 100 + 100) if not _is_mixed(at)][:3]
    return [
        *(Move("A", "start"), give("A")),
        *(Move("circumstances", "produce", at) for at in plain),
        *go_on("A", 20, seed),
        *[fault("A", "registry", "fails")] * 3,
        *mixed(seed),
        *go_on("A", 20, seed + 1),
    ]


def ids_given_again(seed: int = 0) -> list[Move]:
    """The registry is emptied and filled again under a running host, and records follow."""
    return [
        *begin(seed),
        *mixed(seed),
        *go_on("A", 30, seed + 1),
        Move("circumstances", "refill the registry"),
        *produce(seed + 2),
        *go_on("A", 30, seed + 2),
        *(move for at in range(3, 6) for move in (*mixed(seed + at), *go_on("A", 20, seed + at))),
    ]


def mixed(seed: int) -> list[Move]:
    """Records of all kinds come in."""
    chosen = [at for at in range(seed * 100, seed * 100 + 100) if _is_mixed(at)][:3]
    return [Move("circumstances", "produce", at) for at in chosen]


def _is_mixed(seed: int) -> bool:
    """Whether ``people.produce`` with this seed makes records of all kinds."""
    dice = random.Random(seed)
    dice.randint(1, 1500)
    return dice.random() < 0.5


def made_anew_beside_letters(seed: int = 0) -> list[Move]:
    """The topic is re-created and its table dropped, and the former topic's letters are still there."""
    return [
        *begin(seed),
        *mixed(seed),
        *go_on("A", 30, seed + 1),
        Move("circumstances", "make the topic anew"),
        Move("foreign", "drop"),
        *produce(seed + 2),
        *mixed(seed + 1),
    ]


def cut_and_grown(seed: int = 0) -> list[Move]:
    """A partition's log loses records that are rows, and goes on longer than before, under a running host."""
    return [
        *begin(seed),
        *(Move("circumstances", "cut the log", at) for at in range(4)),
        *go_on("A", 30, seed + 1),
        *produce(seed + 2),
    ]


def rolled_back_behind_its_ledger(seed: int = 0) -> list[Move]:
    """Others append, keep their snapshot, expire everything before it, and roll back to it after rows of A.

    Then another program appends to it, so the head is newer than the ledger that the tag has kept.
    """
    return [
        *begin(seed),
        Move("foreign", "append"),
        Move("foreign", "expire"),  # all but the ledger, which the tag keeps, and what was appended
        Move("foreign", "tag", _seed(["the ledger", "what was appended"], "what was appended")),
        *produce(seed + 1, 1),
        *go_on("A", 8, seed + 1),  # one commit, of which theirs is the parent
        Move("foreign", "expire"),
        Move("foreign", "roll back"),
        Move("foreign", "append"),
    ]


def replayed_twice(seed: int = 0) -> list[Move]:
    """The rows of a replay are committed, its letters cannot go, and the next replay follows at once."""
    order = [Move("people", "replay", seed), Move("A", "poll")]
    return [
        *begin(seed),
        *mixed(seed),
        *go_on("A", 30, seed + 1),
        Move("circumstances", "learn a schema"),
        Move("A", "fault", call="catalog commit of letters", kind="fails", skip=1),
        *order,
        *(move for at in range(12) for move in (Move("A", "run", seed * 1_000 + 700 + at), *order)),
    ]


def rolled_back_and_expired(seed: int = 0) -> list[Move]:
    """The newest rows are rolled back, others append, and all but that and the kept ledger expires."""
    return [
        *begin(seed),
        *produce(seed + 1),
        *go_on("A", 20, seed + 1),
        give("B"),
        *go_on("B", 2, seed),
        *[Move("foreign", "roll back", at) for at in range(2)],
        Move("foreign", "append"),
        Move("foreign", "expire"),
        *go_on("B", 12, seed + 1),
    ]


def nothing_but_files(seed: int = 0) -> list[Move]:
    """A dies with uncommitted files, and retention deletes their records: nothing is left to do."""
    return [
        *begin(seed),
        *produce(seed + 1),
        fault("A", "commit", "dies"),
        *go_on("A", 12, seed + 1),
        *(Move("circumstances", "retention", at) for at in range(40)),  # each takes some, or all
    ]


def appended_to_and_expired(seed: int = 0) -> list[Move]:
    """Others append while no record comes, until the ledger is far below the head; then A expires."""
    return [
        *begin(seed),
        *[Move("foreign", "append", at) for at in range(4)],
        *wait(),
        Move("people", "expire", seed),
        *go_on("A", 20, seed + 1),
    ]


def tagged_while_it_expires(seed: int = 0) -> list[Move]:
    """A has collected what to delete; then others tag such a snapshot, whose files were rewritten."""
    return [
        *begin(seed),
        *(move for at in range(3) for move in (*produce(seed + at), *go_on("A", 8, seed + at))),
        *(
            move
            for at in range(3)
            for move in (
                Move("foreign", "rewrite", at),
                *produce(seed + 4 + at),
                *go_on("A", 8, seed + 4 + at),
            )
        ),
        *wait(20),
        Move("people", "expire", seed),
        *_looked("A"),
        *[Move("foreign", "tag", at) for at in range(6)],
        *go_on("A", 20, seed + 1),
    ]


def _looked(host: str) -> list[Move]:
    """It begins to expire, has done so with the letters, and knows what would go of the table."""
    steps = [Move(host, "step", at) for at in range(3)]
    return [Move(host, "poll"), *steps, Move(host, "task"), *steps, Move(host, "task")]


def wait(moves: int = 130) -> list[Move]:
    """Nothing happens for a minute and a half."""
    return [Move("circumstances", "late requests arrive", at) for at in range(moves)]


def rewritten_twice(seed: int = 0) -> list[Move]:
    """A has merged small files; before the commit, another program merges some of them."""
    return [
        *begin(seed),
        *(move for at in range(1, 5) for move in (*produce(seed + at), *go_on("A", 12, seed + at))),
        Move("people", "compact"),
        fault("A", "compacted", "slow", 1),
        Move("A", "poll"),
        *(
            move
            for at in range(12)
            for move in (Move("A", "run", seed * 1_000 + 900 + at), Move("foreign", "rewrite", at))
        ),
    ]


def deleted_meanwhile(seed: int = 0) -> list[Move]:
    """A has merged small files; before the commit, another program deletes rows of them by position."""
    return [
        *begin(seed),
        *(move for at in range(1, 5) for move in (*produce(seed + at), *go_on("A", 12, seed + at))),
        Move("people", "compact"),
        fault("A", "compacted", "slow", 7),
        Move("A", "poll"),
        *(
            move
            for at in range(12)
            for move in (Move("A", "run", seed * 1_000 + 900 + at), Move("foreign", "delete positions", at))
        ),
    ]


def deleted_before(seed: int = 0) -> list[Move]:
    """Another program deletes rows by position; then A merges the files."""
    return [
        *begin(seed),
        *(move for at in range(1, 5) for move in (*produce(seed + at), *go_on("A", 12, seed + at))),
        *(Move("foreign", "delete positions", at) for at in range(4)),
        Move("people", "compact"),
        *go_on("A", 12, seed + 9),
    ]


def replayed_while_letters_are_put_together(seed: int = 0) -> list[Move]:
    """A replay and a compaction are requested before A's thread of maintenance has begun the first."""
    return [
        *begin(seed),
        *(move for at in range(1, 5) for move in (*mixed(seed + at), *go_on("A", 12, seed + at))),
        *go_on("A", 12, seed + 5),
        Move("circumstances", "learn a schema"),
        Move("people", "replay", seed),
        *(Move("A", "poll"), Move("A", "step")),
        Move("people", "compact"),
        *(Move("A", "poll"), *[Move("A", "step", at) for at in range(3)]),
        Move("A", "task"),
        *go_on("A", 40, seed + 6),
    ]


def overtaken(seed: int = 0) -> list[Move]:
    """A's commit stalls while B takes over the topic."""
    return [
        *begin(seed),
        *produce(seed + 1),
        fault("A", _ROWS, "slow", 60),
        *go_on("A", 14, seed + 1),
        give("B"),
        *go_on("B", 14, seed),
        *go_on("A", 4, seed + 2),
    ]
