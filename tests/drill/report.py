"""The report of a drill: tables for the terminal, and the page of the docs.

The page says what a drill is, how to read it, and what it found.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from rich.table import Table
from rich.text import Text

from tests.drill.outcome import STANDS_STILL_S, Outcome
from tests.drill.schedule import ALONE_EVERY
from tests.drill.verdict import TopicVerdict

VERDICT_HEAD = (
    "topic", "acknowledged", "rows", "dead letters", "skipped", "lost", "twice", "changed", "files",
    "orphans",
)  # fmt: skip
SEEN_HEAD = ("fault alone", "seen in", "after s", "alert")
ENDS = {"kill_host": "killed", "stop_host": "asked to stop"}


def verdict_table(outcome: Outcome) -> Table:
    """The comparison, one line per topic."""
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("", *VERDICT_HEAD):
        table.add_column(name, justify="left" if name in ("", "topic") else "right")
    for one in outcome.verdicts:
        sign = Text("✓", "green") if one.ok else Text("✗", "bold red")
        topic, *figures = verdict_row(one)
        table.add_row(sign, str(topic), *(f"{figure:,}" for figure in figures))
    return table


def verdict_row(one: TopicVerdict) -> tuple[str | int, ...]:
    """The columns of ``VERDICT_HEAD``."""
    records = (one.topic, one.acknowledged, one.rows, one.letters, one.skipped)
    return (*records, one.lost, one.twice, one.changed, one.files, one.orphans)


def recovery_grid(outcome: Outcome) -> Table:
    """The time until every topic had committed again, by kind of fault."""
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("fault", "times", "median s", "longest s"):
        table.add_column(name, justify="left" if name == "fault" else "right")
    alone = [
        (f"{ENDS.get(what, what)} alone", n, mid, most) for what, n, mid, most in outcome.hand_over_table()
    ]
    for fault, count, median, longest in [*alone, *outcome.recovery_table()]:
        table.add_row(fault, f"{count:,}", f"{median:.1f}", f"{longest:.1f}")
    return table


def seen_grid(outcome: Outcome) -> Table:
    """What monitoring showed for each fault that happened alone."""
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in SEEN_HEAD:
        table.add_column(name, justify="right" if name == "after s" else "left")
    for row in seen_rows(outcome):
        table.add_row(*map(Text, row))
    return table


def seen_rows(outcome: Outcome) -> list[tuple[str, ...]]:
    """The columns of ``SEEN_HEAD``."""
    return [
        (
            one.fault.value,
            f"{one.sign.metric} {one.sign.moves}" if one.ok else f"not seen in {one.sign.metric}",
            f"{one.seconds:.1f}" if one.series else "",
            f"{one.sign.alert}, {one.sign.fires}" if one.sign.alert else one.sign.fires.value,
        )
        for one in outcome.sightings
    ]


def differences(outcome: Outcome) -> list[str]:
    """Everything that is wrong, in words."""
    unseen = [f"monitoring did not show {one.fault}" for one in outcome.sightings if not one.ok]
    wrong = [f"{one.topic}: {what}" for one in outcome.verdicts for what in one.differences]
    return wrong + outcome.problems + unseen


def headline(outcome: Outcome) -> str:
    """The verdict in a sentence."""
    records = sum(one.acknowledged for one in outcome.verdicts)
    if outcome.ok:
        return (
            f"{records:,} acknowledged records, each exactly once a row or a dead letter with its value, "
            f"after {len(outcome.faults):,} faults in {outcome.rounds:,} rounds"
        )
    return f"{len(differences(outcome))} differences after {len(outcome.faults):,} faults"


def when(at_s: float) -> str:
    """A time to the minute, UTC."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M")


_ABOUT = """\
# The drill

`make drill` injects faults, then compares every record with the tables. One long run wrote this
page: `{command}`.

## What it does

It starts a broker, a registry, a catalog and two hosts in a temporary folder, and sends records to three
topics: Avro without transactions, into a sorted and partitioned table; Protobuf in transactions of which
every fifth is aborted; and JSON without a schema. They include invalid records, records without a value,
several versions of a schema at once, and records whose schema is registered later, so that a replay turns
their dead letters into rows. Each table is committed every half second, so that faults hit commits. A round
consists of

- one fault at a named step of the protocol: the process that reaches it is killed, frozen or terminated,
  fails, or is held while something happens to the others; the steps reached least often come next,
- three to six more faults at random moments within three seconds, on a random topic.

Every {every}th round ends one host alone, by `kill -9` and SIGTERM in turns, while the other is on
standby, and times the next owner; `--hand-overs` does nothing else. `--short` makes rounds half as long,
and only every {every}th of them ends a host: `make test` runs 30 of them. Rounds overlap: the next one
starts while topics recover from the last four. The seed determines the schedule, the machine what each
process does meanwhile; a step that no process reached in time is repeated sooner.

The drill resumes a topic that rightly needs the user, for example after a rollback of its table. A topic
that fails without such a cause, or does not commit for {limit:.0f} s, counts as a difference; on an
overloaded machine the seconds count proportionally less. The drill's own rollbacks do not undo replays:
their dead letters are gone, and no host could recover them.

With `--each` each fault happens once, alone, and lasts until the hosts' metrics show it, for up to 45 s;
a fault that is over at once is tried four times. Only one of the three topics then receives poison.
[metrics.md](metrics.md#faults) lists the metric that each fault moves and the alert that fires.

## How to read it

At the end each record that the broker acknowledged must be a row or a dead letter, exactly once, with the
value that was sent; one whose schema was registered later must be a row, after a last replay. The ledger
must be at the topic's end; each file that a snapshot refers to must exist and be sorted as it declares, and
no other file that the product wrote may exist.
*Lost*, *twice*, *changed* and *orphans* count violations; the exit code is then 1.
*Skipped* are records that retention deleted before they were read, in the topic with `on_gap = "go_on"`;
their number must match its ledger.

Recovery time is measured from the fault to the first commit of records of the slowest topic, sampled from
the catalog ten times a second; it includes the time of overlapping faults. If a host ended alone, it is
measured to the first commit of records by the next owner of each of its topics: that is how long users
wait for fresh rows.
"""


def docs_page(outcome: Outcome) -> str:
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
        *(_table(SEEN_HEAD, list(seen_rows(outcome))) if outcome.sightings else []),
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
