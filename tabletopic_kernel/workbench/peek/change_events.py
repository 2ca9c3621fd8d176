"""What a sample of change events shows of their connector, with the remedy, for ``plan``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tabletopic_kernel.model.settings.sections import TopicSettings

if TYPE_CHECKING:
    from tabletopic_kernel.workbench.peek import PeekedRecord

SAMPLE: Final = 50  # newest records
_UNAVAILABLE: Final = (b"__debezium_unavailable_value", b"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==")
_FULL: Final = "`ALTER TABLE … REPLICA IDENTITY FULL` sends whole rows"


def advice(records: Sequence[PeekedRecord], settings: TopicSettings) -> list[str]:
    """A line for each thing that the newest records show."""
    if settings.transform != "flatten_debezium":
        return []
    raws = [record.raw for record in records if record.raw is not None]
    events = [(record, event) for record in records if (event := _event(record.value))]
    notes = []
    if settings.value_format == "json" and raws and not any(_has_schema(raw) for raw in raws):
        notes.append(
            "JSON without a schema: the scale of decimals (base64) and the unit of times are unknown, and "
            "whether NaN is a number. schemas.enable=true of the JsonConverter sends the schema"
        )
    deletes = [event["before"] for _, event in events if event.get("op") == "d"]
    if partial := [before for before in deletes if before is None or _lacks(before)]:
        notes.append(
            f"{len(partial)} of {len(deletes)} deletes in the newest records have a partial row or none: "
            f"only their key is true, other columns are null or invented by Debezium; {_FULL}"
        )
    if any(mark in raw for raw in raws for mark in _UNAVAILABLE):
        notes.append(f"large values that an update left unchanged are not in the newest records; {_FULL}")
    if keyless := [record for record, _ in events if record.key is None]:
        notes.append(
            f"{len(keyless)} of {len(events)} newest change events have no key, so rows cannot be "
            "distinguished: give the source's table a primary key, or message.key.columns and REPLICA "
            "IDENTITY FULL"
        )
    if len(tables := sorted({_table(event) for _, event in events} - {""})) > 1:
        notes.append(
            f"the newest records are of {len(tables)} tables: {', '.join(tables[:5])}; if these are the "
            "partitions of one, a publication with publish_via_partition_root=true sends them as that"
        )
    return notes


def sends_no_whole_rows(records: Sequence[PeekedRecord]) -> bool:
    """Whether an update among them has no row before it: the source's table has no REPLICA IDENTITY FULL."""
    events = filter(None, (_event(record.value) for record in records))
    return any(event["op"] == "u" and event["before"] is None for event in events)


def _event(value: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    payload = (value or {}).get("payload")
    event = payload if isinstance(payload, Mapping) else value
    return {"before": None, **event} if event and "op" in event else None


def _has_schema(raw: bytes) -> bool:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and isinstance(value.get("schema"), dict)


def _lacks(row: Any) -> bool:
    values: Iterable[Any] = row.values() if isinstance(row, Mapping) else ()
    return any(value is None for value in values)


def _table(event: Mapping[str, Any]) -> str:
    source = event.get("source")
    parts = [source.get("schema") or source.get("db"), source.get("table")] if source else []
    return ".".join(str(part) for part in parts if part)
