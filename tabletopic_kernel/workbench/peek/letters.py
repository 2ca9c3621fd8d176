"""Dead letters for people: by reason with counts over time, whole, and as files."""

from __future__ import annotations

import json
from base64 import b64encode
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import And, BooleanExpression

from tabletopic_kernel.clients.catalog.catalog import lends_keys, reachable
from tabletopic_kernel.clients.registry.registry import Registry
from tabletopic_kernel.host.replay.letters import dead_letters_where, records_of
from tabletopic_kernel.model.dead_letter import SCHEMA
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.table_names import table_identifier
from tabletopic_kernel.pipeline.sinks import places_of
from tabletopic_kernel.render.values import json_text
from tabletopic_kernel.table.dead_letters import LetterTable
from tabletopic_kernel.workbench.peek import Fate, PeekedRecord, decoded
from tabletopic_kernel.workbench.peek.fates import among
from tabletopic_kernel.workbench.peek.schemas import with_schemas

_HOUR_MS: Final = 3_600_000
_MOST_HOURS: Final = 48  # beyond, counts are by day


@dataclass(frozen=True)
class LetterGroup:
    """Dead letters of one reason: ``counts`` by hour or day, of its begin in ms, and one of the messages."""

    reason: str
    letters: int
    first_ms: int
    last_ms: int
    counts: dict[int, int]
    message: str


