"""The text cards of a topic's page: each a function of the view."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from tabletopic_kernel.faces.live_dashboard.html import (
    Cell,
    Html,
    changes,
    figures,
    heading,
    moment,
    note,
    passed_over,
    state_html,
    table,
)
from tabletopic_kernel.faces.live_dashboard.view import View
from tabletopic_kernel.model.progress import events
from tabletopic_kernel.model.progress.progress_view import NO_HOST
from tabletopic_kernel.render import words
from tabletopic_kernel.render.states import words_of
from tabletopic_kernel.render.words import event_name, event_text, many

_ROWS = 30
_TEXT_CHARS = 600
_SAFE_S = 3_600.0
_WITHOUT_SCHEMAS = ("json", "string", "raw")
_WORKS = {"compact": "Next compaction", "expire": "Next expiry", "delete": "Rows that are too old"}


def tiles(view: View, name: str, zone: tzinfo) -> str:
    """The topic's state in figures."""
    # Longer than other functions: a list of tiles.
    topic, state, host = view.topic(name), view.standing(name), view.live_host(name)
    known, facts = topic.progress is not None, view.tables.get(name)
    progress = topic.progress or events.Progress(topic=name, table="")
    last_ms, interval_ms = topic.last_commit_ms, progress.commit_interval_ms
    left, left_remark = _time_left(view, name)
    size = f", {words.size(facts.bytes)}" if facts else ""
    versions = progress.schema_versions
    return figures(
        [
            ("State", Html(state_html(state)), words_of(state).meaning),
            (
                "Commit lag",
                "-" if topic.lag_records is None else many(topic.lag_records, "record"),
                _behind(topic.lag_seconds(view.now_ms)),
            ),
            (
                "Rate",
                f"{words.number(progress.rows_per_second)} rows/s" if host else "-",
                f"{words.number(progress.staged_rows)} rows staged" if progress.staged_rows else "",
            ),
            (
                "Last commit",
                f"{words.seconds(max(1, (view.now_ms - last_ms) // 1000))} ago"
                if last_ms > 0
                else "none yet",
                f"every {words.interval(interval_ms)}" if interval_ms else "",
            ),
            (
                "Rows",
                words.number(progress.rows if known else None),
                f"in {many(progress.files, 'file')}{size}{changes(progress.changes)}" if known else "",
            ),
            (
                "Schema",
                ", ".join(f"v{version.version}" for version in versions) or "-",
                ", ".join(sorted({version.subject for version in versions})),
            ),
            (
                "Table",
                progress.table or "-",
                f"snapshot {progress.snapshot_id}" if progress.snapshot_id else "no snapshot yet",
            ),
            ("Host", host or "none", f"epoch {progress.epoch}" if progress.epoch else ""),
            ("Time until data loss", left, left_remark),
        ],
        wide=["Table", "Host"],
        ids=["Table", "Host"],
    )


def _behind(seconds: float | None) -> str:
    if seconds is None:
        return "age of the oldest record: unknown"
    return f"oldest is {words.seconds(seconds)} old" if seconds else "up to date"


def _time_left(view: View, name: str) -> tuple[str, str]:
    """How long until retention may delete the oldest record that is not in the table, and why."""
    topic, retention = view.topic(name), view.retention.get(name)
    if retention is None:
        return "-", ""
    if topic.lag_records == 0:
        return "no limit", f"no lag; {retention}"
    left = retention.left_s(topic.oldest_ms, view.now_ms)
    limit = "no limit" if retention.is_endless else "-" if left is None else words.seconds(left)
    return limit, str(retention)


