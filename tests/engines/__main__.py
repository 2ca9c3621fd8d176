"""``make engines``: ask three engines about seeded tables for as long as you like.

make engines ARGS="--seed 7 --minutes 30"    # or --questions 20000
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.engines.engines import session_in
from tests.engines.run import run


def main() -> int:
    """Run what is asked for; 1 if an answer is wrong."""
    parser = argparse.ArgumentParser(prog="make engines")
    parser.add_argument("--seed", type=int, default=int(time.time()) // 86_400 * 1000)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--questions", type=int, default=20_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        session = session_in(Path(folder))
        until = time.monotonic() + 60 * given.minutes
        outcome = run(given.seed, given.questions, session, Path(folder), until=until)
        session.stop()
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
