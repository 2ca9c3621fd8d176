"""Transactions that nobody has ended: records behind them are in the topic, but no reader may have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

MOMENT_MS = 10_000  # every transaction is open for a moment


@dataclass(frozen=True)
class OpenTransaction:
    """The first open transaction of a partition. Times in ms since 1970.

    ``offset``: of its first record, the partition's last stable offset. ``records``: the offsets from there
    to the high watermark. ``since_ms``: its first record's timestamp; None if that could not be read.
    """

    topic: str
    partition: int
    offset: int
    records: int
    since_ms: int | None
    broker: str

    def command(self, action: str) -> str:
        """Kafka's command about it: ``describe-producers``, or ``abort`` (brokers since 3.0)."""
        start = f" --start-offset {self.offset}" if action == "abort" else ""
        place = f"--topic {self.topic} --partition {self.partition}"
        return f"kafka-transactions.sh --bootstrap-server {self.broker} {action} {place}{start}"


def waits_behind(transactions: Sequence[OpenTransaction]) -> str:
    """What waits behind transactions of a topic, and how to end it: librdkafka cannot ask who began them."""
    oldest = min(transactions, key=lambda begun: (begun.since_ms is None, begun.since_ms or 0))
    records = sum(transaction.records for transaction in transactions)
    since = ""
    if oldest.since_ms is not None:
        since = f" since {datetime.fromtimestamp(oldest.since_ms // 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    others = f" and {len(transactions) - 1} more partitions" if len(transactions) > 1 else ""
    return (
        f"{records:,} records wait behind an open transaction{since} "
        f"(partition {oldest.partition} from offset {oldest.offset:,}{others}) until its producer or "
        f"`transaction.timeout.ms` ends it. Its producer id: {oldest.command('describe-producers')}; "
        f"its transactional id: the same with `list`. If its producer is gone: {oldest.command('abort')}"
    )
