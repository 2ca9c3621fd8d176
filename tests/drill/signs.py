"""The sign of each fault in monitoring: the metric that moves, and the alert that fires.

One table for the drill, which verifies it, for the tests of the alert rules, and for the docs.
"""

from __future__ import annotations

import re
import threading
import urllib.request
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from tests.drill.schedule import Fault

_EVERY_S = 0.5
_TIMEOUT_S = 2.0  # a frozen host accepts a connection, but does not respond
_DIRECT = urllib.request.build_opener(
    urllib.request.ProxyHandler({})
)  # hosts of the drill are on this machine
_KEPT = 240  # scrapes
_CALM = 5  # scrapes in which no topic moved
_CALM_LAG_S = 5.0

# The name and labels of a series.
Series = tuple[str, tuple[tuple[str, str], ...]]
Scrape = Mapping[Series, float]


class Moves(StrEnum):
    """How a series shows a fault, compared with the calm before."""

    RISES = "rises"
    FALLS = "falls"
    CHANGES = "changes"
    APPEARS = "appears"
    STAYS = "stays"  # the fault harms nothing


class Fires(StrEnum):
    """When a fault's alert fires."""

    AT_ONCE = "at once"
    LASTING = "if it lasts"  # if the fault, or its effect, lasts as long as the rule requires
    WORSE = "if it is worse"  # than in the drill: a more sensitive rule would wake people for nothing
    NEVER = "never"  # it was intended


@dataclass(frozen=True)
class Sign:
    """The sign of one fault. ``metric``: a series in Prometheus' syntax; ``by``: it moves by more than this.

    ``topic``: which of the drill's topics is affected; None: no single one.
    """

    metric: str
    moves: Moves
    alert: str
    fires: Fires
    by: float = 0.0
    topic: str | None = None

    @cached_property
    def name(self) -> str:
        """The metric without labels."""
        return self.metric.partition("{")[0]

    @cached_property
    def _labels(self) -> set[tuple[str, str]]:
        return set(re.findall(r'(\w+)="([^"]*)"', self.metric))

    def of(self, scrape: Scrape) -> dict[Series, float]:
        """The series of a scrape that the metric selects."""
        found = {one: value for one, value in scrape.items() if one[0] == self.name}
        return {
            one: value
            for one, value in found.items()
            if self._labels <= {*one[1]} and self.topic in (None, dict(one[1]).get("topic", self.topic))
        }

    def moved(self, calm: Sequence[Scrape], now: Scrape) -> Series | None:
        """A series that differs from all of the calm scrapes."""
        for series, value in self.of(now).items():
            before = [one[series] for one in calm if series in one]
            if self.moves is Moves.APPEARS:
                if not before:
                    return series
                continue
            low, high = min(before, default=0.0), max(before, default=0.0)
            rises, falls = value > high + self.by, bool(before) and value < low - self.by
            if {Moves.RISES: rises, Moves.FALLS: falls}.get(self.moves, rises or falls):
                return series
        return None


def _sign(
    metric: str, moves: Moves, alert: str, fires: Fires, by: float = 0.0, topic: str | None = None
) -> Sign:
    return Sign(f"tabletopic_{metric}" if metric != "up" else metric, moves, alert, fires, by, topic)


_F, _RISES, _FALLS, _CHANGES = Fault, Moves.RISES, Moves.FALLS, Moves.CHANGES
_LASTING, _WORSE, _AT_ONCE, _NEVER = Fires.LASTING, Fires.WORSE, Fires.AT_ONCE, Fires.NEVER
_DOWN = Sign("up", _FALLS, "TabletopicHostDown", _LASTING)
_LATE = _sign("commit_lag_seconds", _RISES, "TabletopicLag", _LASTING, by=6)
_WAITS = _sign('state{state="waiting"}', _RISES, "TabletopicTopicWaiting", _LASTING)
_NO_REGISTRY = _sign('server_up{server="registry"}', _FALLS, "TabletopicServerDown", _LASTING)
_ONE = "payments"
_FOREIGN = _sign("foreign_changes_total", _RISES, "TabletopicCommitsFail", _WORSE, topic=_ONE)
SIGNS: Final[Mapping[Fault, Sign]] = {
    _F.KILL_HOST: _DOWN,
    _F.STOP_HOST: _DOWN,
    _F.FREEZE_HOST: _DOWN,
    _F.KILL_SPARK: _WAITS,
    _F.FREEZE_SPARK: _LATE,
    _F.KILL_WORKERS: _WAITS,
    _F.KILL_BROKER: _sign('server_up{server="broker"}', _FALLS, "TabletopicServerDown", _LASTING),
    _F.FREEZE_BROKER: _sign("end_offsets_age_seconds", _RISES, "TabletopicLagUnknown", _LASTING, by=4),
    _F.KILL_REGISTRY: _NO_REGISTRY,
    _F.FREEZE_REGISTRY: _NO_REGISTRY,
    _F.LOCK_CATALOG: _LATE,
    _F.SLOW_CATALOG: _sign("commit_duration_seconds", _RISES, "TabletopicCommitsSlow", _WORSE, by=0.1),
    _F.REFUSE_COMMITS: _sign('failures_total{kind="commit"}', _RISES, "TabletopicCommitsFail", _LASTING),
    _F.FILL_DISK: _WAITS,
    _F.FOREIGN_APPEND: _FOREIGN,
    _F.FOREIGN_EXPIRE: _FOREIGN,
    _F.FOREIGN_REWRITE: _FOREIGN,
    _F.FOREIGN_ROLLBACK: _sign(
        'state{state="failed"}', _RISES, "TabletopicTopicFailed", _AT_ONCE, topic=_ONE
    ),
    _F.FOREIGN_COLUMN: _FOREIGN,
    _F.FOREIGN_PARTITION: _FOREIGN,
    _F.FOREIGN_ORDER: _sign("foreign_changes_total", _RISES, "TabletopicCommitsFail", _WORSE, topic="orders"),
    _F.FOREIGN_TAG: _FOREIGN,
    _F.FOREIGN_BRANCH: _FOREIGN,
    # They are not the host's; it counts them when it next writes letters of its own.
    _F.FOREIGN_LETTERS: _sign(
        "dead_letters", Moves.STAYS, "TabletopicRecordsRefused", _WORSE, topic="visits"
    ),
    _F.PAUSE: _sign('state{state="paused"}', _RISES, "", _NEVER, topic=_ONE),
    _F.ALTER: _sign("commit_interval_seconds", _CHANGES, "", _NEVER, topic=_ONE),
    _F.COMMIT: _sign("commits_total", _RISES, "", _NEVER, topic=_ONE),
    _F.DISABLE: _sign("topics", _FALLS, "", _NEVER),
    _F.REPLAY: _sign("dead_letters", _FALLS, "", _NEVER, topic="orders"),
    _F.COMPACT: _sign(
        'maintenance_total{work="compaction"}', _RISES, "TabletopicMaintenanceFails", _WORSE, topic=_ONE
    ),
    _F.EXPIRE: _sign(
        'maintenance_total{work="expiry"}', _RISES, "TabletopicMaintenanceFails", _WORSE, topic=_ONE
    ),
    _F.EVOLVE: _sign("schema_changes_total", _RISES, "TabletopicSchemaRefused", _WORSE, topic="orders"),
    _F.ADD_PARTITION: _sign("partition_lag_records", Moves.APPEARS, "", _NEVER, topic=_ONE),
    _F.RETENTION: _sign("lost_records_total", Moves.STAYS, "TabletopicRecordsLost", _WORSE, topic=_ONE),
    _F.GAP: _sign("lost_records_total", _RISES, "TabletopicRecordsLost", _AT_ONCE, topic="visits"),
}


