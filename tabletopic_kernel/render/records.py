"""Records of a topic and dead letters: as a table, whole, and one a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from tabletopic_kernel.model.columns.wrong_units import times_of, wrong_unit
from tabletopic_kernel.render.grid import Cell, Grid
from tabletopic_kernel.render.values import hex_dump, json_text, text
from tabletopic_kernel.render.words import clock

if TYPE_CHECKING:
    from tabletopic_kernel.workbench.peek import Fate, PeekedRecord
    from tabletopic_kernel.workbench.peek.letters import LetterGroup, Letters
    from tabletopic_kernel.workbench.peek.search import Records
    from tabletopic_kernel.workbench.peek.suspect_keys import SuspectKeys

_BARS: Final = "▁▂▃▄▅▆▇█"
_MOST_BARS, _MOST_PARTITIONS = 48, 8
_MOST_CHARACTERS, _MOST_BYTES = 20_000, 1_024
_MARKS: Final = {"row": "good", "dead_letter": "bad", "deleted": "warn", "unknown": "warn"}


def records_table(topic: str, records: Sequence[PeekedRecord], notes: Sequence[str] = ()) -> Grid:
    """Records: fields, or why a record cannot become a row; and what became of them."""
    names = list(dict.fromkeys(name for record in records for name in (record.value or ())))
    bad = any(record.error for record in records)
    keyed = any(record.key_value is not None for record in records)
    known = any(record.fate for record in records)
    extra = [*(["became"] if known else []), *(["error"] if bad else []), *(["key"] if keyed else [])]
    columns = ("partition", "offset", "time", "schema id", *extra, *names)
    rows: list[tuple[str | Cell, ...]] = [
        (
            str(record.partition),
            str(record.offset),
            clock(record.timestamp_ms),
            "-" if record.schema_id is None else str(record.schema_id),
            *([_fate(record.fate)] if known else []),
            *([Cell(record.error or "", "bad")] if bad else []),
            *([text(record.key_value)] if keyed else []),
            *(text(record.value.get(name)) if record.value else "" for name in names),
        )
        for record in records
    ]
    notes = [*notes] if rows or notes else ["the topic has no records"]
    values = [record.value for record in records if record.value]
    notes += filter(None, (wrong_unit(name, times_of(value.get(name) for value in values)) for name in names))
    return Grid(columns, rows, topic, notes, frozenset({"partition", "offset"}))


def _fate(fate: Fate | None) -> Cell:
    return Cell("-") if fate is None else Cell(fate.text, _MARKS.get(fate.kind, ""))


def record_line(record: PeekedRecord) -> str:
    """A record in one line."""
    key = record.key if record.key_value is None else record.key_value
    value = _shortened(record.error or json_text(record.value))
    place = f"{record.partition}:{record.offset}  {clock(record.timestamp_ms)}"
    return f"{place}  {json_text(key)}  {value}".replace("\n", " ")


def record_facts(topic: str, records: Sequence[PeekedRecord], notes: Sequence[str] = ()) -> Grid:
    """Each record whole: the value as a tree, headers, bytes, and what its schema expects."""
    rows: list[tuple[str, str | Cell]] = []
    for name, cell in (pair for record in records for pair in _facts(record)):
        mark = cell.mark if isinstance(cell, Cell) else ""
        lines = str(cell).split("\n")
        rows += [("" if n else name, Cell(part, mark)) for n, part in enumerate(lines)]
    return Grid(("name", "value"), rows, topic, notes or ([] if rows else ["no records"]), headed=False)


def _facts(record: PeekedRecord) -> Iterator[tuple[str, str | Cell]]:
    yield "record", f"partition {record.partition}, offset {record.offset}, {clock(record.timestamp_ms)}"
    if record.fate is not None:
        yield "became", _fate(record.fate)
    if record.error:
        yield "error", Cell(record.error, "bad")
    yield "key", text(record.key if record.key_value is None else record.key_value)
    for header in record.headers:
        yield f"header {header['key']}", text(header["value"])
    if record.schema is not None:
        yield "schema", f"id {record.schema_id}, version {record.schema.version} of {record.schema.subject}"
        yield "expected", "\n".join(record.schema.columns)
    yield "value", _shortened("\n".join(_tree(record.value)))
    yield "bytes", "none" if record.raw is None else f"{len(record.raw):,}\n{_dump(record.raw)}"


def _tree(value: Any, indent: str = "") -> Iterator[str]:
    if not value or not isinstance(value, dict | list):
        yield f"{indent}{json_text(value)}"
        return
    for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(inner, dict | list) and inner:
            yield f"{indent}{name}:"
            yield from _tree(inner, f"{indent}  ")
        else:
            yield f"{indent}{name}: {json_text(inner)}"


def _shortened(shown: str) -> str:
    rest = len(shown) - _MOST_CHARACTERS
    more = f"\n… and {rest:,} characters more; --json has all" if rest > 0 else ""
    return f"{shown[:_MOST_CHARACTERS]}{more}"


def _dump(raw: bytes) -> str:
    rest = len(raw) - _MOST_BYTES
    return hex_dump(raw[:_MOST_BYTES]) + (f"\n… and {rest:,} bytes more; --json has all" if rest > 0 else "")


def looked_notes(topic: str, records: Records) -> list[str]:
    """How far a search looked, if there is more, with the command that continues."""
    looked = records.looked
    notes = list(looked.notes)
    if looked.cut_by:
        parts = [
            f"partition {p} from {low:,} to {high:,}"
            for p, (low, high) in looked.ranges.items()
            if high > low
        ]
        many = len(parts) - _MOST_PARTITIONS
        parts = [*parts[:_MOST_PARTITIONS], *([f"{many} partitions more"] if many > 0 else [])]
        notes.append(
            f"looked at {looked.looked:,} of {looked.records:,} records: {', '.join(parts)}; "
            f"continue with `{looked.command(topic)}`"
        )
    elif not records and looked.records:
        notes.append(f"none of {looked.records:,} records matches")
    return notes


def suspect_keys_table(suspects: SuspectKeys) -> Grid:
    """Keys with dead letters, and where the newest of each is."""
    rows = [
        (json_text(suspect.key), f"{suspect.letters:,}", f"{suspect.partition}", f"{suspect.offset:,}")
        for suspect in suspects.keys
    ]
    about = f"{len(rows):,} keys; `tabletopic replay {suspects.topic}` applies changes that became readable"
    columns = ("Kafka key", "letters", "partition", "newest offset")
    title = suspects.topic if rows else ""
    return Grid(columns, rows, title, [about if rows else "no dead letters"], frozenset(columns[1:]))


def letters_table(letters: Letters, notes: Sequence[str] = ()) -> Grid:
    """Dead letters by reason, with bars of their counts over time."""
    columns = ("reason", "letters", "first", "last", "over time", "newest message")
    newest = max((max(group.counts) for group in letters.groups), default=0)
    times = [newest - n * letters.step_ms for n in reversed(range(_MOST_BARS))]
    oldest = min((min(group.counts) for group in letters.groups), default=0)
    times = [at for at in times if at >= oldest]
    rows = [
        (
            group.reason,
            f"{group.letters:,}",
            clock(group.first_ms),
            clock(group.last_ms),
            _bars(group, times),
            group.message,
        )
        for group in letters.groups
    ]
    unit = "an hour" if letters.step_ms < 24 * 3_600_000 else "a day"
    about = f"each bar is {unit}; {letters.letters:,} dead letters in {letters.table}"
    title = letters.topic if rows else ""
    return Grid(columns, rows, title, [about if rows else "no dead letters", *notes], frozenset({"letters"}))


def _bars(group: LetterGroup, times: Sequence[int]) -> str:
    most = max(group.counts.values())
    counts = [group.counts.get(at, 0) for at in times]
    return "".join(_BARS[-(-count * (len(_BARS) - 1) // most)] if count else " " for count in counts)
