"""Where a table topic resumes: the first ledger, and the checks before an existing one is trusted (I8).

Why this is safe: offsets mean nothing by themselves. A ledger is trusted only for the cluster id and topic id
that it was written for, and only if the topic still has the next records. Anything less stops the topic: a
re-created topic, a topic that lost its end, a missing partition, and, unless the settings skip it, a gap. No
checkpoint, consumer group or event is read (I6).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from tabletopic_kernel.clients.kafka.broker import Broker, TopicFacts
from tabletopic_kernel.clients.kafka.java_properties import java_properties
from tabletopic_kernel.model.errors import ActionNeededError, GapError
from tabletopic_kernel.model.ledger import Ledger, Offsets, is_same_topic
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.source import SourceSpec


def first_ledger(facts: TopicFacts, settings: TopicSettings, broker: Broker) -> Ledger:
    """The first ledger of a table: all partitions, at the ``start`` setting."""
    if settings.start == "earliest":
        offsets = facts.first
    elif settings.start == "latest":
        offsets = facts.end
    else:
        offsets = broker.offsets_at(facts.topic, facts.end, settings.start)
    return Ledger(
        topic=facts.topic,
        cluster_id=facts.cluster_id,
        topic_id=facts.topic_id,
        next_offsets=offsets,
        epoch=1,
        commit_id=str(uuid.uuid4()),
    )


def check_same_topic(topic: str, before_id: str, now_id: str, *, same_cluster: bool = True) -> None:
    """Raise ActionNeededError unless ``now_id`` is the topic of the ledger's offsets, ``before_id`` (I8)."""
    if same_cluster and is_same_topic(before_id, now_id):
        return
    change = "was re-created" if same_cluster else "is on another cluster"
    raise ActionNeededError(
        f"the topic {topic} {change} since the table was filled (topic id {before_id}, now "
        f"{now_id}); its offsets refer to other records. If it is a copy with the same records, "
        f"`tabletopic rebase {topic}` finds where to continue; else enable it with another --table"
    )


def check_not_ahead(topic: str, next_offsets: Offsets, end: Offsets) -> None:
    """Raise ActionNeededError if the topic lacks what was read (I8); read ``end`` after the ledger."""
    ahead = {p: offset for p, offset in next_offsets.items() if offset > end.get(p, offset)}
    if ahead:
        raise ActionNeededError(
            f"the table is ahead of {topic} ({ahead}): the topic lost records. Once it has all that it gets "
            f"back, `tabletopic resume {topic}` says how to continue"
        )
    missing = set(next_offsets) - set(end)
    if missing:
        raise ActionNeededError(f"the topic {topic} no longer has partitions {sorted(missing)}")


def check_no_gap(topic: str, next_offsets: Offsets, first: Offsets) -> None:
    """Raise GapError if records from the ledger's offsets on were deleted (I8); ``first`` may lack some."""
    # A partition that is not in the ledger was added since, and began at 0.
    starts = {p: (next_offsets.get(p, 0), first_offset) for p, first_offset in first.items()}
    gaps = {p: (start, end) for p, (start, end) in starts.items() if end > start}
    if gaps:
        ranges = ", ".join(
            f"partition {p}: {end - start} records from offset {start}" for p, (start, end) in gaps.items()
        )
        raise GapError(
            gaps,
            f"records of {topic} were deleted by retention before they were read ({ranges}). "
            f"`tabletopic alter {topic} --on-gap go_on` continues after the gap and counts the missing "
            "records; a new --table starts with the remaining records",
        )


def check_topic(before: Ledger, facts: TopicFacts) -> None:
    """Raise ActionNeededError for another topic or one with fewer records, GapError for a gap (I8)."""
    same_cluster = facts.cluster_id == before.cluster_id
    check_same_topic(before.topic, before.topic_id, facts.topic_id, same_cluster=same_cluster)
    check_no_gap(facts.topic, before.next_offsets, facts.first)
    check_not_ahead(facts.topic, before.next_offsets, facts.end)


def gap_to_skip(before: Ledger, facts: TopicFacts, settings: TopicSettings) -> Mapping[int, tuple[int, int]]:
    """Deleted records that may be skipped, as ``GapError.missing``; raises as ``check_topic``."""
    try:
        check_topic(before, facts)
    except GapError as gap:
        if settings.on_gap == "stop":
            raise
        check_topic(before.skipping(gap.missing, before.commit_id), facts)  # for errors beyond the gap
        return gap.missing
    return {}


def source_spec(topic: str, settings: TopicSettings, broker: Broker, start: Offsets) -> SourceSpec:
    """What the worker reads, from ``start`` on."""
    properties = broker.properties
    return SourceSpec(topic, java_properties(properties), start, settings, librdkafka=properties)
