"""The data of the dashboard's plots: columns of equal length, by time in ms since 1970.

``None`` means unknown at that time.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from tabletopic_kernel.model.progress.events import SchemaEvolved, SchemaRefused
from tabletopic_kernel.model.progress.progress_view import Record
from tabletopic_kernel.model.progress.time_buckets import UNKNOWN, ArrivalCurve, Bucket, History, lag_of

Numbers = list[float | None]
Columns = dict[str, Numbers]
OTHERS = "others"


def window(history: History, window_ms: int, now_ms: int) -> tuple[int, list[tuple[int, Bucket]]]:
    """(bucket length in ms, [(start, bucket)]) for the last ``window_ms``, oldest first."""
    tier = history.tier_for(window_ms)
    items = tier.items()
    return tier.step_ms, items[bisect_left(items, now_ms - window_ms, key=lambda item: item[0]) :]


def largest(lags: dict[int, int], most: int) -> list[int]:
    """The partitions with their own line: all, or those with the highest lag, by number.

    >>> largest({0: 5, 1: 9, 2: 7}, 2)
    [1, 2]
    """
    return sorted(sorted(lags, key=lambda p: (-lags[p], p))[:most])


def commit_lag(history: History, window_ms: int, now_ms: int, partitions: Sequence[int]) -> Columns:
    """Lag in records of ``partitions`` (column ``p<number>``), of the others together, and in total.

    Only times at which both are known; the ledger is constant between two commits.
    """
    step_ms, items = window(history, window_ms, now_ms)
    columns: Columns = {"at": [], **{f"p{p}": [] for p in partitions}, OTHERS: [], "all": [], "seconds": []}
    chosen = frozenset(partitions)
    ledger = _ledger_before(history, items)
    arrivals = ArrivalCurve()
    for start_ms, bucket in items:
        ledger = bucket.next_offsets if bucket.next_offsets is not None else ledger
        if bucket.end_offsets is None:
            continue
        arrivals.add(bucket.end_ms, bucket.end_offsets)
        if ledger is None:  # it was not a table topic yet
            continue
        lags = lag_of(bucket.end_offsets, ledger)
        columns["at"].append(start_ms + step_ms)
        for p in partitions:
            columns[f"p{p}"].append(lags[p] if p < len(lags) else None)
        columns[OTHERS].append(sum(lag for p, lag in enumerate(lags) if p not in chosen))
        columns["all"].append(sum(lags))
        seconds = bucket.lag_seconds
        if seconds is None:
            since = [
                arrivals.arrived_after_ms(p, _next(ledger, p)) if lag else None for p, lag in enumerate(lags)
            ]
            seconds = lag_seconds_at(lags, since, bucket.end_ms)
        columns["seconds"].append(seconds)
    return columns


def _next(ledger: array[int] | None, partition: int) -> int:
    next_offset = ledger[partition] if ledger is not None and partition < len(ledger) else UNKNOWN
    return max(0, next_offset)


def _buckets(history: History) -> list[Bucket]:
    return [bucket for tier in history.tiers for bucket in tier.buckets.values()]


def _ledger_before(history: History, items: list[tuple[int, Bucket]]) -> array[int] | None:
    """The ledger at the start of the window: from the newest bucket before it, in any tier."""
    first_ms = items[0][0] if items else 0
    committed = [bucket for bucket in _buckets(history) if bucket.next_offsets is not None]
    before = [bucket for bucket in committed if bucket.next_ms < first_ms]
    return max(before, key=lambda bucket: bucket.next_ms).next_offsets if before else None


def lag_seconds_at(lags: Sequence[int], arrived_after_ms: Iterable[int | None], at_ms: int) -> float | None:
    """Commit lag in seconds at a past time: an upper bound of the oldest waiting record's age.

    >>> lag_seconds_at([3, 0], [4_000, None], 10_000), lag_seconds_at([1], [None], 10_000)
    (6.0, None)
    """
    waiting = [since for lag, since in zip(lags, arrived_after_ms, strict=True) if lag > 0]
    if any(since is None for since in waiting):
        return None
    return max(((at_ms - since) / 1000 for since in waiting if since is not None), default=0.0)


def throughput(history: History, window_ms: int, now_ms: int, commit_interval_ms: int) -> Columns:
    """Rows and bytes committed per second, averaged over spans of at least two commits, to smooth the spikes.

    Column ``at`` is the end of a span; spans without a commit are 0. A span's rows arrived between the last
    commit before it and the last commit in it; that time counts if it is shorter than the span. Otherwise the
    figure would drop whenever a commit is slightly late.
    """
    step_ms, items = window(history, window_ms, now_ms)
    by_start = dict(items)
    columns: Columns = {"at": [], "rows": [], "bytes": []}
    if not items:
        return columns
    span = max(1, -(-max(10_000, 2 * commit_interval_ms) // step_ms))  # buckets to average over
    starts = range(items[0][0], now_ms - now_ms % step_ms + 1, step_ms)
    rows = bytes_ = 0
    last_ms = before_ms = None
    for index, start_ms in enumerate(starts):
        coming = by_start.get(start_ms)
        going = by_start.get(starts[index - span]) if index >= span else None
        last_ms = coming.last_commit_ms if coming and coming.commits else last_ms
        before_ms = going.last_commit_ms if going and going.commits else before_ms
        rows += (coming.rows if coming else 0) - (going.rows if going else 0)
        bytes_ += (coming.bytes if coming else 0) - (going.bytes if going else 0)
        if len(starts) > span > index + 1:  # too few for an average: the window's edge
            continue
        seconds = min(index + 1, span) * step_ms / 1000
        if last_ms is not None and before_ms is not None and last_ms > before_ms:
            seconds = min(seconds, (last_ms - before_ms) / 1000)
        columns["at"].append(start_ms + step_ms)
        columns["rows"].append(rows / seconds)
        columns["bytes"].append(bytes_ / seconds)
    return columns


def commits(history: History, window_ms: int, now_ms: int) -> Columns:
    """Files per commit and their mean size in bytes, where there were commits."""
    step_ms, items = window(history, window_ms, now_ms)
    buckets = [(start_ms + step_ms / 2, bucket) for start_ms, bucket in items if bucket.commits]
    return {
        "at": [at_ms for at_ms, _ in buckets],
        "files": [bucket.files / bucket.commits for _, bucket in buckets],
        "file_bytes": [bucket.bytes / bucket.files if bucket.files else None for _, bucket in buckets],
    }


def since_commit(history: History, window_ms: int, now_ms: int) -> Columns:
    """Seconds since the last commit; each commit has two points, before and after it."""
    _, items = window(history, window_ms, now_ms)
    commits_ms = [bucket.last_commit_ms for _, bucket in items if bucket.commits]
    first_ms = now_ms - window_ms
    last_ms = _commit_before(history, commits_ms[0] if commits_ms else now_ms + 1)
    columns: Columns = {"at": [], "seconds": []}

    def point(at_ms: int, value_s: float) -> None:
        columns["at"].append(at_ms)
        columns["seconds"].append(value_s)

    if last_ms is not None:
        point(first_ms, max(0, first_ms - last_ms) / 1000)
    for commit_ms in commits_ms:
        if last_ms is not None:
            point(commit_ms, (commit_ms - last_ms) / 1000)
        point(commit_ms, 0.0)
        last_ms = commit_ms
    if last_ms is not None:
        point(now_ms, max(0, now_ms - last_ms) / 1000)
    return columns


def schema_versions(changes: Sequence[SchemaEvolved | SchemaRefused], first_ms: int) -> Columns:
    """The schema versions that changed the table, and the rejected ones, by time."""
    columns: Columns = {"at": [], "changed": [], "refused": []}
    for change in changes:
        if change.at_ms >= first_ms:
            version = change.cause.version if change.cause else None
            is_refused = isinstance(change, SchemaRefused)
            columns["at"].append(change.at_ms)
            columns["changed"].append(None if is_refused else version)
            columns["refused"].append(version if is_refused else None)
    return columns


def _commit_before(history: History, at_ms: int) -> int | None:
    commits_ms = (bucket.last_commit_ms for bucket in _buckets(history))
    return max((moment for moment in commits_ms if UNKNOWN < moment < at_ms), default=None)


def moments_without_ends(history: History, windows_ms: Sequence[int], now_ms: int, count: int) -> list[int]:
    """Times without known end offsets, which would fill the plots' gaps: at most ``count`` per window."""
    wanted: set[int] = set()
    for window_ms in windows_ms:
        tier = history.tier_for(window_ms)
        gap_ms = window_ms // count
        known = sorted(bucket.end_ms for bucket in tier.buckets.values() if bucket.end_offsets is not None)
        for at_ms in range(now_ms - window_ms + gap_ms, now_ms, gap_ms):
            after = bisect_left(known, at_ms - gap_ms)
            if after == len(known) or known[after] > at_ms:
                wanted.add(at_ms)
    return sorted(wanted)


