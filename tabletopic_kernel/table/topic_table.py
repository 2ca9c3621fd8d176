"""The table of a table topic, and everything that changes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.table.update import TableUpdate
from pyiceberg.types import NestedField

from tabletopic_kernel.clients.catalog.catalog import check_inside, create_table, reachable
from tabletopic_kernel.clients.catalog.pyiceberg_seams.tables import is_identifier
from tabletopic_kernel.formats.wire import SchemaKey
from tabletopic_kernel.model.columns.upsert_columns import upsert_columns, upsert_property
from tabletopic_kernel.model.errors import ActionNeededError, UsageError
from tabletopic_kernel.model.ledger import PREFIX, Ledger
from tabletopic_kernel.model.progress.events import SchemaVersion
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.plan import TablePlan
from tabletopic_kernel.table.changes import commit, metadata
from tabletopic_kernel.table.changes.change import TableChange, appended
from tabletopic_kernel.table.changes.ledger_history import LedgerTable, live_rows, summary
from tabletopic_kernel.table.schemas.covered import KEY_SCHEMAS_PROPERTY, CoveredSchema, covered_schemas

TOPIC_PROPERTY = f"{PREFIX}topic"
TYPES_PROPERTY = f"{PREFIX}debezium-types"  # absent in tables of before there were others than as sent


class TopicTable(LedgerTable):
    """A topic's table and what may be done with it."""

    @classmethod
    def load(cls, catalog: Catalog, identifier: tuple[str, ...], topic: str) -> TopicTable | None:
        """The table of ``topic``; None if there is none. Raises ActionNeededError if it is another's."""
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
        noted: Mapping[str, str] | None = None,
    ) -> TopicTable:
        """Create the table of ``topic``, with its namespace; raises as ``load`` and ``check_inside``.

        ``noted``: more properties; what another commit adds is missing if a host ends in between.
        """
        check_inside(catalog, settings.table_properties)
        properties = {
            **base_properties(),
            TableProperties.WRITE_TARGET_FILE_SIZE_BYTES: str(settings.target_file_size_bytes),
            **settings.table_properties,
            TOPIC_PROPERTY: topic,
            TYPES_PROPERTY: settings.debezium_types,
            **upsert_property(settings),
            **(noted or {}),
        }
        named = _with_identifier(schema, settings)
        return cls(create_table(catalog, identifier, named, spec, properties, order))

    def adapted(self, settings: TopicSettings) -> TopicSettings:
        """The settings, with the types of values that the table was created with."""
        types = self.table.properties.get(TYPES_PROPERTY, "as_sent")
        return (
            settings
            if settings.debezium_types == types
            else settings.model_copy(update={"debezium_types": types})
        )

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
        commit.commit(self, planned, change)

    def claim(self, ledger: Ledger, planned: Ledger | None) -> None:
        """Commit a ledger with a higher epoch and no rows: from now on, only its owner commits (I5)."""
        self.commit(planned, appended(ledger, ()))

    def evolve(self, schema: Schema | None, noted: Mapping[str, str], epoch: int) -> None:
        """Make ``schema`` current (None: columns stay) and note properties, before rows need them.

        Raises HeadMovedError if another writer changed the schema meanwhile, and LostOwnershipError.
        """
        self._change(metadata.schema_updates(self, schema, noted), epoch)

    def _change(self, updates: tuple[TableUpdate, ...], epoch: int) -> None:
        metadata.change(self, updates, epoch)

    @property
    def next_schema_id(self) -> int:
        """The id of the next version of the table's schema."""
        return metadata.next_schema_id(self)

    def expire(
        self, planned: Ledger, choose: Callable[[TableMetadata], Sequence[int]]
    ) -> tuple[frozenset[int], bool]:
        """Remove the snapshots that ``choose`` returns from the metadata, if the ledger is as planned.

        Returns them, and whether files that only these reach may be removed.
        Why this is safe: the checks of a commit come first, and the request goes through only if each branch
        and tag is unchanged since. Nothing is sent again: whatever the answer, the metadata shows whether the
        snapshots are gone. The files may be removed unless somebody's new tag was removed with a snapshot,
        which a REST catalog cannot be asked to refuse: then the files are all that is left of it.
        Raises HeadMovedError, RetryableError or ActionNeededError if nothing was done, and as ``commit``.
        """
        return metadata.expire(self, planned, choose)

    def check_writable(self, wanted: Iterable[NestedField]) -> None:
        """Check that rows can be written, with ``wanted``, the columns that no schema of records brings back.

        Raises ActionNeededError after another program's upgrade, rename or drop, or a property of its.
        """
        commit.check_writable(self, wanted)

    def registered_schemas(self) -> dict[SchemaKey, CoveredSchema]:
        """Registered schemas whose records fit the current table, by id."""
        return covered_schemas(self.table.properties)

    def registered_key_schemas(self) -> dict[SchemaKey, CoveredSchema]:
        """Registered schemas whose keys fit the current table, by id."""
        return covered_schemas(self.table.properties, KEY_SCHEMAS_PROPERTY)

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
        history = ("snapshots", "snapshot_log", "metadata_log", "statistics", "partition_statistics")
        bare: dict[str, object] = {name: [] for name in history}
        bare |= {"current_snapshot_id": None, "refs": {}, "last_sequence_number": 0, "last_updated_ms": 0}
        return TablePlan(self.table.metadata.model_copy(update=bare).model_dump_json(), io)


def _with_identifier(schema: Schema, settings: TopicSettings) -> Schema:
    """The schema with the key of an upsert table as Iceberg's identifier, if all its columns are required."""
    if settings.mode != "upsert":
        return schema
    try:
        key = [leaf.field_id for leaf in upsert_columns(settings, schema).key]
    except UsageError:  # who plans a batch says it
        return schema
    if not all(is_identifier(schema, field_id) for field_id in key):
        return schema
    return schema.model_copy(update={"identifier_field_ids": key})


def base_properties() -> dict[str, str]:
    """Properties of every table that we create."""
    return {
        TableProperties.FORMAT_VERSION: str(commit.VERSION),
        TableProperties.PARQUET_COMPRESSION: "zstd",
        # Commits are many and small: old metadata files are deleted, manifests merged as they add up.
        TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
        TableProperties.METADATA_PREVIOUS_VERSIONS_MAX: "100",
        TableProperties.MANIFEST_MERGE_ENABLED: "true",
    }