@dataclass(frozen=True)
class Sighting:
    """A fault that happened alone: its sign, the series that moved (None: none did), after how many seconds.

    ``calm``: the scrapes before it happened; ``then``: the scrape when it was seen or given up.
    """

    fault: Fault
    sign: Sign
    series: Series | None
    seconds: float
    calm: Scrape
    then: Scrape

    @property
    def ok(self) -> bool:
        """Whether monitoring showed what it must, or nothing if nothing was harmed."""
        return (self.series is None) is (self.sign.moves is Moves.STAYS)


class Watch:
    """Scrapes hosts like Prometheus, during ``with``.

    Args:
        targets: instance → its URL, including ended ones.
    """

    def __init__(self, targets: Callable[[], Mapping[str, str]]) -> None:
        self._targets = targets
        self._scrapes: deque[Scrape] = deque(maxlen=_KEPT)
        self._count = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="drill watch", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with ThreadPoolExecutor(8) as pool:
            while not self._over.wait(_EVERY_S):
                found: dict[Series, float] = {}
                for one in pool.map(_scraped, self._targets().items()):
                    found |= one
                self._scrapes.append(_with_means(found, self._scrapes[-1] if self._scrapes else {}))
                self._count += 1

    @property
    def last(self) -> Scrape:
        """The newest scrape."""
        return self._scrapes[-1] if self._scrapes else {}

    def calm(self, hosts: Collection[str]) -> list[Scrape] | None:
        """The last scrapes, if in all of them these hosts answered and all topics ran, unmoved; else None."""
        if len(self._scrapes) < _CALM:
            return None
        some = list(self._scrapes)[-_CALM:]
        owners = [_of(one, "tabletopic_epoch") for one in some]
        states = [value for one in some for series, value in _of(one, "tabletopic_state").items()
                  if ("state", "running") in series[1]]  # fmt: skip
        lags = _of(some[-1], "tabletopic_commit_lag_seconds").values()
        answer = all(one.get(("up", (("instance", host),))) == 1 for one in some for host in hosts)
        quiet = answer and all(one == owners[0] for one in owners) and bool(owners[0]) and all(states)
        return some if quiet and len(lags) == len(owners[0]) and max(lags) < _CALM_LAG_S else None

    def since(self, count: int) -> list[Scrape]:
        """The scrapes after the first ``count`` ones."""
        missed = self._count - count
        return list(self._scrapes)[-missed:] if missed > 0 else []

    @property
    def count(self) -> int:
        """How many scrapes there were."""
        return self._count


def _of(scrape: Scrape, name: str) -> dict[Series, float]:
    return {series: value for series, value in scrape.items() if series[0] == name}


def _scraped(target: tuple[str, str]) -> dict[Series, float]:
    instance, url = target
    here = ("instance", instance)
    try:
        with _DIRECT.open(url, timeout=_TIMEOUT_S) as answer:
            text = answer.read().decode()
    except OSError:
        return {("up", (here,)): 0.0}
    found = {
        (sample.name, tuple(sorted([here, *sample.labels.items()]))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    return found | {("up", (here,)): 1.0}


def _with_means(now: dict[Series, float], before: Scrape) -> Scrape:
    """Add each histogram's mean since the scrape before, under the histogram's name."""
    means = {}
    for (name, labels), count in now.items():
        if name.endswith("_count") and (new := count - before.get((name, labels), count)) > 0:
            total = name.removesuffix("_count") + "_sum"
            means[name.removesuffix("_count"), labels] = (now[total, labels] - before[total, labels]) / new
    return now | means