def notes(view: View, name: str) -> str:
    """Errors with their next steps; the first step, if there is no data yet."""
    # Longer than other functions: a list of notes, the most pressing first.
    topic, state, desired = view.topic(name), view.state(name), view.desired_topic(name)
    progress, retention = topic.progress, view.retention.get(name)
    texts = [(text, "bad") for text in view.troubles.values()]
    if view.desired_topics is None and not view.troubles:
        texts.append(("Connecting to the broker …", "info"))
    elif view.desired_topics is not None and desired is None:
        where = f"Enable it in JupyterLab's sidebar, with `tabletopic enable {name}`."
        texts.append((f"This topic is not enabled. {where}", "info"))
    elif desired is not None and desired.refused:
        texts.append((_short(desired.refused), "bad"))
    elif state == NO_HOST:
        start = "Start one in the sidebar, with `tabletopic serve`; it resumes at the table's ledger."
        texts.append((f"No host runs this topic: nothing is read or committed. {start}", "bad"))
    elif progress is not None and progress.error and view.live_host(name):
        texts.append((_short(progress.error), "bad" if state == "failed" else ""))
    elif (delay := view.delay(name)) is not None:
        texts.append((f"{name}: {topic.reason(delay)}.", ""))
    elif progress is not None and progress.commits == 0:
        waits = "The first records will trigger it."
        if topic.lag_records:
            waits = f"Waiting to commit {many(topic.lag_records, 'record')}."
        elif topic.lag_records == 0:
            waits += " The topic is empty: send some."
        texts.append((f"No commit yet. {waits}", "info"))
    left = retention.left_s(topic.oldest_ms, view.now_ms) if retention and topic.lag_records else None
    if left is not None and left < _SAFE_S:
        risk = "The topic's retention may delete the oldest record that is not in the table in"
        remedy = "raise retention.ms, or find out why the table is behind."
        texts.append((f"{risk} {words.seconds(left)}: {remedy}", "bad"))
    if 0 < view.history_read < 1:
        texts.append((f"Reading history from the control topic: {view.history_read:.0%}", "info"))
    return "".join(note(text, kind) for text, kind in texts)


def snapshots(view: View, name: str, zone: tzinfo) -> str:
    """The table's newest snapshots."""
    facts = view.tables.get(name)
    if facts is None or not facts.snapshots:
        return heading("Snapshots", "None yet; the first commit creates one.")
    rows: list[list[Cell]] = [
        [
            moment(snapshot.at_ms, zone),
            str(snapshot.snapshot_id),
            snapshot.operation if snapshot.next_offsets is not None else f"{snapshot.operation} (external)",
            words.number(snapshot.added_rows),
            words.number(snapshot.added_files),
            words.size(snapshot.added_bytes),
            words.number(snapshot.rows),
            words.number(None if snapshot.next_offsets is None else sum(snapshot.next_offsets.values())),
        ]
        for snapshot in facts.snapshots[:_ROWS]
    ]
    in_all = many(facts.snapshots_in_all, "snapshot")
    about = f"{facts.table}: {in_all}, showing the newest {len(rows)}; times in {zone}"
    columns = ["time", "snapshot", "operation", "rows", "files", "size", "total rows", "total offsets"]
    return heading("Snapshots", about) + table("Snapshots", columns, rows, right=columns[3:])


def schema_changes(view: View, name: str, zone: tzinfo) -> str:
    """Each schema change of the last days, in words."""
    topic = view.topic(name)
    versions = ", ".join(map(_schema, topic.progress.schema_versions if topic.progress else ()))
    desired = view.desired_topic(name)
    if versions:
        summary = f"The table covers {versions}."
    elif desired and desired.settings.value_format in _WITHOUT_SCHEMAS:
        summary = "This value format needs no registered schema."
    else:
        summary = "The table covers no registered schema yet."
    if not topic.changes:
        return heading("Schema versions", f"{summary} No change in the last 7 days.")
    rows: list[list[Cell]] = [
        [
            moment(change.at_ms, zone),
            *_change(change),
            _schema(change.cause) if change.cause else "-",
        ]
        for change in reversed(topic.changes[-_ROWS:])
    ]
    return heading("Schema versions", f"{summary} Times in {zone}.") + table(
        "Schema versions", ["time", "what", "change", "caused by"], rows, long=["change", "caused by"]
    )


def _change(change: events.SchemaEvolved | events.SchemaRefused) -> tuple[Cell, str]:
    if isinstance(change, events.SchemaEvolved):
        return "changed", "; ".join(change.changes)
    refused = "; ".join(f"{column}: {why}" for column, why in change.refused.items())
    return Html('<span class="bad">refused</span>'), refused


def _schema(schema: events.SchemaVersion) -> str:
    return f"{schema.subject} version {schema.version} (id {schema.id})"


