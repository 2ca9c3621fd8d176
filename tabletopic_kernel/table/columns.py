"""The columns of a table topic's table: how they are created, changed and described."""

from __future__ import annotations

from collections.abc import Callable

from pyiceberg.catalog import Catalog
from pyiceberg.types import IcebergType

from tabletopic_kernel.clients.registry.registry import RegisteredSchema
from tabletopic_kernel.formats.wire import SchemaKey
from tabletopic_kernel.model.columns.evolution import Evolution
from tabletopic_kernel.model.columns.partitions import partition_spec
from tabletopic_kernel.model.columns.sort_orders import sort_order
from tabletopic_kernel.model.columns.table_columns import evolve_key, table_schema
from tabletopic_kernel.model.errors import HeadMovedError, RetryableError
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.model.progress import events
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table.layout import lay_out
from tabletopic_kernel.table.schemas.fitting import (
    Fitting,
    WriterColumns,
    first_columns,
    names_of_before,
    outcome,
)
from tabletopic_kernel.table.schemas.lookup import SchemaServices
from tabletopic_kernel.table.schemas.registered import FittedSchema
from tabletopic_kernel.table.schemas.writer_schemas import newest_key_type
from tabletopic_kernel.table.topic_table import TopicTable

_TRIES = 5  # while other writers change the schema at the same time
FittedSchemas = dict[SchemaKey, FittedSchema]


class TableColumns:
    """A table, or none yet, and its owner's ledger. Only for the coordinator's thread."""

    def __init__(
        self,
        catalog: Catalog,
        identifier: tuple[str, ...],
        topic: str,
        settings: TopicSettings,
        services: SchemaServices,
    ) -> None:
        self._catalog = catalog
        self._identifier = identifier
        self._topic = topic
        self._settings = settings
        self._services = services
        self.table: TopicTable | None = None
        self.ledger: Ledger | None = None

    def create(self, columns: WriterColumns, registered: RegisteredSchema | None) -> TopicTable:
        """Create the table with these columns, of this schema; its owner has not claimed it yet.

        Raises:
            UsageError: columns and settings contradict each other.
            RetryableError: the catalog does not respond.
        """
        key = newest_key_type(self._topic, self._settings, self._services.registry)
        value, batch = first_columns(columns, self._settings)
        schema = table_schema(value, self._settings, key)
        former = names_of_before(schema, columns, self._settings)
        spec = partition_spec(self._settings.partition_by, schema, former)
        order = sort_order(self._settings.sort_by, schema, former)
        table = TopicTable.create(
            self._catalog, self._identifier, schema, spec, self._topic, self._settings, order
        )
        if batch is not None:
            table.evolve(None, {}, epoch=1, batch=batch)
        if registered is not None:
            fitted = outcome(table, columns, None, self._settings)
            registered_schemas = {registered.id: _fitted_schema(registered, 0, fitted)}
            table.evolve(None, registered_schemas, epoch=1, former=fitted.former)
        self._tell_changes([f"create {table.identifier} with {len(schema.fields)} columns"], registered, 0)
        return table

    def lay_out(self) -> None:
        """Apply the settings' partitions, order… to an existing table; raises as ``lay_out``."""
        if self.table is not None and (changes := lay_out(self.table, self._settings)):
            self._tell_changes(changes, None, self.table.table.metadata.current_schema_id)

    def fit(self, columns: WriterColumns, registered: RegisteredSchema | None) -> Fitting:
        """Create the table or change its columns to fit; returns the changes, also if some are refused.

        Raises: as ``create`` and ``TopicTable.evolve``.
        """
        if self.table is None:
            assert self.ledger is not None
            table = self.create(columns, registered)
            table.claim(self.ledger, None)
            self.table = table
        table, schema_id = self.table, registered.id if registered else None
        return self._until_it_fits(
            lambda: self.outcome(columns, schema_id),
            registered,
            table.registered_schemas,
            lambda fitting, registered_schemas, epoch: table.evolve(
                fitting.new_schema, registered_schemas, epoch, fitting.former, fitting.batch
            ),
        )

    def outcome(self, columns: WriterColumns, schema_id: SchemaKey | None) -> Fitting:
        """What fitting the columns, of a registered schema or of none, would do to the existing table."""
        assert self.table is not None
        return outcome(self.table, columns, schema_id, self._settings)

    def fit_key(self, key: IcebergType, registered: RegisteredSchema) -> Fitting:
        """Like ``fit``, for keys of this type; the table must exist."""
        table = self.table
        assert table is not None
        return self._until_it_fits(
            lambda: self.key_outcome(key),
            registered,
            table.registered_key_schemas,
            lambda fitting, registered_schemas, epoch: table.evolve_key(
                fitting.new_schema, registered_schemas, epoch
            ),
        )

    def key_outcome(self, key: IcebergType) -> Fitting:
        """What fitting the key column would do to the existing table."""
        assert self.table is not None
        metadata = self.table.table.metadata
        beside = self._settings.on_incompatible == "new_column"
        return Fitting.of(evolve_key(metadata.schema(), key, metadata.last_column_id, new_columns=beside))

    def tell_refused(self, refused: dict[str, str], registered: RegisteredSchema) -> None:
        """Send the event that a schema does not fit."""
        self._services.control.write(
            events.SchemaRefused(
                topic=self._topic,
                at_ms=self._services.now_ms(),
                host=self._services.host,
                refused=refused,
                cause=_cause(registered),
            )
        )

    def _until_it_fits(
        self,
        plan: Callable[[], Fitting],
        registered: RegisteredSchema | None,
        registered_now: Callable[[], FittedSchemas],
        evolve: Callable[[Fitting, FittedSchemas, int], None],
    ) -> Fitting:
        """Plan, change the table and record the schema; start over if another writer was first."""
        assert self.table is not None
        assert self.ledger is not None
        for _ in range(_TRIES):
            fitting, registered_schemas = plan(), registered_now()
            is_noted = registered is None or registered.id in registered_schemas
            if fitting.refused or (is_noted and not fitting.is_needed):
                return fitting
            current = self.table.table.metadata.current_schema_id
            schema_id = self.table.next_schema_id if fitting.changes else current
            if registered is not None:
                registered_schemas.setdefault(registered.id, _fitted_schema(registered, schema_id, fitting))
            try:
                evolve(fitting, registered_schemas, self.ledger.epoch)
            except HeadMovedError:
                self.table.reload()
                continue
            if fitting.changes:
                self._tell_changes([str(change) for change in fitting.changes], registered, schema_id)
            return fitting
        raise RetryableError(f"the schema of {self.table.identifier} keeps changing")

    def _tell_changes(self, changes: list[str], registered: RegisteredSchema | None, schema_id: int) -> None:
        self._services.control.write(
            events.SchemaEvolved(
                topic=self._topic,
                at_ms=self._services.now_ms(),
                host=self._services.host,
                changes=changes,
                cause=_cause(registered) if registered else None,
                table_schema_id=schema_id,
            )
        )


def _fitted_schema(registered: RegisteredSchema, table_schema_id: int, fitted: Evolution) -> FittedSchema:
    return FittedSchema(
        registered.id,
        registered.subject,
        registered.version,
        table_schema_id,
        tuple(sorted(fitted.renames.items())),
    )


def _cause(registered: RegisteredSchema) -> events.SchemaVersion:
    return events.SchemaVersion(id=registered.id, subject=registered.subject, version=registered.version)
