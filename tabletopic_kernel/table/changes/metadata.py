"""Changes of a table's metadata, without rows: schemas, properties, orders, and the end of old snapshots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AddSchemaUpdate,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
)

from tabletopic_kernel.clients.catalog.catalog import reachable
from tabletopic_kernel.clients.catalog.hive_locks import lock_trouble
from tabletopic_kernel.clients.catalog.pyiceberg_seams.requirements import (
    lost_a_ref,
    order_updates,
    removal_of,
    same_refs,
    same_schemas,
    same_sort_orders,
)
from tabletopic_kernel.clients.catalog.pyiceberg_seams.tables import is_identifier, send
from tabletopic_kernel.clients.outside_errors.sorting import plain, sort_error
from tabletopic_kernel.model.columns.sort_orders import order_without_lost
from tabletopic_kernel.model.errors import (
    CATALOG,
    ActionNeededError,
    HeadMovedError,
    RetryableError,
    TableTopicError,
)
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.model.steps import Step, reach
from tabletopic_kernel.table.changes.ledger_history import LedgerTable


def change(table: LedgerTable, updates: tuple[TableUpdate, ...], epoch: int) -> None:
    """Commit changes of the schema or properties; raises as ``TopicTable.evolve``."""
    table.check_not_over(epoch)
    mend_order(table, epoch)
    _send(table, updates)


def _send(
    table: LedgerTable, updates: tuple[TableUpdate, ...], same: tuple[TableRequirement, ...] = ()
) -> None:
    reach(Step.EVOLVE)
    commit_updates(table, updates, (*same_schemas(table.table.metadata), *same))
    reach(Step.EVOLVED)


def commit_updates(
    table: LedgerTable, updates: tuple[TableUpdate, ...], requirements: tuple[TableRequirement, ...]
) -> None:
    """Commit changes without rows; raises HeadMovedError if another writer was first."""
    try:
        with reachable("the catalog"):
            table.table.catalog.commit_table(table.table, requirements, updates)
    except CommitFailedException as error:
        locked = lock_trouble(error, table.table.catalog, table.table.name())
        raise locked or HeadMovedError(str(error)) from error
    except NoSuchTableError as error:  # since it was created or loaded
        raise table.gone_error() from error
    table.reload()


def mend_order(table: LedgerTable, epoch: int) -> None:
    """Make the table's sort order name only existing columns: after others drop one, PyIceberg fails."""
    metadata = table.table.metadata
    order = order_without_lost(metadata.sort_order(), metadata.sort_orders, metadata.schema())
    if order is not None:
        table.check_not_over(epoch)
        _send(table, order_updates(order, metadata), same_sort_orders(metadata))


def schema_updates(
    table: LedgerTable, schema: Schema | None, noted: Mapping[str, str]
) -> tuple[TableUpdate, ...]:
    """The updates that make ``schema`` current (None: columns stay) and note properties."""
    updates: tuple[TableUpdate, ...] = ()
    if schema is not None:
        key = table.table.schema().identifier_field_ids
        kept = (
            key if all(is_identifier(schema, field_id) for field_id in key) else []
        )  # a part identifies no row
        new = schema.model_copy(update={"schema_id": next_schema_id(table), "identifier_field_ids": kept})
        add = AddSchemaUpdate.model_validate({"action": "add-schema", "schema": new})
        updates = (add, SetCurrentSchemaUpdate(schema_id=-1))
    return (*updates, SetPropertiesUpdate(updates=dict(noted)))


def next_schema_id(table: LedgerTable) -> int:
    """The id of the next version of the table's schema."""
    return 1 + max(schema.schema_id for schema in table.table.metadata.schemas)


def expire(
    table: LedgerTable, planned: Ledger, choose: Callable[[TableMetadata], Sequence[int]]
) -> tuple[frozenset[int], bool]:
    """See ``TopicTable.expire``."""
    table.reload()
    mend_order(table, planned.epoch)
    table.check_not_behind()
    table.check_planned_on(planned, planned.epoch)
    planned_on = copy(table.table)  # PyIceberg moves the other on
    ids = frozenset(choose(planned_on.metadata))
    if not ids:
        return ids, True
    reach(Step.EXPIRE)
    failure: Exception | None = None
    try:
        send(table.table, removal_of(planned_on.metadata, ids), same_refs(planned_on.metadata, ids))
    except Exception as error:  # the catalog may have done it nevertheless
        failure = error
    table.reload()
    if any(snapshot.snapshot_id in ids for snapshot in table.table.metadata.snapshots):
        raise _not_expired(table, failure) from failure
    reach(Step.EXPIRED)
    return ids, not _lost_a_ref(table, planned_on, ids)


def _not_expired(table: LedgerTable, failure: Exception | None) -> TableTopicError:
    if isinstance(failure, CommitFailedException):
        locked = lock_trouble(failure, table.table.catalog, table.table.name())
        return locked or HeadMovedError(str(failure))
    if failure is None:
        return RetryableError(f"the catalog reported success but expired no snapshot of {table.identifier}")
    if (trouble := sort_error(failure, CATALOG)) is not None:
        return trouble.error()
    return ActionNeededError(
        f"the catalog does not expire snapshots of {table.identifier} ({type(failure).__name__}: "
        f"{plain(failure)}); set maintenance to off, and let the catalog do it"
    )


def _lost_a_ref(table: LedgerTable, before: Table, ids: frozenset[int]) -> bool:
    """Whether a branch or tag may have been removed with the snapshots ``ids``: see ``same_refs``."""
    if not isinstance(table.table.catalog, RestCatalog):
        return False
    try:
        return lost_a_ref(before, table.table.metadata, ids)
    except (OSError, ValueError):
        return True