def dead_letters(view: View, name: str, zone: tzinfo) -> str:
    """Rejected records by reason, with samples."""
    topic = view.topic(name)
    progress = topic.progress
    refused = dict(progress.refused) if progress else {}
    passed = passed_over(progress.passed_over, progress.expectation_failures) if progress else ""
    if not refused and not topic.dead_letters:
        every = " Every record became a row." if progress and progress.rows and not passed else ""
        return heading("Dead letters", f"None.{passed}{every}")
    most = max(refused.values(), default=1)
    counts: list[list[Cell]] = [
        [
            reason,
            words.number(count),
            Html(f'<div class="bar" style="width:{100 * count / most:.0f}%"></div>'),
        ]
        for reason, count in sorted(refused.items(), key=lambda item: -item[1])
    ]
    where = f" in {progress.dead_letter_table}" if progress and progress.dead_letter_table else ""
    waiting = f"{words.number(progress.dead_letters if progress else None)} stored{where}"
    html = heading("Dead letters", f"{many(sum(refused.values()), 'record')} refused; {waiting}.{passed}")
    if counts:
        columns = ["reason", "records", "share"]
        html += table("Dead letters by reason", columns, counts, right=["records"], long=["share"])
    if topic.dead_letters:
        html += _samples(topic.dead_letters, zone)
    return html


def _samples(letters: Sequence[events.DeadLettered], zone: tzinfo) -> str:
    samples = [(letter.at_ms, sample) for letter in letters for sample in letter.samples]
    rows: list[list[Cell]] = [
        [
            moment(at_ms, zone),
            sample.reason,
            f"{sample.partition}",
            f"{sample.offset:,}",
            _short(sample.message),
        ]
        for at_ms, sample in reversed(samples[-_ROWS:])
    ]
    columns = ["time", "reason", "partition", "offset", "message"]
    right = ["partition", "offset"]
    html = table("Samples of dead letters", columns, rows, right=right, long=["message"])
    return heading("Samples, newest first", f"times in {zone}") + html


def health(view: View, name: str, _: tzinfo) -> str:
    """File sizes, deletes and metadata of the table, and what maintenance will do next."""
    health = view.health.get(name)
    if health is None:
        return heading("Table health", "Available shortly after the first commit.")
    about = (
        f"{many(health.files, 'file')}, {health.small_share:.0%} below a quarter of the target of "
        f"{words.size(health.target_bytes)}"
    )
    most = max((sizes.files for sizes in health.sizes), default=1)
    sizes: list[list[Cell]] = [
        [
            "larger" if sizes.up_to_bytes is None else f"to {words.size(sizes.up_to_bytes)}",
            words.number(sizes.files),
            words.size(sizes.bytes),
            Html(f'<div class="bar" style="width:{100 * sizes.files / most:.0f}%"></div>'),
        ]
        for sizes in health.sizes
    ]
    rows: list[list[Cell]] = [
        ["Deletes", f"{words.number(health.deleted_rows)} rows by {many(health.delete_files, 'file')}"],
        ["Snapshots", words.number(health.snapshots)],
        ["Metadata", f"{words.size(health.metadata_bytes)}, {many(health.manifests, 'manifest')}"],
    ]
    rows += [[_WORKS[work.work], work.why] for work in health.next_work]
    html = heading("Table health", about)
    if sizes:
        columns = ["size", "files", "bytes", "share"]
        html += table("Files by size", columns, sizes, right=columns[1:3], long=["share"])
    return html + table("Deletes, snapshots and maintenance", ["what", "now"], rows, long=["now"])


def owners(view: View, name: str, zone: tzinfo) -> str:
    """Live hosts, owners of the topic, and its events."""
    topic, host = view.topic(name), view.live_host(name)
    alive = ", ".join(sorted({*view.hosts, *([host] if host else [])})) or "none"
    now = f"{host} owns this topic." if host else "No host owns this topic."
    html = heading("Hosts and events", f"{now} Live hosts: {alive}. Times in {zone}.")
    if not topic.notes:
        return html
    rows: list[list[Cell]] = [
        [moment(event.at_ms, zone), event_name(event), event.host or "-", _short(event_text(event))]
        for event in reversed(topic.notes[-_ROWS:])
    ]
    return html + table("Events", ["time", "event", "host", "detail"], rows, long=["detail"])


def _short(text: str) -> str:
    return text if len(text) <= _TEXT_CHARS else text[:_TEXT_CHARS] + " …"
