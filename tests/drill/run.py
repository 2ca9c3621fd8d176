"""One drill on its own servers, from options to outcome."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path

from tabletopic_kernel.model.errors import UsageError
from tests.drill.outcome import Outcome
from tests.drill.play import Drill
from tests.drill.schedule import ALONE_EVERY, HEAVY_SHARE, chosen

_INTERVAL_MS = 500  # short, so faults hit commits
_CALM_INTERVAL_MS = 1_000  # if only the time of a hand-over counts


def run(
    *,
    seed: int,
    faults: Collection[str] = (),
    rounds: int | None = None,
    minutes: float | None = None,
    rate: float = 60.0,
    heavy: float | None = None,
    hand_overs: bool = False,
    short: bool = False,
    state_dir: Path | None = None,
    keep: bool = False,
    say: Callable[[str], None] = lambda _: None,
    is_over: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Run a drill on its own servers, and stop everything it started.

    Args:
        seed: the same seed makes the same schedule and the same records.
        faults: names of faults or groups of faults; all if empty.
        rounds: the maximum number of rounds.
        minutes: begin no round after this many minutes.
        rate: records per second of each topic.
        heavy: the share of rounds after which a host, or a server it needs, must restart; None: a fifth.
        hand_overs: only end hosts, one at a time, to time the takeover.
        short: rounds of half the length that end a host only in every 24th; ``heavy`` overrides that.
        state_dir: an empty folder; without it, a temporary one, removed at the end unless ``keep`` is true.
        keep: leave the folder in place.
        say: gets a line for people whenever something is done.
        is_over: whether to begin no more rounds; called before each.

    Raises:
        UsageError: a fault that does not exist; neither rounds nor minutes; a folder that is in use.
        TableTopicError: the servers did not start.
    """
    _check(state_dir, rounds is None and minutes is None)
    wanted = chosen(["kill_host", "stop_host"] if hand_overs else faults)
    folder = (state_dir or Path(tempfile.mkdtemp(prefix="tabletopic-drill-"))).expanduser().resolve()
    removed = state_dir is None and not keep
    drill = Drill(
        folder,
        seed,
        wanted,
        rounds,
        minutes,
        rate,
        say,
        is_over=is_over,
        heavy=(0.0 if short else HEAVY_SHARE) if heavy is None else heavy,
        short=short,
        alone_every=1 if hand_overs else ALONE_EVERY,
        temporary=removed,
        interval_ms=_CALM_INTERVAL_MS if hand_overs else _INTERVAL_MS,
    )
    drill.outcome.options = _options(faults, heavy, hand_overs, short)
    outcome = drill.play(
        lambda step: say(f"      {step.name}: {step.detail}") if step.state == "done" else None
    )
    if removed and outcome.ok:  # otherwise the logs are needed
        shutil.rmtree(folder, ignore_errors=True)
    return outcome


def _check(state_dir: Path | None, is_endless: bool) -> None:
    """Raise UsageError for a drill without an end, and for a folder that is in use."""
    if is_endless:
        raise UsageError("set the length with --rounds or --minutes")
    if state_dir is not None and state_dir.is_dir() and any(state_dir.iterdir()):
        raise UsageError(f"{state_dir} is not empty: a drill needs its own folder")


def _options(faults: Collection[str], heavy: float | None, hand_overs: bool, short: bool) -> str:
    """The options, besides seed and rounds, that repeat the same drill."""
    options = [f"--faults {name}" for name in faults]
    options += [f"--heavy {heavy:g}"] if heavy is not None else []
    options += ["--hand-overs"] if hand_overs else []
    options += ["--short"] if short else []
    return " ".join(options)
