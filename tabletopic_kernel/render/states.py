"""A state's word, tone and meaning, for all faces; for the sidebar in ``labextension/src/states.ts``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from tabletopic_kernel.model.commit_cycle import State
from tabletopic_kernel.model.progress.delay import Delay
from tabletopic_kernel.model.progress.progress_view import NO_HOST

# How much attention a state needs. Each tone has a colour, and where there is room a sign.
Tone = Literal["good", "busy", "note", "quiet", "warn", "bad"]
UNKNOWN: Final = "unknown"
OFF: Final = "off"  # not a table topic


class StateWords(NamedTuple):
    """``word`` stands alone; ``meaning`` explains it; ``section`` of the page on trouble says what to do."""

    word: str
    tone: Tone
    meaning: str
    section: str = ""


_STOPPING: Final = StateWords("stopping", "busy", "releasing the topic")
# Running, staged and committing alternate within a second: one word, so that a screen does not flicker.
STATES: Final[Mapping[str, StateWords]] = {
    State.STARTING: StateWords("starting", "busy", "taking over the table"),
    State.RUNNING: StateWords("running", "good", "reading"),
    State.STAGED: StateWords("running", "good", "files are waiting for the next commit"),
    State.COMMITTING: StateWords("running", "good", "committing"),
    State.SETTLING: StateWords("resolving", "busy", "looking up the outcome of a commit"),
    State.WAITING: StateWords("waiting", "warn", "a dependency is unavailable; retrying", "waiting"),
    State.DRAINING: _STOPPING,
    State.DROPPING: _STOPPING,
    State.CLOSING: _STOPPING,
    State.CLOSING_SETTLING: _STOPPING,
    State.CLOSED: StateWords("stopped", "quiet", "stopped"),
    State.STOPPED: StateWords("stopped", "quiet", "stopped"),
    State.PAUSED: StateWords("paused", "quiet", "paused by a user"),
    State.FAILED: StateWords("failed", "bad", "fix the cause, then resume", "failed"),
    Delay.WAITING_FOR_TURN: StateWords(
        "waiting for turn", "warn", "the host is busy with other topics", "lag"
    ),
    Delay.BEHIND: StateWords("behind", "warn", "still catching up", "lag"),
    Delay.OPEN_TRANSACTION: StateWords(
        "open transaction", "warn", "records wait until somebody ends it", "lag"
    ),
    NO_HOST: StateWords("no host", "warn", "no host runs it", "host"),
    UNKNOWN: StateWords("unknown", "quiet", "the broker is unreachable", "waiting"),
    OFF: StateWords("off", "quiet", "not enabled"),
}


def words_of(state: str, delay: str | None = None) -> StateWords:
    """The words for a state, or for a running topic's delay; a newer host's state is its own word."""
    key = delay or state
    return STATES.get(key) or StateWords(key.replace("_", " "), "warn", key.replace("_", " "))
