"""Whether a topic's log still has what was committed, or was cut and has grown again (I8).

Why offsets are not enough: after an unclean leader election, or when a broker's disk is restored, a log goes
back and grows again with other records, under the same topic id. So the ledger has the fingerprint of the
last committed record of each partition. The record at its offset is read when a topic starts, and after each
batch was read, before the batch may be committed. Where retention or compaction removed that record, the
rest is trusted.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from tabletopic_kernel.clients.kafka.broker import Broker, TopicFacts
from tabletopic_kernel.host.resume_point import check_same_topic
from tabletopic_kernel.model.columns.evolution import METADATA
from tabletopic_kernel.model.columns.upsert_columns import check_upsert
from tabletopic_kernel.model.errors import ActionNeededError, ResumeError, UsageError
from tabletopic_kernel.model.fingerprint import LastRecords, fingerprint
from tabletopic_kernel.model.ledger import Ledger, Offsets
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table.changes.change import appended
from tabletopic_kernel.table.changes.cut_rows import Lost, keys_and_times, without_rows
from tabletopic_kernel.table.topic_table import TopicTable

_FIRST_ROWS, _MORE = 10_000, 10  # offsets that are compared at first, and how many times as many next


class Comparison(NamedTuple):
    """Partitions whose last committed record is ``other`` than it was, or ``gone``, by its offset."""

    other: Offsets
    gone: Offsets


def compare(topic: str, last_records: LastRecords, broker: Broker) -> Comparison:
    """Compare the last committed records with those that the topic has at their offsets, one by partition."""
    if not last_records:
        return Comparison({}, {})
    places = {p: offset for p, (offset, _) in last_records.items()}
    ends = {p: offset + 1 for p, offset in places.items()}
    now = {record.partition: record for records in broker.read(topic, places, ends) for record in records}
    return Comparison(
        {
            p: offset
            for p, offset in places.items()
            if p in now and fingerprint(*now[p][2:]) != last_records[p][1]
        },
        {p: offset for p, offset in places.items() if p not in now},
    )


def compare_with(facts: TopicFacts, ledger: Ledger, broker: Broker) -> Comparison:
    """As ``compare``, also with the topic's first and end offsets, for a whole ledger."""
    last, first, end = ledger.last_records, facts.first, facts.end
    readable = {p: at for p, at in last.items() if p in end and first[p] <= at[0] < end[p]}
    compared = compare(facts.topic, readable, broker)
    short = {p: end[p] for p, offset in ledger.next_offsets.items() if p in end and end[p] < offset}
    return Comparison(
        {p: min(at, short.get(p, at)) for p, at in {**short, **compared.other}.items()},
        {**{p: at[0] for p, at in last.items() if p in end and at[0] < first[p]}, **compared.gone},
    )


def lost_part(
    ledger: Ledger | None,
    facts: TopicFacts,
    settings: TopicSettings,
    table: TopicTable | None,
    broker: Broker,
) -> Lost:
    """The committed offsets that the topic's log lost; empty, unless the settings allow to go on after them.

    Raises ActionNeededError if they do not, the table cannot tell its rows apart, or it is another topic.
    """
    if ledger is None or table is None:
        return {}
    same_cluster = facts.cluster_id == ledger.cluster_id
    check_same_topic(ledger.topic, ledger.topic_id, facts.topic_id, same_cluster=same_cluster)
    other = compare_with(facts, ledger, broker).other
    if not other:
        return {}
    if METADATA not in table.table.schema().column_names:
        raise ActionNeededError(
            f"{_explained(ledger.topic, facts, other)}. Which rows are meant is unknown, as the table has "
            "no column _kafka_metadata: enable the topic with another --table",
        )
    lost = {
        p: (_divergence(table, p, offset, facts, broker), ledger.next_offsets[p])
        for p, offset in other.items()
    }
    choices = _choices(settings)
    if not choices:
        raise ActionNeededError(
            f"{_explained(ledger.topic, facts, other)}. The table is kept by key without an order, so which "
            "of its rows are the newest is unknown: enable the topic with another --table"
        )
    if settings.on_truncation not in choices:
        ranges = "; ".join(f"partition {p}: {first} to {end - 1}" for p, (first, end) in sorted(lost.items()))
        resume = f"tabletopic resume {ledger.topic} --on-truncation"
        ways = ", ".join(f"`{resume} {choice}` {effect}" for choice, effect in choices.items())
        raise ResumeError(
            f"{_explained(ledger.topic, facts, other)}. Committed offsets with other records now, or "
            f"none: {ranges}. {ways}; the topic is read again from the first of them on"
        )
    if settings.on_truncation == "rewind":
        _check_alone(ledger, lost)
    return lost


def _choices(settings: TopicSettings) -> dict[str, str]:
    """What may become of the rows of lost records, and its effect: all, unless the table is kept by key."""
    effects = {"mark": "keeps their rows and notes them in the ledger", "rewind": "deletes them"}
    for choice in list(effects) if settings.mode == "upsert" else ():
        try:
            check_upsert(settings.model_copy(update={"on_truncation": choice}))
        except UsageError:
            del effects[choice]
    return effects


def _check_alone(ledger: Ledger, lost: Lost) -> None:
    """Raise ResumeError if rows that are kept have offsets of a lost part, too: both would be deleted."""
    shared = [
        p
        for p, (first, end) in lost.items()
        if any(start < end and first < upto for start, upto, _ in ledger.truncated.get(p, ()))
    ]
    if shared:
        partitions = ", ".join(map(str, sorted(shared)))
        raise ResumeError(
            f"the log of {ledger.topic} was cut, and on_truncation = rewind would also delete rows that an "
            f"earlier log left (partition {partitions}): they have the same offsets. "
            f"`tabletopic resume {ledger.topic} --on-truncation mark` keeps all rows"
        )


def set_back(table: TopicTable | None, ledger: Ledger, lost: Lost, settings: TopicSettings) -> Ledger:
    """Set the ledger back to where the log was cut; mark or delete the rows behind, in one commit (I2)."""
    if not lost or table is None:
        return ledger
    marked = settings.on_truncation == "mark"
    after = ledger.cut_back(lost, marked=marked)
    table.commit(ledger, appended(after, ()) if marked else without_rows(table, after, lost))
    return after


def _explained(topic: str, facts: TopicFacts, other: Offsets) -> str:
    places = ", ".join(
        f"partition {p}: {'ends at' if facts.end[p] <= offset else 'another record at'} offset {offset}"
        for p, offset in sorted(other.items())
    )
    return f"the log of {topic} was cut after its records were committed ({places})"


def _divergence(table: TopicTable, partition: int, other: int, facts: TopicFacts, broker: Broker) -> int:
    """The offset behind the last row that is still the topic's record; ``other`` is known to differ.

    Rows before it are the topic's, and rows after it are not: so a bisection over the table's offsets finds
    it, first over the newest of them.
    """
    first, size = facts.first[partition], _FIRST_ROWS

    def differs(offset: int) -> bool:  # the row there, or at the next record that compaction left
        for records in broker.read(facts.topic, {partition: offset}, {partition: other}):
            for record in records:
                if record.offset in rows:
                    return not any(
                        key in (None, record.key) and stamp in (None, record.timestamp_ms)
                        for key, stamp in rows[record.offset]
                    )
        return True

    while True:
        start = max(other - size, 0)
        rows = keys_and_times(table, partition, start, other)
        offsets = list(rows)
        same = bisect_left(offsets, True, key=lambda offset: offset >= first and differs(offset))
        if same or not start:
            return min(max(offsets[same - 1] + 1 if same else 0, first), other)
        size *= _MORE
