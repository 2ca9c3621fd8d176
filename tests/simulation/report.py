"""The summary of many histories, as text for a terminal and as a page of the docs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabletopic_kernel.model.steps import Step
from tests.simulation.faults import CALLS, KINDS, STEP_KINDS, fits

if TYPE_CHECKING:
    from tests.simulation.__main__ import Total
    from tests.simulation.coverage import Coverage

_GOAL_COMMITS = 200_000  # of the run that docs/evidence/simulation.md tells of


def summary(total: Total) -> str:
    """Figures, and what no history has touched."""
    verdict = f"{len(total.broken)} BROKEN" if total.broken else "every promise was kept"
    missing = total.coverage.missing()
    untouched = "none" if not missing else "; ".join(missing)
    return (
        f"\n{total.histories:,} histories from seed {total.first}: {verdict}\n"
        f"{total.commits:,} commits by owners, {total.foreign:,} acts of foreign writers, "
        f"{total.faults:,} faults, {total.sweeps:,} sweeps; {total.seconds:,.0f} s, "
        f"{total.cpu_s:,.0f} s of CPU\n"
        f"pairs not reached: {untouched}\n\n" + "\n\n".join(_touched(total.coverage))
    )


def page(total: Total) -> str:
    """The summary as Markdown, with the tables of what was touched how often."""
    coverage = total.coverage
    parts = [
        "# Simulated histories",
        "What `make simulate` wrote at the end of a long run; "
        "[tests/simulation](../../tests/simulation/README.md) explains what a history is.",
        _table(
            ("", "count"),
            [
                ("histories", f"{total.histories:,}"),
                ("seeds", f"{total.first} to {total.first + total.histories - 1}"),
                ("commits by owners", f"{total.commits:,}"),
                ("acts of other programs", f"{total.foreign:,}"),
                ("faults that occurred", f"{total.faults:,}"),
                ("removals of orphan files", f"{total.sweeps:,}"),
                ("histories that violated an invariant", f"{len(total.broken):,}"),
                ("pairs of actor and step, or fault and place, never reached", f"{len(coverage.missing())}"),
                ("seconds of CPU", f"{total.cpu_s:,.0f}"),
            ],
        ),
        *_goal(total),
        *_broken(total),
        *_touched(coverage),
        "## Acts of others",
        _table(
            ("who", "what", "times"),
            [(who, what, f"{n:,}") for (who, what), n in sorted(coverage.acts.items())],
        ),
    ]
    if missing := coverage.missing():
        parts += [
            "## Never reached",
            "All of these can happen.",
            "; ".join(missing) + ".",
        ]
    return "\n\n".join(parts) + "\n"


def _goal(total: Total) -> list[str]:
    if total.commits >= _GOAL_COMMITS:
        return []
    told = f"The goal is {_GOAL_COMMITS:,} commits by owners in one run. This one made {total.commits:,}."
    return [told]


def _touched(coverage: Coverage) -> list[str]:
    """How often each owner reached each step, and how often each fault struck where."""
    return [
        "## Steps of the protocol, by owner",
        "A and B are the two hosts, C the healthy one that ends each history: it meets no "
        "faults, so it settles nothing and is never stopped.",
        _table(
            ("step", "A", "B", "C"),
            [(str(step), *(f"{coverage.steps[who, step]:,}" for who in "ABC")) for step in Step],
        ),
        "## Faults at calls to the outside",
        _table(
            ("call", *KINDS),
            [
                (call, *(f"{coverage.faults[call, kind]:,}" if fits(call, kind) else "" for kind in KINDS))
                for call in CALLS
            ],
        ),
        "## Faults at steps",
        _table(
            ("step", *STEP_KINDS),
            [(str(step), *(f"{coverage.faults[step, kind]:,}" for kind in STEP_KINDS)) for step in Step],
        ),
    ]


def _broken(total: Total) -> list[str]:
    told = [f"- seed {seed}: {what}" for seed, what in sorted(total.broken.items())]
    return ["## Histories that violated an invariant", "\n".join(told)] if told else []


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
