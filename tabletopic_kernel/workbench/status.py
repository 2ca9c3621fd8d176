"""The status of all table topics, from the settings topic, events, broker and tables.

Needs no host: if nobody runs a topic, the status says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

from tabletopic_kernel.clients.kafka.broker import Broker, TopicEnds
from tabletopic_kernel.clients.kafka.open_transactions import open_transactions
from tabletopic_kernel.clients.kafka.reader import oldest_timestamps
from tabletopic_kernel.host.resume_point import check_no_gap, check_not_ahead, check_same_topic
from tabletopic_kernel.host.topics.control_topic import read_events
from tabletopic_kernel.local.machine import now_ms
from tabletopic_kernel.model.commit_cycle import State
from tabletopic_kernel.model.errors import (
    ActionNeededError,
    GapError,
    RetryableError,
    SettingsError,
    TableTopicError,
)
from tabletopic_kernel.model.progress.delay import delay_of
from tabletopic_kernel.model.progress.events import Committed, Heartbeat, Progress, Stopped, ledger_figures
from tabletopic_kernel.model.progress.open_transaction import OpenTransaction, waits_behind
from tabletopic_kernel.model.progress.progress_view import FRESH_MS, NO_HOST, NO_HOST_HINT, HostReport
from tabletopic_kernel.model.settings.desired import DesiredTopic
from tabletopic_kernel.model.settings.table_names import in_sql, table_identifier, table_name
from tabletopic_kernel.model.topic_names import CONTROL_TOPIC
from tabletopic_kernel.workbench.topics.topic_status import TopicStatus

if TYPE_CHECKING:  # PyIceberg takes half a second, and is needed only for topics without a host
    from pyiceberg.catalog import Catalog

_LOG = logging.getLogger(__name__)


# Fields of a status that are the progress record's.
_OF_PROGRESS = {field.name for field in fields(TopicStatus)} & Progress.model_fields.keys() - {
    *("state", "error", "schema_versions", "rows_per_second")
}


def recent_reports(broker: Broker) -> dict[str, HostReport]:
    """The newest progress of all topics with a live host."""
    since = now_ms() - FRESH_MS
    if CONTROL_TOPIC not in broker.topics():
        return {}
    reported: dict[str, HostReport] = {}
    for event in read_events(broker.properties, since):
        if isinstance(event, Heartbeat | Committed):
            reported[event.topic] = HostReport(event.progress, event.host, event.at_ms)
        elif isinstance(event, Stopped):
            reported.pop(event.topic, None)
    return reported


def statuses(
    broker: Broker,
    desired_topics: Mapping[str, DesiredTopic],
    catalog: Callable[[str | None], Catalog],
    looks: Looks | None = None,
) -> list[TopicStatus]:
    """The status of all enabled topics, by name.

    ``catalog`` is called only for topics that no host reports: their tables are read instead. An error
    there is the topic's alone. It is raised if all topics have it, and are in one catalog.
    """
    looks = looks or Looks()
    reported = looks.reports(broker)
    newest, unread = _read(
        desired_topics, reported, lambda desired: looks.table(desired, catalog(desired.settings.catalog))
    )
    ends = broker.ends(desired_topics)  # after the ledgers: none of them is ahead unless records are lost
    reasons = unread | {  # why a topic's lag is unknown
        topic: reason
        for topic, (progress, _, _) in newest.items()
        if topic not in unread and (reason := _why_unknown(progress, ends.get(topic)))
    }
    behind = {
        topic: {
            p: progress.next_offsets.get(p, 0)
            for p, end in ends[topic].end.items()
            if progress.next_offsets.get(p, 0) < end
        }
        for topic, (progress, _, _) in newest.items()
        if topic not in reasons
    }
    # A host reports gaps by itself; without a ledger there is no gap.
    idle = [topic for topic, (progress, _, host) in newest.items() if host is None and progress.next_offsets]
    reasons |= _gaps(broker, {topic: behind[topic] for topic in idle if behind.get(topic)}, desired_topics)
    oldest = looks.oldest(broker.properties, behind)
    opened = open_transactions(broker, ends, now_ms())
    reasons |= {topic: desired.refused for topic, desired in desired_topics.items() if desired.refused}
    return [
        _status(
            report,
            ends.get(topic),
            reasons.get(topic),
            behind.get(topic),
            oldest.get(topic),
            opened.get(topic, []),
            desired_topics[topic],
        )
        for topic, report in newest.items()
    ]


class _Newest(NamedTuple):
    progress: Progress
    state: str
    host: str | None


def _read(
    desired_topics: Mapping[str, DesiredTopic],
    reported: Mapping[str, HostReport],
    read_table: Callable[[DesiredTopic], Progress],
) -> tuple[dict[str, _Newest], dict[str, str]]:
    """The newest progress by topic, and the errors of tables that cannot be read; raises as ``statuses``."""
    newest: dict[str, _Newest] = {}
    unread: dict[str, str] = {}
    errors_by_catalog: dict[str | None, list[TableTopicError]] = {}
    for topic, desired in sorted(desired_topics.items()):
        errors = errors_by_catalog.setdefault(desired.settings.catalog, [])
        try:
            if len(errors) > 1 and str(errors[-1]) == str(errors[-2]):  # the catalog's, not the tables'
                raise errors[-1]
            newest[topic] = _newest_progress(desired, reported.get(topic), read_table)
        except Exception as error:  # must not hide the status of other topics
            newest[topic] = _unread_progress(desired, reported.get(topic))
            unread[topic] = _words(topic, error)
            if isinstance(error, RetryableError | SettingsError):
                errors.append(error)
    if len(errors_by_catalog) == 1 and len(errors) == len(desired_topics) and len({*unread.values()}) == 1:
        raise errors[0]
    return newest, unread


def _words(topic: str, error: Exception) -> str:
    if isinstance(error, TableTopicError):
        return str(error)
    _LOG.error("the status of %s", topic, exc_info=error)
    return f"unexpected {type(error).__name__}: {error}; the log has the trace"


def _why_unknown(progress: Progress, ends: TopicEnds | None) -> str | None:
    """Why the ledger says nothing about the topic's records (I8): the error of a host that starts."""
    if ends is None:
        return f"the topic {progress.topic} no longer exists"
    try:
        check_same_topic(progress.topic, progress.topic_id or ends.topic_id, ends.topic_id)
        check_not_ahead(progress.topic, progress.next_offsets, ends.end)
    except ActionNeededError as error:
        return str(error)
    return None


