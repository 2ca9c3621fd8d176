"""Read-only operations on what catalogs and registry have: tables, files, snapshots, subjects."""

# Imports are deferred, as in ``inspection.py``.
# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

from tabletopic_kernel.faces.operations.operation import Arguments, Option, Route, line, operation

if TYPE_CHECKING:
    from tabletopic_kernel.render.grid import Grid
    from tabletopic_kernel.workbench.catalog.detail import SnapshotDifference, TableDetail
    from tabletopic_kernel.workbench.catalog.files import TableFiles
    from tabletopic_kernel.workbench.catalog.subjects import Subject
    from tabletopic_kernel.workbench.catalog.tables import CatalogTables
    from tabletopic_kernel.workbench.workbench import Workbench

PANEL = "Catalog and registry"
Table = Annotated[str, Option("Name of the table, as `tables` shows it", metavar="TABLE", positional=True)]
_SNAPSHOT = Option("Id of a snapshot", metavar="ID", least=0)


def _draws(name: str) -> Callable[[Any, Arguments], Grid]:
    def draw(result: Any, _: Arguments) -> Grid:
        grid: Grid = getattr(import_module("tabletopic_kernel.render.catalog"), name)(result)
        return grid

    return draw


@operation(
    PANEL,
    _draws("tables_table"),
    has_failed=lambda tables: bool(tables.troubles and not tables.tables),
    route=Route("get", "tables"),
)
def tables(workbench: Workbench) -> CatalogTables:
    """List the tables of all catalogs, table topics or not.

    A catalog that does not respond is named below the others' tables.

    Example:  tabletopic tables
    """
    return workbench.tables.all()


@operation(PANEL, _draws("table_columns"), route=Route("get", "tables/{table}", verbatim=True))
def table(workbench: Workbench, table: Table) -> TableDetail:
    """Show a table: columns, partitioning, snapshots, branches and tags, properties.

    Reads the table's metadata, no manifests and no data files.

    Example:  tabletopic table default.clicks
    """
    return workbench.tables.detail(table)


@operation(
    PANEL,
    _draws("files_table"),
    route=Route("get", "tables/{table}/files", takes=("limit",), verbatim=True),
)
def files(
    workbench: Workbench,
    table: Table,
    limit: Annotated[int, Option("How many partitions and files", ("-n",), metavar="N", least=1)] = 100,
) -> TableFiles:
    """Show a table's partitions, its largest files, and the bounds of its columns.

    Reads the manifests of the newest snapshot, no data files: rows that delete
    files delete count, and long texts are cut off.

    Example:  tabletopic files default.clicks
    """
    return workbench.tables.files(table, limit)


@operation(
    PANEL,
    _draws("difference_text"),
    route=Route("get", "tables/{table}/difference", takes=("before", "after"), verbatim=True),
)
def compare(
    workbench: Workbench,
    table: Table,
    before: Annotated[int, _SNAPSHOT],
    after: Annotated[int, _SNAPSHOT],
) -> SnapshotDifference:
    """Show what is different between two snapshots of a table: columns, rows, files.

    Example:  tabletopic compare default.clicks --before 4711 --after 4712
    """
    return workbench.tables.compare(table, before, after)


@operation(
    PANEL,
    lambda names, _: list(map(line, names)),
    empty="the registry has no subjects yet",
    route=Route("get", "subjects", key="subjects", verbatim=True),
)
def subjects(workbench: Workbench) -> list[str]:
    """List the subjects of the schema registry.

    Example:  tabletopic subjects
    """
    return sorted(workbench.registry.check())


@operation(PANEL, _draws("subject_text"), route=Route("get", "subjects/{subject}", verbatim=True))
def subject(
    workbench: Workbench,
    subject: Annotated[str, Option("Name of the subject", metavar="SUBJECT", positional=True)],
) -> Subject:
    """Show a subject: its versions, their schemas, the compatibility rule, and which topics use it.

    Example:  tabletopic subject clicks-value --json
    """
    from tabletopic_kernel.workbench.catalog.subjects import subject_of

    return subject_of(workbench, subject)
