"""Tables of the catalogs, and subjects of the registry, as tables of text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tabletopic_kernel.render.grid import Cell, Grid
from tabletopic_kernel.render.topics import facts
from tabletopic_kernel.render.words import clock, many, number, size

if TYPE_CHECKING:
    from tabletopic_kernel.workbench.catalog.detail import SnapshotDifference, TableDetail
    from tabletopic_kernel.workbench.catalog.files import TableFiles
    from tabletopic_kernel.workbench.catalog.subjects import Subject
    from tabletopic_kernel.workbench.catalog.tables import CatalogTables

_SHOWN_SNAPSHOTS, _SHOWN_FILES = 10, 10  # the others are in the JSON


def tables_table(tables: CatalogTables) -> Grid:
    """One line per table."""
    rows = [(table.table, table.catalog) for table in tables.tables]
    notes = tables.troubles or ([] if rows else ["no tables yet"])
    return Grid(("table", "catalog"), rows, "", notes)


def table_columns(detail: TableDetail) -> Grid:
    """The columns of a table; what else its metadata says is below."""
    rows = [
        (column.name, column.type, "required" if column.required else "optional", column.doc or "")
        for column in detail.columns
    ]
    snapshots = [
        f"snapshot {made.snapshot_id}, {clock(made.at_ms)}: {made.operation}, {made.added_rows:+,} rows"
        for made in detail.snapshots[:_SHOWN_SNAPSHOTS]
    ]
    topic = f", of the topic {detail.topic}" if detail.topic else ""
    files = "" if detail.files is None else f" in {many(detail.files, 'file')}"
    notes = [
        f"format version {detail.format_version}{topic}, at {detail.location}",
        f"{number(detail.rows)} rows{files}, {many(detail.snapshot_count, 'snapshot')}",
        *([f"partitioned by {', '.join(detail.partition_by)}"] if detail.partition_by else []),
        *([f"sorted by {', '.join(detail.sort_by)}"] if detail.sort_by else []),
        *detail.refs,
        *snapshots,
        *(f"{name} = {value}" for name, value in detail.properties.items()),
    ]
    return Grid(("column", "type", "presence", "doc"), rows, detail.table, notes)


def files_table(files: TableFiles) -> Grid:
    """The partitions of a table; its columns and largest files are below."""
    numbers = ("rows", "files", "bytes")
    rows = [
        (partition.partition or "-", number(partition.rows), number(partition.files), size(partition.bytes))
        for partition in files.partitions
    ]
    columns = [
        f"column {column.name}: {number(column.nulls)} null, {column.lower or '-'} to {column.upper or '-'}"
        for column in files.columns
    ]
    largest = [f"{size(file.bytes)} of {file.content}, {file.path}" for file in files.files[:_SHOWN_FILES]]
    title = f"{files.table}: {many(files.file_count, 'file')}, {size(files.bytes)}, "
    title += many(files.partition_count, "partition")
    return Grid(("partition", *numbers), rows, title, [*columns, *largest], frozenset(numbers))


def difference_text(difference: SnapshotDifference) -> Grid:
    """What is different, one change per line."""
    before, after = difference.before, difference.after
    pairs: dict[str, str | Cell] = {
        "from": f"{before.snapshot_id}, {clock(before.at_ms)}",
        "to": f"{after.snapshot_id}, {clock(after.at_ms)}",
        "rows": f"{difference.rows:+,}: {number(before.rows)} to {number(after.rows)}",
        "files": f"{difference.files:+,}: {number(before.files)} to {number(after.files)}",
        "schema": "\n".join(difference.changes) or "no change",
    }
    return facts(difference.table, pairs)


def subject_text(subject: Subject) -> Grid:
    """A subject; the text of its newest version is below."""
    newest = subject.versions[0]
    pairs: dict[str, str | Cell] = {
        "compatibility": subject.compatibility,
        "topics": ", ".join(subject.topics) or "none",
        "versions": ", ".join(f"{version.version} (id {version.id})" for version in subject.versions),
    }
    return replace(facts(subject.subject, pairs), notes=(newest.error or newest.text).splitlines())
