"""The partitions and files of a backlog, estimated from a sample of known streams."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform

from tabletopic_kernel.clients.kafka.broker import TopicFacts
from tabletopic_kernel.workbench.topics import backlog
from tabletopic_kernel.workbench.topics.backlog import Backlog, estimated

_DAY = PartitionField(1, 1000, DayTransform(), "day")
_TENANT = PartitionField(2, 1001, IdentityTransform(), "tenant")
_BUCKET = PartitionField(2, 1001, BucketTransform(8), "bucket")
_Record = Callable[[int], tuple[Any, ...]]


def _estimate(fields: tuple[PartitionField, ...], records: int, record: _Record) -> Backlog:
    """From three samples of 2,000 records each, as they are read."""
    starts = [0, records // 2, records - 2_000]
    samples = [Counter(record(n) for n in range(start, start + 2_000)) for start in starts]
    return estimated(PartitionSpec(*fields), samples, records, exact=False)


_RANDOM = random.Random(7)


@pytest.mark.parametrize(
    ("fields", "records", "record", "partitions", "files"),
    [
        ((_DAY, _TENANT), 300_000, lambda n: (n // 150, _RANDOM.randrange(10)), 20_000, 20_000),
        ((_DAY, _TENANT), 3_000_000, lambda n: (n // 1_500, _RANDOM.randrange(10)), 20_000, 20_000),
        ((_DAY,), 3_000_000, lambda _: (_RANDOM.randrange(1_000),), 1_000, 3_000),
        ((_BUCKET,), 2_000_000, lambda _: (_RANDOM.randrange(8),), 8, 16),
        ((_TENANT,), 500_000, lambda _: (_RANDOM.randrange(20_000),), 20_000, 20_000),
        ((_DAY, _TENANT), 100_000, lambda n: (n // 100, _RANDOM.randrange(10_000)), 100_000, 100_000),
        ((_DAY,), 300_000, lambda n: (None if n % 3 else 10 if n % 400 else 200_000,), 2, 2),
    ],
    ids=["orders", "three-batches", "any-day", "buckets", "many", "a-file-per-record", "one-clock-is-wrong"],
)
def test_a_sample_tells_how_many_files_a_backlog_makes(
    fields: tuple[PartitionField, ...], records: int, record: _Record, partitions: int, files: int
) -> None:
    """Within a quarter, whatever the order of records, and where a few have a clock that is wrong."""
    result = _estimate(fields, records, record)
    assert result.partitions == pytest.approx(partitions, rel=0.25, abs=1)
    assert result.files == pytest.approx(files, rel=0.25, abs=2)


def test_short_partitions_are_read_once() -> None:
    """Whole, beside the beginning of the long ones, of which middle and end are read, too."""
    facts = TopicFacts("t", "", "", {0: 0, 1: 100, 2: 0}, {0: 9_000, 1: 300, 2: 0})
    begin, middle, end = backlog._places(facts)
    assert (begin.start, begin.end) == ({0: 0, 1: 100, 2: 0}, {0: 250, 1: 300, 2: 0})
    assert [(place.start, place.end) for place in (middle, end)] == [
        ({0: 4_375}, {0: 4_625}), ({0: 8_750}, {0: 9_000}),
    ]  # fmt: skip
    (place,) = backlog._places(TopicFacts("t", "", "", {0: 0, 1: 5}, {0: 750, 1: 9}))
    assert place.records == 754


def test_what_was_read_whole_is_counted() -> None:
    """Then nothing is estimated, and the sentence says so."""
    result = estimated(PartitionSpec(_DAY), [{(1,): 3, (9,): 1}], 4, exact=True)
    assert result == Backlog(4, 2, 2, exact=True)
    assert str(result) == "this backlog of 4 records has 2 partitions, 2 files"
    about = Backlog(300_000, 20_000, 20_000, exact=False)
    assert str(about) == "this backlog of 300,000 records has about 20,000 partitions, 20,000 files"