def _gaps(
    broker: Broker, behind: Mapping[str, Mapping[int, int]], desired_topics: Mapping[str, DesiredTopic]
) -> dict[str, str]:
    """The topics whose next records were deleted by retention, and what that means."""
    gaps: dict[str, str] = {}
    for topic, first in broker.first_offsets(behind).items():
        try:
            check_no_gap(topic, behind[topic], first)
        except GapError as gap:
            count = sum(end - start for start, end in gap.missing.values())
            skips = desired_topics[topic].settings.on_gap == "go_on"
            gaps[topic] = (
                f"unread records that retention deleted: {count}; `on_gap` skips them" if skips else str(gap)
            )
    return gaps


def _newest_progress(
    desired: DesiredTopic, reported: HostReport | None, read_table: Callable[[DesiredTopic], Progress]
) -> _Newest:
    if reported is not None and reported.progress.state is not State.STOPPED:
        progress, state = reported.progress, reported.progress.state
        if progress.epoch == 0:  # the host does not own the table yet: read the table itself
            update = {"state": state, "error": progress.error, "error_kind": progress.error_kind}
            progress = read_table(desired).model_copy(update=update)
        return _Newest(progress, str(state), reported.host)
    progress = read_table(desired)
    if desired.run == "paused":
        return _Newest(progress, str(State.PAUSED), None)
    return _Newest(progress, NO_HOST, None)


def _unread_progress(desired: DesiredTopic, reported: HostReport | None) -> _Newest:
    """If the catalog does not respond: what a host reported, if any."""
    if reported is not None and reported.progress.state is not State.STOPPED:
        return _Newest(reported.progress, str(reported.progress.state), reported.host)
    state = str(State.PAUSED) if desired.run == "paused" else NO_HOST
    return _Newest(_bare_progress(desired), state, None)


