"""Records of a topic and what became of them; dead letters by reason, whole, downloaded, dropped."""

# Imports are deferred, as in ``inspection.py``.
# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tabletopic_kernel.faces.operations.inspection import PANEL
from tabletopic_kernel.faces.operations.operation import (
    Arguments,
    JsonText,
    Message,
    Option,
    Route,
    Topic,
    Wait,
    line,
    operation,
)
from tabletopic_kernel.faces.operations.shown_records import shown_records
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError, UsageError
from tabletopic_kernel.model.progress.events import LettersDropped

if TYPE_CHECKING:
    from tabletopic_kernel.render.grid import Grid
    from tabletopic_kernel.workbench.peek import PeekedRecord
    from tabletopic_kernel.workbench.peek.letters import Letters
    from tabletopic_kernel.workbench.peek.search import Records
    from tabletopic_kernel.workbench.peek.suspect_keys import SuspectKeys
    from tabletopic_kernel.workbench.workbench import Workbench


def _peek_text(records: Records | Iterator[PeekedRecord], values: Arguments) -> Grid | Iterator[Message]:
    from tabletopic_kernel.render import records as render

    if isinstance(records, Iterator):
        return (line(render.record_line(record)) for record in records)
    draw = render.record_facts if values["raw"] else render.records_table
    return draw(values["topic"], records, render.looked_notes(values["topic"], records))


def _peek_json(records: Records | Iterator[PeekedRecord]) -> JsonText | Iterator[JsonText]:
    from tabletopic_kernel.render.values import json_text

    texts = (json_text(asdict(record)) for record in records)
    if isinstance(records, Iterator):
        return map(JsonText, texts)
    return JsonText("[" + ",\n ".join(texts) + "]")


_PEEK = Route(
    "get",
    "topics/{topic}/records",
    notes="Values are texts, short ones in a list; with `raw` each record is also whole.",
    takes=("limit", "start", "at", "before", "partition", "key", "where", "raw"),
    body=shown_records,
)


@operation(PANEL, _peek_text, json=_peek_json, route=_PEEK)
def peek(
    workbench: Workbench,
    topic: Topic,
    limit: Annotated[int, Option("How many records", ("-n", "--limit"), metavar="N", least=1)] = 20,
    start: Annotated[
        str,
        Option("Begin at newest, oldest, an offset, or PARTITION:OFFSET,…", ("--from",), metavar="PLACE"),
    ] = "newest",
    at: Annotated[str | None, Option("Begin at a time, such as 2026-01-31T12:00:00Z", metavar="TIME")] = None,
    before: Annotated[
        str | None, Option("Look only before an offset, or PARTITION:OFFSET,…", metavar="PLACE")
    ] = None,
    partition: Annotated[int | None, Option("Only this partition", metavar="N", least=0)] = None,
    key: Annotated[str | None, Option("Only records with this key")] = None,
    where: Annotated[
        str | None, Option("Only records for which this condition is true", metavar="SQL")
    ] = None,
    raw: Annotated[bool, Option("Show each record whole: value, headers, bytes, schema")] = False,
    follow: Annotated[bool, Option("Print records as they come until Ctrl-C", ("--follow", "-f"))] = False,
) -> list[PeekedRecord] | Iterator[PeekedRecord]:
    """Show records of a topic, decoded, and what became of each: row, dead letter, or why neither.

    By default the newest first; from another place, the oldest first. The topic
    need not be enabled. A condition refers to fields of the decoded value, to
    _kafka_key, _kafka_header, _kafka_metadata, and to _kafka_error of a value
    that cannot be decoded. A search reads at most 1,000,000 records, 1 GB or
    10 s, and shows the command that continues.

    Example:  tabletopic peek clicks --from oldest --where "country = 'NL'"
    """
    search = {"start": start, "at": at, "before": before, "partition": partition, "key": key, "where": where}
    handle = workbench.topic(topic)
    return handle.follow(**search) if follow else handle.peek(limit, raw=raw, **search)


