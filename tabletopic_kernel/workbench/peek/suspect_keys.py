"""Keys of an upsert table whose rows may be too old, as one of their changes is a dead letter."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog

from tabletopic_kernel.clients.catalog.catalog import lends_keys, reachable
from tabletopic_kernel.clients.registry.registry import Registry
from tabletopic_kernel.host.replay.letters import dead_letters_where, records_of
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.table_names import table_identifier
from tabletopic_kernel.pipeline.source import SOURCE_SCHEMA
from tabletopic_kernel.render.values import json_text
from tabletopic_kernel.table.dead_letters import LetterTable
from tabletopic_kernel.workbench.peek import PeekedRecord, decoded


@dataclass(frozen=True)
class SuspectKey:
    """A Kafka key, None for records without one, and how many of its changes are dead letters.

    ``partition`` and ``offset``: the newest of them. ``tabletopic replay`` applies those that can be.
    """

    key: Any
    letters: int
    partition: int
    offset: int


@dataclass(frozen=True)
class SuspectKeys:
    """Of a topic, those with most dead letters first."""

    topic: str
    keys: list[SuspectKey]

    def to_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = json.loads(json_text(asdict(self)))
        return plain


def suspect_keys(
    topic: str, settings: TopicSettings, registry: Registry, catalog: Catalog, where: str | None
) -> SuspectKeys:
    """The keys of the dead letters that match ``where``; UsageError if the table is no upsert table."""
    if settings.mode != "upsert":
        raise UsageError(f"{topic} has a row for each record, so a dead letter leaves no other row as it was")
    condition = dead_letters_where(where)
    letters = LetterTable(catalog, table_identifier(topic, settings), topic)
    if not letters.load() or letters.table is None:
        return SuspectKeys(topic, [])
    table = letters.table.table
    names = tuple(name for name in SOURCE_SCHEMA.names if name != "value")  # keys alone are decoded
    with reachable("the storage", lent=lends_keys(table)):
        rows = table.scan(row_filter=condition, selected_fields=names).to_arrow()
    field = SOURCE_SCHEMA.field("value")
    rows = rows.append_column(field, pa.nulls(len(rows), field.type))
    batches = records_of(rows) if len(rows) else ()
    records = (record for batch in batches for record in decoded(batch, topic, settings, registry))
    return SuspectKeys(topic, _by_key(records))


def _by_key(records: Iterable[PeekedRecord]) -> list[SuspectKey]:
    counts, newest = Counter[str](), dict[str, PeekedRecord]()
    for record in records:
        key = json.dumps(_key_of(record), default=str)
        counts[key] += 1
        newest[key] = max(newest.get(key, record), record, key=_moment)
    suspects = [
        SuspectKey(_key_of(last), counts[key], last.partition, last.offset) for key, last in newest.items()
    ]
    return sorted(suspects, key=lambda suspect: (-suspect.letters, str(suspect.key)))


def _moment(record: PeekedRecord) -> tuple[int, int, int]:
    return record.timestamp_ms, record.partition, record.offset


def _key_of(record: PeekedRecord) -> Any:
    if record.key_value is not None or record.key is None:
        return record.key_value
    return record.key.decode("utf-8", "backslashreplace")
