"""The table of a table topic: its ledger, and the transactions that move it.

One commit is one Iceberg transaction: data files, ledger and tag together (I2). Longer than other modules, as
it has every transaction of the table: what makes one safe should be read in one place.

Why a commit is safe: it first looks for its own id in the newest metadata, so a retry is never a second
commit (I4). Then it compares epoch and ledger with those it was planned on (I3, I5). The request asserts the
head and the tag of that metadata, so the catalog refuses it if anything came in between, even a rollback
after a claim. A failure before the request was sent is retried; after that, the outcome is unknown until the
history shows whether the commit is there. A refusal counts only after a look at the table, as a proxy may
have sent the request twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, ValidationException
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot, ancestors_of
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssertRefSnapshotId,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
)
from pyiceberg.table.update.snapshot import ManageSnapshots
from pyiceberg.types import NestedField

from tabletopic_kernel.clients.catalog.catalog import check_inside, create_table, lends_keys, reachable
from tabletopic_kernel.clients.catalog.hive_locks import lock_trouble
from tabletopic_kernel.clients.catalog.pyiceberg_seams.requirements import (
    lost_a_ref,
    order_updates,
    removal_of,
    same_refs,
    same_schemas,
    same_sort_orders,
)
from tabletopic_kernel.clients.catalog.pyiceberg_seams.snapshots import clean_up, snapshot_of, write
from tabletopic_kernel.clients.catalog.pyiceberg_seams.tables import (
    QuickTransaction,
    is_identifier,
    location_provider,
    send,
)
from tabletopic_kernel.clients.outside_errors.rules import CATALOG, STORAGE
from tabletopic_kernel.clients.outside_errors.sorting import plain, sort_error
from tabletopic_kernel.clients.storage.storage import unreadable
from tabletopic_kernel.formats.wire import SchemaKey
from tabletopic_kernel.model.columns.sort_orders import order_without_lost
from tabletopic_kernel.model.columns.table_columns import missing_columns
from tabletopic_kernel.model.dead_letter import DEAD_LETTERS_OF_PROPERTY
from tabletopic_kernel.model.errors import (
    ActionNeededError,
    HeadMovedError,
    LostOwnershipError,
    OutcomeUnknownError,
    RetryableError,
    StartOverError,
    TableTopicError,
    Trouble,
    UnreadableFilesError,
)
from tabletopic_kernel.model.ledger import PREFIX, TAG, Ledger
from tabletopic_kernel.model.progress.events import SchemaVersion
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.table_properties import check_compression
from tabletopic_kernel.model.steps import Step, reach
from tabletopic_kernel.pipeline.plan import TablePlan
from tabletopic_kernel.table.changes.change import TableChange, appended
from tabletopic_kernel.table.lineage import has_newest_rows
from tabletopic_kernel.table.schemas.registered import (
    KEY_SCHEMAS_PROPERTY,
    FittedSchema,
    former_names_of,
    former_names_property,
    registered_schemas_of,
    registered_schemas_property,
)

TOPIC_PROPERTY = f"{PREFIX}topic"
BATCH_PROPERTY = f"{PREFIX}batch-columns"
VERSION = 2  # PyIceberg reads version 3 but cannot write it
_Mark = tuple[str | None, int]  # a snapshot's commit id and epoch; None and 0 if another writer made it


class TopicTable:
    """One table and the rules for changing it. Not thread-safe: only for the coordinator's thread."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._loaded = table.metadata  # while it is held, the catalog's own load does not parse it again
        self._marks: dict[int, _Mark] = {}
        self._marked: TableMetadata | None = None  # the metadata with these snapshots; it never changes
        self.foreign_changes = 0  # found by commits; the owner reads its own changes again

    @classmethod
    def load(cls, catalog: Catalog, identifier: tuple[str, ...], topic: str) -> TopicTable | None:
        """The table of ``topic``, None if there is none yet.

        Raises:
            ActionNeededError: the table exists and is not this topic's.
            RetryableError: the catalog does not respond.
        """
        try:
            with reachable("the catalog"):
                table = catalog.load_table(identifier)
        except NoSuchTableError:
            return None
        owner = table.properties.get(TOPIC_PROPERTY)
        if owner != topic:
            whose = f"belongs to the topic {owner!r}" if owner else "was not created by a table topic"
            raise ActionNeededError(
                f"the table {'.'.join(identifier)} already exists and {whose}; "
                "choose another name with --table or --namespace"
            )
        return cls(table)

    @classmethod
    def create(
        cls,
        catalog: Catalog,
        identifier: tuple[str, ...],
        schema: Schema,
        spec: PartitionSpec,
        topic: str,
        settings: TopicSettings,
        order: SortOrder = UNSORTED_SORT_ORDER,
    ) -> TopicTable:
        """Create the table of ``topic``, with its namespace; raises as ``load`` and ``check_inside``."""
        check_inside(catalog, settings.table_properties)
        properties = _table_properties(settings) | {TOPIC_PROPERTY: topic}
        return cls(create_table(catalog, identifier, schema, spec, properties, order))

    @property
    def identifier(self) -> str:
        """Namespace and name, dotted."""
        return ".".join(self.table.name())

    def reload(self) -> None:
        """Read the table's current metadata.

        Raises:
            ActionNeededError: the table was dropped or replaced (I8).
            RetryableError: the catalog does not respond.
        """
        uuid = self.table.metadata.table_uuid
        try:
            with reachable("the catalog"):
                fresh = self.table.catalog.load_table(self.table.name())
        except NoSuchTableError as error:
            raise self.gone() from error
        if fresh.metadata.table_uuid != uuid:
            raise ActionNeededError(
                f"the table {self.identifier} was replaced by another one; resume to adopt it"
            )
        self.table = fresh

    def ledger_snapshot(self) -> tuple[Ledger, Snapshot] | None:
        """The newest ledger among the ancestors of the head; foreign snapshots in between are skipped."""
        metadata = self.table.metadata
        head = metadata.current_snapshot()
        for snapshot in ancestors_of(head, metadata) if head else ():
            if ledger := ledger_of(snapshot):
                return ledger, snapshot
        # The ancestors up to a foreign head have expired: the tag kept the ledger's snapshot.
        tag = metadata.refs.get(TAG)
        kept = metadata.snapshot_by_id(tag.snapshot_id) if tag else None
        ledger = ledger_of(kept) if kept else None
        return (ledger, kept) if ledger and kept else None

    @property
    def ledger(self) -> Ledger | None:
        """See ``ledger_snapshot``."""
        newest = self.ledger_snapshot()
        return newest[0] if newest else None

    def ledger_of_rows(self) -> Ledger | None:
        """The newest ledger; None only if the table has no rows.

        Raises:
            ActionNeededError: others have expired it and removed its tag, and from `start` each record would
                become a row again (I8).
        """
        head = self.table.metadata.current_snapshot()
        ledger = self.ledger
        if head is None or ledger is not None or summary(head).get("total-records") == "0":
            return ledger
        raise ActionNeededError(
            f"{self.identifier} has rows but no ledger: another program has left no snapshot with one, nor "
            f"the tag {TAG}, so where to resume is unknown. Enable the topic with another --table, which is "
            "filled from `start`, or drop this one and resume the topic"
        )

    @property
    def newest_epoch(self) -> int:
        """See ``newest_epoch``."""
        return max((epoch for _, epoch in self._marks_of_all()), default=0)

    def has_commit(self, commit_id: str) -> bool:
        """Whether a snapshot of the history carries this commit id (I4)."""
        return any(known_id == commit_id for known_id, _ in self._marks_of_all())

    def _marks_of_all(self) -> Collection[_Mark]:
        """Commit id and epoch of every snapshot; snapshots never change, so each summary is read once."""
        metadata, known = self.table.metadata, self._marks
        if metadata is not self._marked:
            self._marks = {
                snapshot.snapshot_id: known.get(snapshot.snapshot_id) or _mark(snapshot)
                for snapshot in metadata.snapshots
            }
            self._marked = metadata
        return self._marks.values()

    def commit(self, planned: Ledger | None, change: TableChange) -> None:
        """Make a change, and move the ledger from ``planned`` to the change's, in one snapshot (I2, I3).

        Does nothing if the commit id of the change's ledger is already in the table.

        Raises:
            HeadMovedError: another writer was first and the ledger is as planned: call again. First plan
                again a claim after the previous owner's commit, and a change that is no longer true.
            LostOwnershipError: a higher epoch is in the table (I5).
            OutdatedError: the change is no longer true and cannot be, nothing was sent.
            StartOverError: the files no longer fit the table's partition spec or columns, or
                ``UnreadableFilesError``: the storage does not have them as they were written.
            ActionNeededError: the ledger is not the planned one, or the table is gone (I8), or of a newer
                format version.
            OutcomeUnknownError: the commit was not answered: look for its id (I4).
            RetryableError: the catalog does not respond or keeps the table locked, nothing was sent.
        """
        # Longer than other functions: only in this order do the checks and the request make one safe commit.
        left = self.table.metadata_location
        self.reload()
        self.foreign_changes += self.table.metadata_location != left
        if self.has_commit(change.ledger.commit_id):
            return
        self._check_version()
        self.mend_order(change.ledger.epoch)
        self._check_not_behind_its_ledger()
        self._check_planned_on(planned, change.ledger.epoch)
        change = change.still_true(self.table, change)
        self._check_partitions(change.add)
        self._check_readable(change.add)
        self._without_retries()
        try:
            transaction = QuickTransaction(self.table)
            producer = snapshot_of(transaction, change)
            try:
                write(producer)
            except ValidationException as error:
                raise HeadMovedError(
                    f"another program has just rewritten files of {self.identifier}; try again"
                ) from error
            reach(Step.MANIFEST)
            ManageSnapshots(transaction).create_tag(producer.snapshot_id, TAG).commit()
            if tag := self.table.metadata.refs.get(TAG):
                # After a claim and a rollback, the head is the same again, but the tag is not (I5).
                transaction.require(AssertRefSnapshotId(ref=TAG, snapshot_id=tag.snapshot_id))
        except Exception as error:  # manifests could not be written: nothing was sent yet
            if (trouble := self._storage_trouble(error)) is None:
                raise
            raise trouble.error() from error
        reach(Step.TAGGED)
        # PyIceberg takes a refusal as proof that nothing was committed, and deletes manifests. But a proxy
        # may have sent the request twice, and the second one was refused because of the first.
        transaction.keep_manifests()
        try:
            transaction.commit_transaction()
            reach(Step.SENT)
        except CommitFailedException as error:
            if (locked := lock_trouble(error, self.table.catalog, self.table.name())) is not None:
                clean_up(producer)
                raise locked from error
            if self._is_refused(producer.snapshot_id):
                clean_up(producer)
                self.foreign_changes += 1
                raise HeadMovedError(str(error)) from error
        except Exception as error:  # whatever it is, the catalog may have taken the commit
            raise OutcomeUnknownError(_unconfirmed(error)) from error

    def mend_order(self, epoch: int) -> None:
        """Make the table's sort order name only existing columns: after others drop one, PyIceberg fails.

        Raises: as ``evolve``.
        """
        metadata = self.table.metadata
        order = order_without_lost(metadata.sort_order(), metadata.sort_orders, metadata.schema())
        if order is not None:
            self.check_not_over(epoch)
            self._send(order_updates(order, metadata), same_sort_orders(metadata))

    def _storage_trouble(self, error: Exception) -> Trouble | None:
        """What kept metadata from being written; None if it was a bug of ours.

        A manifest that stays empty because another one cannot be read hides that error behind its own.
        """
        lent = lends_keys(self.table)
        sorted_errors = (
            sort_error(raised, STORAGE, lent=lent) for raised in (error, error.__context__) if raised
        )
        return next(filter(None, sorted_errors), None)

    def _check_not_behind_its_ledger(self) -> None:
        """Check that the rows of the ledger that the tag kept were not rolled back (I8).

        After others have expired the ledger's ancestors, a rollback to one of their snapshots leaves a head
        without a ledger; the tag's ledger is newer, and its rows are no longer in the table. Newer than the
        oldest remaining ancestor, not than the head: somebody may have appended to the table since. If the
        snapshot that it was rolled back to has expired too, only rows tell (``lineage``).
        """
        metadata = self.table.metadata
        newest, oldest = self.ledger_snapshot(), None
        for oldest in ancestors_of(metadata.current_snapshot(), metadata) if newest else ():
            if ledger_of(oldest):
                return
        if not newest or not oldest:
            return
        is_behind = (newest[1].sequence_number or 0) > (oldest.sequence_number or 0)
        if is_behind or not has_newest_rows(self.table, newest[1]):
            why = (
                "was rolled back to a snapshot whose ledger others have expired"
                if is_behind
                else "lacks rows of its newest commit, and others have expired the snapshots that would show "
                "whether it was rolled back"
            )
            raise ActionNeededError(
                f"{self.identifier} {why}: where to resume is unknown. Roll it forward to snapshot "
                f"{newest[1].snapshot_id}, which the tag {TAG} has kept, and delete again what others "
                "deleted on purpose, or enable the topic with another --table"
            )

    def _check_partitions(self, files: Sequence[DataFile]) -> None:
        if any(file.spec_id != self.table.metadata.default_spec_id for file in files):
            raise StartOverError(f"the partition spec of {self.identifier} has changed")

    def check_writable(self, wanted: Iterable[NestedField]) -> None:
        """Check that rows can be written, with ``wanted``, the columns that no schema of records brings back.

        Raises:
            ActionNeededError: another program has upgraded the table, or renamed or dropped such a column, so
                that all further rows would lack its values; or set a property that prevents writing.
        """
        self._check_version()
        properties = self.table.properties
        try:
            check_compression(properties)
            location_provider(self.table.location(), properties)
        except ValueError as error:
            raise ActionNeededError(
                f"a property of {self.identifier} prevents writing: {error}. Change it with "
                "`tabletopic alter` or Spark's ALTER TABLE, then resume the topic"
            ) from error
        if missing := missing_columns(self.table.schema(), wanted):
            raise ActionNeededError(
                f"another program has renamed or dropped {', '.join(missing)} of {self.identifier}: rename "
                "it back, or add it again with the type that it had, then resume the topic"
            )

    def _check_version(self) -> None:
        if (version := self.table.metadata.format_version) <= VERSION:
            return
        way = "enable the topic with another --table, which is filled from `start`"
        if DEAD_LETTERS_OF_PROPERTY in self.table.properties:
            way = "rename that table, then resume the topic to begin a new one"
        raise ActionNeededError(
            f"another program has upgraded {self.identifier} to format version {version}, which this program "
            f"reads but cannot write, and Iceberg has no way back: {way}"
        )

    def _check_readable(self, files: Sequence[DataFile]) -> None:
        """Check that the snapshot's files can be read (I1): an executor may have written elsewhere."""
        faults = unreadable(self.table.io, files, lent=lends_keys(self.table))
        if faults:
            raise UnreadableFilesError(
                f"{len(faults)} of {len(files)} staged files of {self.identifier} are not in the storage as "
                f"they were written ({faults[0]}); they were not committed, and their records are read "
                "again. If this persists, Spark's executors do not write where this host reads: the "
                "warehouse must be storage that all of them share"
            )

    def _is_refused(self, snapshot_id: int) -> bool:
        """Whether the snapshot of a refused commit is really not in the table (I4).

        Raises:
            OutcomeUnknownError: the catalog does not say so.
        """
        try:
            self.reload()
        except TableTopicError as error:
            raise OutcomeUnknownError(
                f"the catalog refused the commit without a reason; asking again: {error}"
            ) from error
        return self.table.metadata.snapshot_by_id(snapshot_id) is None

    def claim(self, ledger: Ledger, planned: Ledger | None) -> None:
        """Commit a ledger with a higher epoch and no rows: from now on, only its owner commits (I5)."""
        self.commit(planned, appended(ledger, ()))

    def evolve(
        self,
        schema: Schema | None,
        registered_schemas: Mapping[SchemaKey, FittedSchema],
        epoch: int,
        former: Mapping[int, tuple[str, ...]] | None = None,
        batch: Schema | None = None,
    ) -> None:
        """Make ``schema`` current (None: columns stay) and record that ``registered_schemas`` fit it.

        ``former``: former names of columns, by field id; ``batch``: see ``batch_columns``. None changes none.

        A separate, metadata-only commit, before any row that needs it is staged.

        Raises:
            HeadMovedError: another writer changed the schema meanwhile: plan again.
            LostOwnershipError: see ``commit``.
            RetryableError: the catalog does not respond.
        """
        noted = registered_schemas_property(registered_schemas.values()) | former_names_property(former or {})
        if batch is not None:
            noted[BATCH_PROPERTY] = batch.model_dump_json()
        self._change(self._schema_updates(schema, noted), epoch)

    def evolve_key(
        self, schema: Schema | None, registered_schemas: Mapping[SchemaKey, FittedSchema], epoch: int
    ) -> None:
        """Like ``evolve``, for schemas of keys."""
        noted = registered_schemas_property(registered_schemas.values(), KEY_SCHEMAS_PROPERTY)
        self._change(self._schema_updates(schema, noted), epoch)

    def expire(
        self, planned: Ledger, choose: Callable[[TableMetadata], Sequence[int]]
    ) -> tuple[frozenset[int], bool]:
        """Remove the snapshots that ``choose`` returns from the metadata, if the ledger is as planned.

        Returns:
            The removed snapshots, and whether files that only these reach may be removed.

        Why this is safe: the checks of a commit come first, and the request goes through only if each branch
        and tag is unchanged since. Nothing is sent again: whatever the answer, the metadata shows whether the
        snapshots are gone. The files may be removed unless somebody's new tag was removed with a snapshot,
        which a REST catalog cannot be asked to refuse: then the files are all that is left of it.

        Raises:
            HeadMovedError: the catalog refused it, another writer was first; nothing was done.
            RetryableError: the catalog does not respond, or did nothing.
            ActionNeededError: it forbids the change, or lacks this kind of change. Others as ``commit``.
        """
        self.reload()
        self.mend_order(planned.epoch)
        self._check_not_behind_its_ledger()
        self._check_planned_on(planned, planned.epoch)
        planned_on = Table(
            self.table.name(),
            self.table.metadata,
            self.table.metadata_location,
            self.table.io,
            self.table.catalog,
        )
        ids = frozenset(choose(planned_on.metadata))
        if not ids:
            return ids, True
        reach(Step.EXPIRE)
        failure: Exception | None = None
        try:
            send(self.table, removal_of(planned_on.metadata, ids), same_refs(planned_on.metadata, ids))
        except Exception as error:  # whatever it is, the catalog may have done it
            failure = error
        self.reload()
        if any(snapshot.snapshot_id in ids for snapshot in self.table.metadata.snapshots):
            raise self._not_expired(failure) from failure
        reach(Step.EXPIRED)
        return ids, not self._lost_a_ref(planned_on, ids)

    def _not_expired(self, failure: Exception | None) -> TableTopicError:
        if isinstance(failure, CommitFailedException):
            locked = lock_trouble(failure, self.table.catalog, self.table.name())
            return locked or HeadMovedError(str(failure))
        if failure is None:
            return RetryableError(
                f"the catalog reported success but expired no snapshot of {self.identifier}"
            )
        if (sorted_error := sort_error(failure, CATALOG)) is not None:
            return sorted_error.error()
        return ActionNeededError(
            f"the catalog does not expire snapshots of {self.identifier} ({type(failure).__name__}: "
            f"{plain(failure)}); set maintenance to off, and let the catalog do it"
        )

    def _lost_a_ref(self, before: Table, ids: frozenset[int]) -> bool:
        """Whether a branch or tag may have been removed with the snapshots ``ids``: see ``same_refs``."""
        if not isinstance(self.table.catalog, RestCatalog):
            return False
        try:
            return lost_a_ref(before, self.table.metadata, ids)
        except (OSError, ValueError):
            return True

    def gone(self) -> ActionNeededError:
        """The error of a table that is no longer in the catalog."""
        has_letters = DEAD_LETTERS_OF_PROPERTY in self.table.properties
        new = (
            "begin a new one, without the lost dead letters" if has_letters else "fill a new one from `start`"
        )
        return ActionNeededError(f"the table {self.identifier} no longer exists; resume the topic to {new}")

    def _change(self, updates: tuple[TableUpdate, ...], epoch: int) -> None:
        self.check_not_over(epoch)
        self.mend_order(epoch)
        self._send(updates)

    def check_not_over(self, epoch: int) -> None:
        """Raise LostOwnershipError if a higher epoch is in the table (I5)."""
        if self.newest_epoch > epoch:
            raise LostOwnershipError(f"{self.identifier} has epoch {self.newest_epoch}, ours is {epoch}")

    def _send(self, updates: tuple[TableUpdate, ...], same: tuple[TableRequirement, ...] = ()) -> None:
        reach(Step.EVOLVE)
        self.commit_updates(updates, (*same_schemas(self.table.metadata), *same))
        reach(Step.EVOLVED)

    def commit_updates(
        self, updates: tuple[TableUpdate, ...], requirements: tuple[TableRequirement, ...]
    ) -> None:
        """Commit changes of the metadata, without rows.

        Raises:
            HeadMovedError: another writer was first.
            RetryableError, ActionNeededError: as ``reachable``.
        """
        try:
            with reachable("the catalog"):
                self.table.catalog.commit_table(self.table, requirements, updates)
        except CommitFailedException as error:
            locked = lock_trouble(error, self.table.catalog, self.table.name())
            raise locked or HeadMovedError(str(error)) from error
        except NoSuchTableError as error:  # since it was created or loaded
            raise self.gone() from error
        self.reload()

    def _schema_updates(self, schema: Schema | None, noted: Mapping[str, str]) -> tuple[TableUpdate, ...]:
        updates: tuple[TableUpdate, ...] = ()
        if schema is not None:
            kept = [one for one in self.table.schema().identifier_field_ids if is_identifier(schema, one)]
            new = schema.model_copy(update={"schema_id": self.next_schema_id, "identifier_field_ids": kept})
            add = AddSchemaUpdate.model_validate({"action": "add-schema", "schema": new})
            updates = (add, SetCurrentSchemaUpdate(schema_id=-1))
        return (*updates, SetPropertiesUpdate(updates=dict(noted)))

    @property
    def next_schema_id(self) -> int:
        """The id of the next version of the table's schema."""
        return 1 + max(schema.schema_id for schema in self.table.metadata.schemas)

    def registered_schemas(self) -> dict[SchemaKey, FittedSchema]:
        """Registered schemas whose records fit the current table, by id."""
        return registered_schemas_of(self.table.properties)

    def registered_key_schemas(self) -> dict[SchemaKey, FittedSchema]:
        """Registered schemas whose keys fit the current table, by id."""
        return registered_schemas_of(self.table.properties, KEY_SCHEMAS_PROPERTY)

    def former_names(self) -> dict[int, tuple[str, ...]]:
        """Former names of columns, by field id."""
        return former_names_of(self.table.properties)

    @property
    def batch_columns(self) -> Schema | None:
        """The columns that a projection reads; None if there was no projection."""
        noted = self.table.properties.get(BATCH_PROPERTY)
        return Schema.model_validate_json(noted) if noted is not None else None

    @property
    def rows(self) -> int:
        """The number of rows in the newest snapshot."""
        head = self.table.metadata.current_snapshot()
        return live_rows(summary(head)) if head else 0

    def figures(self) -> dict[str, object]:
        """What the progress record says about the table."""
        metadata = self.table.metadata
        head = metadata.current_snapshot()
        totals = summary(head) if head else {}
        versions = sorted(
            self.registered_schemas().values(),
            key=lambda schema: (schema.subject, schema.version, str(schema.id)),
        )
        return {
            "snapshot_id": head.snapshot_id if head else None,
            "rows": self.rows,
            "files": int(totals.get("total-data-files", 0)),
            "schema_versions": [
                SchemaVersion(id=schema.id, subject=schema.subject, version=schema.version)
                for schema in versions
            ],
        }

    def plan(self) -> TablePlan:
        """What tasks need to write data files, including credentials that the catalog lent."""
        own = {"uri", "name", "type"}  # tasks do not need the catalog's address
        io = {key: str(value) for key, value in self.table.io.properties.items() if key not in own}
        # Without history the metadata stays small, and equal from commit to commit.
        bare: dict[str, object] = {
            "current_snapshot_id": None,
            "snapshots": [],
            "snapshot_log": [],
            "metadata_log": [],
            "refs": {},
            "statistics": [],
            "partition_statistics": [],
            "last_sequence_number": 0,
            "last_updated_ms": 0,
        }
        return TablePlan(self.table.metadata.model_copy(update=bare).model_dump_json(), io)

    def _check_planned_on(self, planned: Ledger | None, epoch: int) -> None:
        ledger, newest = self.ledger_of_rows(), self.newest_epoch
        if newest > epoch or (ledger and ledger.epoch > (planned.epoch if planned else 0)):
            raise LostOwnershipError(f"{self.identifier} has epoch {newest}, ours is {epoch}")
        if (ledger and ledger.commit_id) != (planned and planned.commit_id):
            if planned and planned.epoch < epoch:  # until a claim goes through, the previous owner commits
                raise HeadMovedError(f"the ledger of {self.identifier} advanced during the takeover")
            raise ActionNeededError(
                f"the ledger of {self.identifier} has moved: expected "
                f"{dict(planned.next_offsets) if planned else 'none'}, found "
                f"{dict(ledger.next_offsets) if ledger else 'none'}; was the table rolled back? "
                "Resume the topic to continue from the table's ledger"
            )

    def _without_retries(self) -> None:
        """Turn off PyIceberg's retry, which would append again without a check (I3), in this copy only."""
        self._loaded = self.table.metadata
        properties = {**self.table.metadata.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
        self.table.metadata = self.table.metadata.model_copy(update={"properties": properties})


def newest_epoch(metadata: TableMetadata) -> int:
    """The highest epoch in any snapshot, 0 if there is none: all lower ones are over (I5).

    In any, not only in the head's ancestors: a rollback removes the newest owner's claim from these, and that
    owner's files, or its predecessor's, may be gone by then. Expiry keeps the snapshot that the tag names.
    """
    return max((_mark(snapshot)[1] for snapshot in metadata.snapshots), default=0)


def _mark(snapshot: Snapshot) -> _Mark:
    properties = summary(snapshot)
    return properties.get(f"{PREFIX}commit-id"), int(properties.get(f"{PREFIX}epoch", 0))


def summary(snapshot: Snapshot) -> Mapping[str, str]:
    """A snapshot's summary; empty if it has none."""
    return snapshot.summary.additional_properties if snapshot.summary else {}


def live_rows(totals: Mapping[str, str]) -> int:
    """The number of rows that a reader gets, by a snapshot's summary.

    A lower bound where a position is in two delete files. Includes rows deleted by value.
    """
    records, positions = (int(totals.get(f"total-{name}", 0)) for name in ("records", "position-deletes"))
    return max(records - positions, 0)


def ledger_of(snapshot: Snapshot) -> Ledger | None:
    """The ledger in a snapshot; None if another writer made it."""
    return Ledger.from_summary(summary(snapshot))


def _unconfirmed(error: Exception) -> str:
    """The message for a commit that failed after it was sent."""
    sorted_error = sort_error(error, CATALOG)
    why = sorted_error or f"{type(error).__name__}: {plain(error)}"
    return f"the catalog did not confirm the commit; looking it up in the table's history: {why}"


def _table_properties(settings: TopicSettings) -> dict[str, str]:
    return {
        **base_properties(),
        TableProperties.WRITE_TARGET_FILE_SIZE_BYTES: str(settings.target_file_size_bytes),
        **settings.table_properties,
    }


def base_properties() -> dict[str, str]:
    """Properties of every table that we create."""
    return {
        TableProperties.FORMAT_VERSION: str(VERSION),
        TableProperties.PARQUET_COMPRESSION: "zstd",
        # Commits are many and small: old metadata files are deleted, manifests merged as they add up.
        TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
        TableProperties.METADATA_PREVIOUS_VERSIONS_MAX: "100",
        TableProperties.MANIFEST_MERGE_ENABLED: "true",
    }