@dataclass(frozen=True)
class Downloaded:
    """Dead letters in a file."""

    topic: str
    letters: int
    file: str


def _letters_text(
    outcome: Letters | Downloaded | LettersDropped | SuspectKeys, values: Arguments
) -> Grid | list[Message]:
    from tabletopic_kernel.render import records as render
    from tabletopic_kernel.render.words import many
    from tabletopic_kernel.workbench.peek.suspect_keys import SuspectKeys

    if isinstance(outcome, Downloaded):
        return [line(f"{many(outcome.letters, 'dead letter')} in {outcome.file}")]
    if isinstance(outcome, LettersDropped):
        counts = [f"  {count:,} {reason}" for reason, count in outcome.letters.items()]
        head = f"{many(sum(outcome.letters.values()), 'dead letter')} dropped"
        return list(map(line, [head, *counts]))
    if isinstance(outcome, SuspectKeys):
        return render.suspect_keys_table(outcome)
    if outcome.records:
        first = outcome.records[0]
        place = f"--partition {first.partition} --from {first.offset} -n 1"
        notes = [f"the first one in Kafka: `tabletopic peek {outcome.topic} {place} --raw`"]
        draw = render.record_facts if values["raw"] else render.records_table
        return draw(outcome.topic, outcome.records, notes)
    is_planned = values["drop"] and outcome.letters
    notes = ["nothing is dropped yet: --yes does it, and cannot be undone"] if is_planned else []
    return render.letters_table(outcome, notes)


@operation(PANEL, _letters_text)
def letters(
    workbench: Workbench,
    topic: Topic,
    where: Annotated[str | None, Option("Only dead letters matching this condition", metavar="SQL")] = None,
    limit: Annotated[
        int | None, Option("Show the newest ones instead of counts", ("-n", "--limit"), metavar="N", least=1)
    ] = None,
    raw: Annotated[bool, Option("With -n: whole; with --output: values alone, as files of a folder")] = False,
    keys: Annotated[bool, Option("Of a table with one row per key: keys whose rows may be too old")] = False,
    output: Annotated[Path | None, Option("Write them into this new file, as JSON lines")] = None,
    drop: Annotated[bool, Option("Show what would be dropped; with --yes, drop it for good")] = False,
    note: Annotated[str, Option("With --drop: why; the topic's events keep it, and your name")] = "",
    yes: Annotated[bool, Option("Do it; there is no way back")] = False,
    timeout: Wait = 300.0,
) -> Letters | Downloaded | LettersDropped | SuspectKeys:
    """Show the dead letters of a topic by reason, with counts over time.

    With -n also the newest of them with their records, and with --raw beside
    what their schema expects. A download has bytes in base64. --drop has the
    topic's host remove them. Conditions refer to columns of the dead-letter
    table: partition, offset, timestamp, schema_id, reason, message, at;
    `tabletopic replay` takes the same.

    Example:  tabletopic letters clicks --where "reason = 'unknown_schema'"
    """
    handle = workbench.topic(topic)
    if (note or yes) and not drop:
        raise UsageError("--note and --yes require --drop")
    if (keys, output is not None, drop).count(True) > 1:
        raise UsageError("--keys, --output and --drop are done one at a time")
    if keys:
        return handle.suspect_keys(where)
    if output is not None:
        return Downloaded(topic, handle.download_letters(Path(output), where, raw=raw), str(output))
    if not (drop and yes):
        return handle.letters(where, limit or 0)
    outcome = handle.drop_letters(note, where, timeout)
    if outcome is None:
        raise RetryableError(
            f"after {timeout:g} s the drop of {topic} is still waiting; see `tabletopic events {topic}`"
        )
    if outcome.error is not None:
        from tabletopic_kernel.render.words import event_text

        raise ActionNeededError(event_text(outcome))
    return outcome
