"""Commits a change of a table: data files, ledger and tag in one Iceberg transaction (I2).

Why a commit is safe: it first looks for its own id in the newest metadata, so a retry is never a second
commit (I4). Then it compares epoch and ledger with those it was planned on (I3, I5). The request asserts the
head and the tag of that metadata, so the catalog refuses it if anything came in between, even a rollback
after a claim. A failure before the request was sent is retried; after that, the outcome is unknown until the
history shows whether the commit is there. A refusal counts only after a look at the table: a proxy may
have sent the request twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.manifest import DataFile
from pyiceberg.table import TableProperties
from pyiceberg.table.update import AssertRefSnapshotId
from pyiceberg.table.update.snapshot import ManageSnapshots
from pyiceberg.types import NestedField

from tabletopic_kernel.clients.catalog.catalog import lends_keys
from tabletopic_kernel.clients.catalog.engine_properties import maintains_itself
from tabletopic_kernel.clients.catalog.hive_locks import lock_trouble
from tabletopic_kernel.clients.catalog.pyiceberg_seams.snapshots import (
    SnapshotProducer,
    clean_up,
    metadata_of,
    snapshot_of,
    write,
)
from tabletopic_kernel.clients.catalog.pyiceberg_seams.tables import QuickTransaction, location_provider
from tabletopic_kernel.clients.outside_errors.rules import STORAGE
from tabletopic_kernel.clients.outside_errors.sorting import plain, sort_error
from tabletopic_kernel.clients.storage.storage import unreadable
from tabletopic_kernel.model import errors
from tabletopic_kernel.model.columns.table_columns import missing_columns
from tabletopic_kernel.model.dead_letter import DEAD_LETTERS_OF_PROPERTY
from tabletopic_kernel.model.errors import CATALOG
from tabletopic_kernel.model.ledger import KEPT_PROPERTY, SEQUENCE, TAG, Ledger
from tabletopic_kernel.model.settings.table_properties import check_compression
from tabletopic_kernel.model.steps import Step, reach
from tabletopic_kernel.table.changes.change import TableChange
from tabletopic_kernel.table.changes.ledger_history import LedgerTable, Written
from tabletopic_kernel.table.changes.metadata import mend_order
from tabletopic_kernel.table.changes.way_back import missing_files

_LOOKED_AT = 16  # data files of a commit that the next one asks for again
VERSION = 2  # PyIceberg reads version 3 but cannot write it


def commit(table: LedgerTable, planned: Ledger | None, change: TableChange) -> None:
    """See ``TopicTable.commit``."""
    # Only in this order do the checks and the request make one safe commit.
    known_location = table.table.metadata_location
    table.reload()
    table.foreign_changes += table.table.metadata_location != known_location
    if table.has_commit(change.ledger.commit_id):
        return
    check_version(table)
    mend_order(table, change.ledger.epoch)
    table.check_not_behind()
    table.check_planned_on(planned, change.ledger.epoch)
    change = change.still_true(table.table, change)
    if any(file.spec_id != table.table.metadata.default_spec_id for file in change.add):
        raise errors.StartOverError(f"the partition spec of {table.identifier} has changed")
    check_head(table, change.add)
    known = table.written_at_head()
    _without_retries(table)
    transaction, producer = _prepared(table, change)
    reach(Step.TAGGED)
    _send(table, transaction, producer)
    table.written = _written(known, producer, change)


def _prepared(table: LedgerTable, change: TableChange) -> tuple[QuickTransaction, SnapshotProducer]:
    """The change's transaction, with its manifests written; nothing is sent yet."""
    try:
        transaction = QuickTransaction(table.table)
        producer = snapshot_of(transaction, change)
        try:
            write(producer)
        except ValidationException as error:
            raise errors.HeadMovedError(
                f"another program has just rewritten files of {table.identifier}; try again"
            ) from error
        reach(Step.MANIFEST)
        _keep_ledger(table, transaction, producer.snapshot_id, change.ledger)
        _require_tag(table, transaction)
    except Exception as error:  # manifests could not be written
        if (trouble := _storage_trouble(table, error)) is None:
            raise
        raise trouble.error() from error
    return transaction, producer


def _written(known: Written | None, producer: SnapshotProducer, change: TableChange) -> Written:
    """What the next commit looks at: files of this commit, and of the one before as far as used."""
    before = known or Written(0, {}, {}, {})
    new, old = metadata_of(producer, before.metadata, change.ledger.commits)
    removed = {file.file_path for file in change.remove}
    kept = {path: size for path, size in before.data.items() if path not in removed}
    data = {file.file_path: file.file_size_in_bytes for file in change.add[:_LOOKED_AT]}
    return Written(producer.snapshot_id, new, data, {**old, **kept})


def _keep_ledger(table: LedgerTable, transaction: QuickTransaction, snapshot_id: int, ledger: Ledger) -> None:
    """Keep the ledger from expiring with its snapshot: with a tag, or where that stops the catalog's expiry,
    in a property, and without the tag that earlier versions made there.
    """
    snapshots = ManageSnapshots(transaction)
    if not maintains_itself(table.table.catalog.properties):
        snapshots.create_tag(snapshot_id, TAG).commit()
        return
    kept = ledger.to_summary() | {SEQUENCE: str(table.table.metadata.next_sequence_number())}
    transaction.set_properties({KEPT_PROPERTY: json.dumps(kept)})
    if TAG in table.table.metadata.refs:
        snapshots.remove_tag(TAG).commit()