def largest_topics(record: Record, names: Sequence[str], most: int) -> list[str]:
    """The topics with their own line: those with the highest lag, by name."""
    lag = {name: record.topic(name).lag_records or 0 for name in names}
    return sorted(sorted(names, key=lambda name: (-lag[name], name))[:most])


def lag_by_topic(
    record: Record, names: Sequence[str], lines: Sequence[str], window_ms: int, now_ms: int
) -> Columns:
    """Lag in records of ``lines`` (column ``t<index>``), and of all other topics together."""
    columns: Columns = {"at": [], **{f"t{index}": [] for index in range(len(lines))}, OTHERS: []}
    tiers = {name: record.topics[name].history.tier_for(window_ms) for name in names if name in record.topics}
    if not tiers:
        return columns
    step_ms = next(iter(tiers.values())).step_ms
    rest = [tier.buckets for name, tier in tiers.items() if name not in set(lines)]
    own = [tiers[name].buckets if name in tiers else {} for name in lines]
    for number in range((now_ms - window_ms) // step_ms, now_ms // step_ms + 1):
        lags = [bucket.lag_records if (bucket := buckets.get(number)) else None for buckets in own]
        others = [bucket.lag_records for buckets in rest if (bucket := buckets.get(number))]
        known = [lag for lag in others if lag is not None]
        if known or any(lag is not None for lag in lags):
            columns["at"].append((number + 1) * step_ms)
            columns[OTHERS].append(sum(known))
            for index, lag in enumerate(lags):
                columns[f"t{index}"].append(lag)
    return columns