@dataclass(frozen=True)
class Letters:
    """Dead letters of a topic by reason, most first; ``records``: the newest, whole."""

    topic: str
    table: str
    letters: int
    step_ms: int
    groups: list[LetterGroup]
    records: list[PeekedRecord]

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; bytes as ``peek`` has them."""
        plain: dict[str, Any] = json.loads(json_text(asdict(self)))
        return plain


def read_letters(
    topic: str, settings: TopicSettings, registry: Registry, catalog: Catalog, where: str | None, limit: int
) -> Letters:
    """The letters that match ``where``, and the newest ``limit`` of them whole; UsageError if it is wrong."""
    condition = dead_letters_where(where)
    letters = LetterTable(catalog, table_identifier(topic, settings), topic)
    groups: dict[str, LetterGroup] = {}
    newest = None
    for rows in _scan(letters, condition, ("partition", "offset", "reason", "message", "at")):
        for group in _groups(rows):
            groups[group.reason] = _merged(groups[group.reason], group) if group.reason in groups else group
        if limit:
            newest = _newest(rows if newest is None else pa.concat_batches([newest, rows]), limit)
    step = _step(groups.values())
    by_step = [replace(group, counts=_by(step, group.counts.items())) for group in groups.values()]
    by_step.sort(key=lambda group: (-group.letters, group.reason))
    records = _whole(letters, condition, newest, topic, settings, registry) if newest is not None else []
    return Letters(topic, letters.name, sum(group.letters for group in by_step), step, by_step, records)


def _scan(letters: LetterTable, where: BooleanExpression, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    if letters.load() and letters.table is not None:
        table = letters.table.table
        with reachable("the storage", lent=lends_keys(table)):
            scan = table.scan(row_filter=where, selected_fields=tuple(names))
            yield from filter(len, scan.to_arrow_batch_reader())


def _times(rows: pa.RecordBatch) -> np.ndarray[Any, Any]:
    times: np.ndarray[Any, Any] = pc.divide(rows.column("at").cast(pa.int64()), 1_000).to_numpy()
    return times


def _newest(rows: pa.RecordBatch, limit: int) -> pa.RecordBatch:
    return rows.take(pa.array(np.argsort(-_times(rows), kind="stable")[:limit]))


def _groups(rows: pa.RecordBatch) -> Iterator[LetterGroup]:
    """Of one batch, with counts by hour."""
    times = _times(rows)
    for reason in rows.column("reason").unique().to_pylist():
        chosen = np.flatnonzero(pc.equal(rows.column("reason"), reason).to_numpy(zero_copy_only=False))
        at_ms = times[chosen]
        message = rows.column("message")[int(chosen[at_ms.argmax()])].as_py()
        hours, counts = np.unique(at_ms // _HOUR_MS * _HOUR_MS, return_counts=True)
        by_hour = dict(zip(hours.tolist(), counts.tolist(), strict=True))
        yield LetterGroup(reason, len(at_ms), int(at_ms.min()), int(at_ms.max()), by_hour, message)


def _merged(group: LetterGroup, other: LetterGroup) -> LetterGroup:
    newer = max(group, other, key=lambda merged: merged.last_ms)
    return LetterGroup(
        group.reason,
        group.letters + other.letters,
        min(group.first_ms, other.first_ms),
        newer.last_ms,
        _by(_HOUR_MS, [*group.counts.items(), *other.counts.items()]),
        newer.message,
    )


def _step(groups: Collection[LetterGroup]) -> int:
    """An hour, or a day if there would be too many of them."""
    last = max((group.last_ms for group in groups), default=0)
    first = min((group.first_ms for group in groups), default=0)
    return _HOUR_MS if last - first <= _MOST_HOURS * _HOUR_MS else 24 * _HOUR_MS


def _by(step: int, counts: Iterable[tuple[int, int]]) -> dict[int, int]:
    summed = Counter[int]()
    for at, count in counts:
        summed[at // step * step] += count
    return dict(sorted(summed.items()))


def _whole(
    letters: LetterTable,
    where: BooleanExpression,
    newest: pa.RecordBatch,
    topic: str,
    settings: TopicSettings,
    registry: Registry,
) -> list[PeekedRecord]:
    """The records of ``newest``, in its order, as they would be decoded now."""
    order = {place: n for n, place in enumerate(places_of(newest))}
    condition = And(where, among(order, "partition", "offset"))
    scan = _scan(letters, condition, [field.name for field in SCHEMA.fields])
    parts = [batch.filter(pa.array([place in order for place in places_of(batch)])) for batch in scan]
    if not parts:  # all have been replayed or dropped by now
        return []
    whole = pa.Table.from_batches(parts)
    records = [record for batch in records_of(whole) for record in decoded(batch, topic, settings, registry)]
    fates = {
        (row["partition"], row["offset"]): Fate(
            "dead_letter",
            f"dead letter because {row['reason']}: {row['message']}",
            at_ms=round(row["at"].timestamp() * 1000),
            reason=row["reason"],
        )
        for row in newest.to_pylist()
    }
    records.sort(key=lambda record: order[record.partition, record.offset])
    records = [replace(record, fate=fates[record.partition, record.offset]) for record in records]
    return with_schemas(records, topic, settings, registry)


def download(
    topic: str, settings: TopicSettings, catalog: Catalog, file: Path, where: str | None, *, raw: bool
) -> int:
    """See ``RecordRequests.download_letters``; UsageError if the file exists."""
    condition = dead_letters_where(where)
    letters = LetterTable(catalog, table_identifier(topic, settings), topic)
    names = [field.name for field in SCHEMA.fields if field.name != "replay_id"]
    count = 0
    try:
        if raw:
            file.mkdir()
        with nullcontext() if raw else file.open("x", encoding="utf-8") as lines:
            for row in (row for batch in _scan(letters, condition, names) for row in batch.to_pylist()):
                count += 1
                if lines is None:
                    (file / f"{row['partition']}-{row['offset']}").write_bytes(row["value"] or b"")
                else:
                    lines.write(f"{json_text(_in_base64(row))}\n")
    except FileExistsError:
        raise UsageError(f"{file} exists: name a new {'folder' if raw else 'file'}") from None
    return count


def _in_base64(value: Any) -> Any:
    """A value of a letter with text for bytes."""
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, dict):
        return {key: _in_base64(inner) for key, inner in value.items()}
    return [_in_base64(inner) for inner in value] if isinstance(value, list) else value