def _send(table: LedgerTable, transaction: QuickTransaction, producer: SnapshotProducer) -> None:
    # PyIceberg takes a refusal as proof that nothing was committed, and deletes manifests. But a proxy
    # may have sent the request twice, and the second one was refused because of the first.
    transaction.keep_manifests()
    try:
        transaction.commit_transaction()
        reach(Step.SENT)
    except CommitFailedException as error:
        if (locked := lock_trouble(error, table.table.catalog, table.table.name())) is not None:
            clean_up(producer)
            raise locked from error
        if _is_refused(table, producer.snapshot_id):
            clean_up(producer)
            table.foreign_changes += 1
            raise errors.HeadMovedError(str(error)) from error
    except Exception as error:  # the catalog may have taken the commit nevertheless
        doing = "the catalog did not confirm the commit; looking it up in the table's history: "
        trouble = sort_error(error, CATALOG, doing=doing)
        raise errors.OutcomeUnknownError(
            trouble or f"{doing}{type(error).__name__}: {plain(error)}"
        ) from error


def _storage_trouble(table: LedgerTable, error: Exception) -> errors.Trouble | None:
    """Why metadata could not be written; None for a bug of ours.

    If PyIceberg cannot read an old manifest, the error of the empty new one hides that error.
    """
    lent = lends_keys(table.table)
    troubles = (sort_error(raised, STORAGE, lent=lent) for raised in (error, error.__context__) if raised)
    return next(filter(None, troubles), None)


def check_writable(table: LedgerTable, wanted: Iterable[NestedField]) -> None:
    """See ``TopicTable.check_writable``."""
    check_version(table)
    properties = table.table.properties
    try:
        check_compression(properties)
        location_provider(table.table.location(), properties)
    except ValueError as error:
        raise errors.ActionNeededError(
            f"a property of {table.identifier} prevents writing: {error}. Change it with "
            "`tabletopic alter` or Spark's ALTER TABLE"
        ) from error
    if missing := missing_columns(table.table.schema(), wanted):
        raise errors.ActionNeededError(
            f"another program has renamed or dropped {', '.join(missing)} of {table.identifier}: rename "
            "it back, or add it again with the type that it had"
        )


def check_version(table: LedgerTable) -> None:
    """Raise ActionNeededError if the table has a newer format version than this program writes."""
    if (version := table.table.metadata.format_version) <= VERSION:
        return
    remedy = "enable the topic with another --table, which is filled from `start`"
    if DEAD_LETTERS_OF_PROPERTY in table.table.properties:
        remedy = "rename that table, to begin a new one"
    raise errors.ActionNeededError(
        f"another program has upgraded {table.identifier} to format version {version}, which this program "
        f"reads but cannot write, and Iceberg has no way back: {remedy}"
    )


def check_head(table: LedgerTable, files: Sequence[DataFile] = (), *, metadata_only: bool = False) -> None:
    """Check that the storage has ``files``, which are staged, and what the newest commit wrote.

    In one round of requests, parallel and bounded. If the newest commit was not made here, all of its
    manifests are, and its newest data files. Raises MissingFilesError if others deleted its files: nothing
    may be built on it; UnreadableFilesError if staged ones would not be readable (I1).
    """
    staged = {file.file_path: file.file_size_in_bytes for file in files}
    written: dict[str, int] = {}
    wrong: list[str] = []
    if (known := table.written_at_head()) is not None:
        written = dict(known.metadata) if metadata_only else known.files
    elif not metadata_only:
        wrong = missing_files(table.table, _LOOKED_AT)
    faults = unreadable(table.table.io, {**staged, **written}, lent=lends_keys(table.table))
    if wrong := wrong or [faults[path] for path in written if path in faults]:
        raise errors.MissingFilesError(
            f"another program has deleted files of the newest snapshot of {table.identifier} ({wrong[0]}); "
            "nothing is committed on top of it"
        )
    if faults:
        raise errors.UnreadableFilesError(
            f"{len(faults)} of {len(files)} staged files of {table.identifier} are not in the storage as "
            f"they were written ({next(iter(faults.values()))}); they were not committed, and their records "
            "are read again. If this persists, Spark's executors do not write where this host reads: the "
            "warehouse must be storage that all of them share"
        )


def _is_refused(table: LedgerTable, snapshot_id: int) -> bool:
    """Whether a refused commit is really not in the table (I4); OutcomeUnknownError if that is unknown."""
    try:
        table.reload()
    except errors.TableTopicError as error:
        doing = "the catalog refused the commit without a reason; asking again: "
        raise errors.OutcomeUnknownError(error.behind(doing)) from error
    return table.table.metadata.snapshot_by_id(snapshot_id) is None


def _require_tag(table: LedgerTable, transaction: QuickTransaction) -> None:
    """Assert the tag, too: after a claim and a rollback, the head is the same, but the tag is not (I5)."""
    if tag := table.table.metadata.refs.get(TAG):
        transaction.require(AssertRefSnapshotId(ref=TAG, snapshot_id=tag.snapshot_id))


def _without_retries(table: LedgerTable) -> None:
    """Turn off PyIceberg's retry, which would append again without a check (I3), in this copy only."""
    table._loaded = table.table.metadata
    properties = {**table.table.metadata.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
    table.table.metadata = table.table.metadata.model_copy(update={"properties": properties})
