"""Records as REST has them: as texts, since a browser's numbers would lose digits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tabletopic_kernel.faces.operations.operation import Arguments

if TYPE_CHECKING:
    from tabletopic_kernel.workbench.peek import PeekedRecord
    from tabletopic_kernel.workbench.peek.letters import Letters
    from tabletopic_kernel.workbench.peek.search import Records

# A text, null, or the beginning of a long text with its length.
Short = str | tuple[str, int] | None


@dataclass(frozen=True)
class ShownFate:
    """What became of a record: ``text`` for people, ``kind`` for programs, as in `peek --json`."""

    kind: Literal["not_yet", "row", "dead_letter", "no_row", "deleted", "superseded", "unknown"]
    text: str
    snapshot_id: str | None


@dataclass(frozen=True)
class RecordSchema:
    """The registered schema of a record, and its columns as text."""

    subject: str
    version: int
    columns: list[str]


@dataclass(frozen=True)
class WholeRecord:
    """Value, key and bytes, each as a ``tree`` of [name, value] pairs, a ``text``, or a ``hex`` dump with the
    ``length`` of the bytes; ``headers``: pairs of key and text.
    """

    value: dict[str, Any]
    key: dict[str, Any]
    raw: dict[str, Any]
    headers: list[tuple[str, Short]]
    registered: RecordSchema | None


@dataclass(frozen=True)
class ShownRecord:
    """A record; ``value`` has its fields as text, ``error`` says why it has none."""

    partition: int
    offset: int
    timestamp_ms: int
    key: Short
    value: Short
    error: Short
    schema_id: str | None
    fate: ShownFate | None
    whole: WholeRecord | None


@dataclass(frozen=True)
class ShownRecords:
    """Records, and how far the search looked: at ``looked`` of ``offsets``.

    ``cut_by`` ended it before the end: `limit`, `records`, `bytes` or `seconds`; ``go_on`` has the arguments
    that search the rest, instead of ``start``, ``at`` and ``before``. ``tail``: the ``start`` of what comes
    after all of these. ``notes``: what was asked for and is not there.
    """

    records: list[ShownRecord]
    looked: int
    offsets: int
    cut_by: str
    go_on: dict[str, str] | None
    tail: str
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class LetterCounts:
    """Dead letters of one reason, and one of their messages.

    ``counts``: for each step of time, its begin in ms and the number of dead letters in it.
    """

    reason: str
    letters: int
    first_ms: int
    last_ms: int
    counts: list[tuple[int, int]]
    message: str


@dataclass(frozen=True)
class ShownLetters:
    """Dead letters by reason, most first, with counts each ``step_ms``; ``records``: the newest."""

    letters: int
    step_ms: int
    groups: list[LetterCounts]
    records: list[ShownRecord]


def shown_letters(letters: Letters, *, whole: bool) -> ShownLetters:
    """The response of the page of dead letters."""
    groups = [
        LetterCounts(**{**vars(group), "counts": list(group.counts.items())}) for group in letters.groups
    ]
    records = [_shown(record, whole=whole) for record in letters.records]
    return ShownLetters(letters.letters, letters.step_ms, groups, records)


def shown_records(records: Records, values: Arguments) -> ShownRecords:
    """The response of ``peek``."""
    looked, rest = records.looked, records.looked.go_on
    places = {"start": rest.start, "before": rest.before} if rest is not None else {}
    return ShownRecords(
        records=[_shown(record, whole=values["raw"]) for record in records],
        looked=looked.looked,
        offsets=looked.records,
        cut_by=looked.cut_by,
        go_on={name: place for name, place in places.items() if place is not None} or None,
        tail=",".join(f"{p}:{end}" for p, (_, end) in sorted(looked.ranges.items())),
        notes=list(looked.notes),
    )


def _shown(record: PeekedRecord, *, whole: bool) -> ShownRecord:
    from tabletopic_kernel.faces.notebook.results.pages import cell  # noqa: PLC0415 - loads Arrow

    fate = record.fate
    return ShownRecord(
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        key=cell(record.readable_key),
        value=cell(record.value),
        error=cell(record.error),
        schema_id=None if record.schema_id is None else str(record.schema_id),
        fate=None if fate is None else ShownFate(fate.kind, fate.text, fate.snapshot_id),
        whole=_whole(record) if whole else None,
    )


def _whole(record: PeekedRecord) -> WholeRecord:
    from tabletopic_kernel.faces.notebook.results.pages import cell, whole  # noqa: PLC0415 - as above

    schema = record.schema
    return WholeRecord(
        value=whole(record.value if record.value is not None else record.error),
        key=whole(record.readable_key),
        raw=whole(record.raw),
        headers=[(header["key"], cell(header["value"])) for header in record.headers],
        registered=None if schema is None else RecordSchema(schema.subject, schema.version, schema.columns),
    )