def _bare_progress(desired: DesiredTopic) -> Progress:
    return Progress(
        topic=desired.topic,
        table=table_name(desired.topic, desired.settings),
        commit_interval_ms=desired.settings.commit_interval_ms,
    )


def progress_of_table(desired: DesiredTopic, catalog: Catalog) -> Progress:
    """Progress from the table alone (I6). Errors name the section of the topic's catalog."""
    from tabletopic_kernel.clients.catalog.catalog import in_section  # noqa: PLC0415 - PyIceberg costs a second

    with in_section(desired.settings.catalog):
        return _read_table(desired, catalog)


def _read_table(desired: DesiredTopic, catalog: Catalog) -> Progress:
    from tabletopic_kernel.table.topic_table import TopicTable  # noqa: PLC0415 - PyIceberg costs a second

    identifier = table_identifier(desired.topic, desired.settings)
    bare = _bare_progress(desired)
    try:
        table = TopicTable.load(catalog, identifier, desired.topic)
    except ActionNeededError as error:
        return bare.model_copy(update={"error": str(error)})
    if table is None:
        return bare
    ledger = table.ledger
    update = table.figures()
    if ledger is not None:
        update |= ledger_figures(ledger)
    if ledger is not None and ledger.refused:
        update |= _letters(catalog, identifier, desired)
    return bare.model_copy(update=update)


def _letters(catalog: Catalog, table: tuple[str, ...], desired: DesiredTopic) -> dict[str, object]:
    from tabletopic_kernel.table.dead_letters import DeadLetters  # noqa: PLC0415 - as above

    dead_letters = DeadLetters(catalog, table, desired.topic)
    try:
        exists = dead_letters.load()
    except ActionNeededError:  # another topic's table has this name: reported when it matters
        return {}
    name = in_sql(dead_letters.identifier, desired.settings.catalog)
    return {"dead_letters": dead_letters.count, "dead_letter_table": name} if exists else {}


def _status(
    report: _Newest,
    topic_ends: TopicEnds | None,
    reason: str | None,
    behind: dict[int, int] | None,
    oldest_ms: int | None,
    opened: list[OpenTransaction],
    desired: DesiredTopic,
) -> TopicStatus:
    """``behind``: next offsets where more records are; None if the lag is unknown, for this ``reason``."""
    progress, state, host = report
    ends = topic_ends.end if topic_ends else {}
    lag = None if behind is None else sum(ends[p] - offset for p, offset in behind.items())
    lag_seconds = _lag_seconds(progress, behind, oldest_ms)
    limits = progress.commit_interval_ms, progress.turn_wait_ms
    delay = delay_of(state, lag_seconds, *limits, has_open_transaction=bool(opened))
    return TopicStatus(
        **{name: getattr(progress, name) for name in _OF_PROGRESS},
        state=state,
        error=progress.error or reason or (NO_HOST_HINT if state == NO_HOST else None),
        lag_records=lag,
        lag_seconds=lag_seconds,
        end_offsets=ends,
        schema_versions=[version.model_dump() for version in progress.schema_versions],
        rows_per_second=round(progress.rows_per_second, 1),
        host=host,
        delay=delay,
        paused_by=(desired.requested_by or None) if desired.run == "paused" else None,
        delay_reason=waits_behind(opened) if opened else delay and delay.reason,
        waiting_records=sum(topic_ends.waiting.values()) if topic_ends else 0,
        open_transactions=opened,
    )


def _lag_seconds(progress: Progress, behind: dict[int, int] | None, oldest_ms: int | None) -> float | None:
    if not behind:
        return None if behind is None else 0.0
    known = min(progress.newest_ms.values(), default=None) if oldest_ms is None else oldest_ms
    return None if known is None else round(max(0.0, (now_ms() - known) / 1000), 3)


@dataclass(frozen=True)
class Looks:
    """Where ``statuses`` looks."""

    reports: Callable[[Broker], Mapping[str, HostReport]] = recent_reports
    table: Callable[[DesiredTopic, Catalog], Progress] = progress_of_table
    oldest: Callable[[dict[str, str], Mapping[str, Mapping[int, int]]], Mapping[str, int]] = oldest_timestamps
