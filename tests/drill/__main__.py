"""``make drill``: inject faults from a seed, then compare every record with the tables.

make drill                                             # five minutes from a new seed
make drill ARGS="--seed 20 --rounds 30 --short"        # the rounds of ``make test-all``
make drill ARGS="--minutes 35 --report docs/evidence/drill.md"  # updates the page of the docs

Ctrl-C ends the rounds and compares; a second one ends everything at once. The exit code is 1 if a record is
lost, duplicated or changed, or if a file is missing or left behind.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path

from rich.console import Console

from tabletopic_kernel.faces.cli.commands.stopping import stop_event
from tabletopic_kernel.model.errors import TableTopicError, UsageError
from tests.drill.report import findings, write
from tests.drill.run import run
from tests.drill.schedule import GROUPS

_MINUTES = 5.0
_GROUPS = ", ".join(GROUPS)


def main() -> int:
    """Run the drill and tell what it found; returns the exit code."""
    given = vars(_parser().parse_args())
    page = given.pop("report")
    console = Console()
    try:
        if page is not None and not page.is_file():
            raise UsageError(f"--report: there is no page {page}")
        if given["seed"] is None:
            given["seed"] = secrets.randbelow(1_000_000)
        if given["minutes"] is None and given["rounds"] is None:
            given["minutes"] = _MINUTES
        console.print(f"drill with seed {given['seed']}")
        with stop_event() as asked:
            outcome = run(**given, say=lambda line: console.print(line, markup=False), is_over=asked.is_set)
    except TableTopicError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2 if isinstance(error, UsageError) else 1
    console.print(findings(outcome), markup=False)
    if page is not None:
        write(outcome, page)
    return 0 if outcome.ok else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.drill",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--minutes", type=float, help=f"start no round after this (default: {_MINUTES:g}, without --rounds)")
    add("--rounds", type=int, help="at most this many rounds")
    add("--seed", type=int, help="the same seed gives the same schedule (default: a new one)")
    add("--faults", action="append", default=[], metavar="NAME", help=f"repeatable; groups: {_GROUPS}")
    add("--rate", type=float, default=60.0, help="records per second for each topic (default: %(default)g)")
    add("--heavy", type=float, help="share of rounds after which a host or server restarts (default: 0.2)")
    add("--hand-overs", action="store_true", help="only end single hosts, by kill -9 and SIGTERM in turns")
    add("--short", action="store_true", help="shorter rounds, of which every 24th alone ends a host")
    add("--report", type=Path, metavar="PAGE", help="update what this page says that it found")
    add("--state-dir", type=Path, help="an empty folder (default: a temporary one)")
    add("--keep", action="store_true", help="keep the drill's folder")
    return parser


if __name__ == "__main__":
    sys.exit(main())
