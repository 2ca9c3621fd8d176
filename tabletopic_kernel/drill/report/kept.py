"""The report of a drill as a page of the documentation: what a drill is, how to read it, what it found."""

from __future__ import annotations

from collections import Counter

from tabletopic_kernel.drill.outcome import STANDS_STILL_S, Outcome
from tabletopic_kernel.drill.report.page import ENDS, VERDICT_HEAD, differences, headline, verdict_row, when
from tabletopic_kernel.drill.schedule import ALONE_EVERY

_ABOUT = """\
# The drill

`tabletopic drill` breaks everything on purpose, then compares every record with the tables. This page is
what one long run wrote: `{command} --report docs/drill.md`.

## What it does

It starts a broker, a registry, a catalog and two hosts in a folder of its own, and sends to three topics:
Avro without transactions, Protobuf in transactions of which every fifth is aborted, JSON without a schema;
with poison, records without a value, several versions of a schema at once, and records whose schema is
registered only later, so that a replay makes rows of their dead letters. The tables commit every half second,
so that faults fall into commits. A round does

- one thing at a named step of the protocol: the process that gets there is killed, frozen, asked to stop,
  fails, or is held while something else happens to the others; next is always one of the steps that were
  reached least,
- three to six more faults at random moments of three seconds, on a random topic.

Every {every}th round ends one host alone, by `kill -9` and SIGTERM in turns, while the other stands by, and
times the next owner; `--hand-overs` does nothing else. Rounds overlap: the next one begins while topics get
over the last four. The seed makes the schedule; a step that no process reached in time comes again sooner,
and what each process does meanwhile follows from the machine.

A topic that asks for a person, as it must after somebody rolled its table back, is resumed. One that fails
without such a cause, or does not commit for {limit:.0f} s, is a difference; where more programs want the
processors than there are, a second counts less by that. The drill's own rollbacks take no rows of a replay
back: their dead letters are gone, and no host could help that.

With `--topic TOPIC` the records are a person's own: the newest of the topic are copied to the drill's broker,
with the topic's settings and the person's registry; servers of the person's are only read. The first copies
are committed in peace. Then they are sent again and again while hosts, workers, JVMs and the drill's servers
die, and each must become what its first copy became: a row with the same values, a dead letter, or nothing,
as often as the ledger counts. Schemas are left alone, so the steps that need a new one are left out.

## How to read it

At the end each record that the broker acknowledged must be once a row or once a dead letter, with the value
that was sent; one whose schema came later must be a row, after a last replay. The ledger must be at the
topic's end; each file that a snapshot names must be there, and no file beside them that the product wrote.
*Lost*, *twice*, *changed* and *orphans* count what is otherwise; the exit code is 1 then.
*Skipped* are records that retention took before they were read, of the topic whose settings say to go on
behind a gap; they must be as many as its ledger counts.

A time to recover is measured from the fault to the first commit of records of the topic that took longest,
in a sample of the catalog ten times a second. Among other faults it contains theirs. A host that ended
alone is measured to the first commit of records by the next owner of each of its topics: that is how long
people wait for fresh rows.
"""


def markdown(outcome: Outcome) -> str:
    """The page."""
    lines = [
        _ABOUT.format(command=outcome.command, limit=STANDS_STILL_S, every=ALONE_EVERY),
        "## What it found",
        "",
        f"{'✓' if outcome.ok else '✗'} {headline(outcome)}.",
        "",
        f"Seed {outcome.seed}, {when(outcome.began_s)} UTC, {outcome.ended_s - outcome.began_s:,.0f} s.",
        "",
        *(f"- **{one}**" for one in differences(outcome)),
        *_table(VERDICT_HEAD, [verdict_row(one) for one in outcome.verdicts]),
        *_table(
            ("host that ended alone", "times", "median s until the next owner's first commit", "longest s"),
            [(ENDS.get(n, n), c, round(m, 1), round(x, 1)) for n, c, m, x in outcome.hand_over_table()],
        ),
        *_table(
            ("step", "times", "not reached in time"), [(str(s), n, m) for s, n, m in outcome.step_table()]
        ),
        *_table(
            ("fault among others", "times", "median s until every topic had committed", "longest s"),
            [(n, c, round(m, 1), round(x, 1)) for n, c, m, x in outcome.recovery_table()],
        ),
        f"All faults by kind: {_kinds(outcome)}.",
        "",
    ]
    return "\n".join(lines)


def _kinds(outcome: Outcome) -> str:
    kinds = Counter(one.what for one in outcome.faults)
    return ", ".join(f"{name} {count:,}" for name, count in kinds.most_common())


def _table(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> list[str]:
    def line(cells: tuple[object, ...]) -> str:
        return f"| {' | '.join(f'{one:,}' if isinstance(one, int | float) else str(one) for one in cells)} |"

    return [line(head), f"|{' --- |' * len(head)}", *map(line, rows), ""]
