"""A topic's schemas: the table's columns stay ahead of its records, and tasks are planned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema

from tabletopic_kernel.model.columns.table_columns import metadata_columns
from tabletopic_kernel.model.errors import SUBJECT, ActionNeededError, RetryableError
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.plan import WHOLE_TOPIC, Needs, StagePlan
from tabletopic_kernel.pipeline.transform.columns import (
    Projection,
    decoded_columns,
    has_row,
    inferred_columns,
    value_columns,
)
from tabletopic_kernel.table.schemas.columns import REASONS, ValueColumns, batch_columns
from tabletopic_kernel.table.schemas.evolve import EvolvingTable, SchemaServices
from tabletopic_kernel.table.schemas.registered import WITHOUT_SCHEMA, whole_writer
from tabletopic_kernel.table.schemas.sides import of_keys, of_values
from tabletopic_kernel.table.schemas.states import Covered, NamedSchemas, Refused
from tabletopic_kernel.table.topic_table import TopicTable

_NO_COLUMNS = ValueColumns(Schema())  # of a tombstone: it makes every column of the value optional


class SchemaKeeper:
    """One table topic's schemas. Only for the coordinator's thread."""

    def __init__(
        self,
        catalog: Catalog,
        identifier: tuple[str, ...],
        topic: str,
        settings: TopicSettings,
        services: SchemaServices,
    ) -> None:
        self._evolving = EvolvingTable(catalog, identifier, topic, settings, services)
        self._topic = topic
        self._services = services
        self._use(settings)
        self._learned = Schema()  # of change events in JSON: properties that the table does not have
        kind = WITHOUT_SCHEMA.get(settings.value_format)
        self._whole = whole_writer(kind) if kind else None  # of a topic whose values name none
        self._no_table = ""  # why the newest schema cannot be one

    def _use(self, settings: TopicSettings) -> None:
        self.settings = self._evolving.settings = settings
        self._follows_latest = settings.value_format == "by_latest_schema"
        self._is_inferred = settings.value_format == "json"
        self._side = of_values(self._topic, settings)
        self._values = NamedSchemas(self._evolving, self._side)
        self._keys = (
            NamedSchemas(self._evolving, of_keys(self._topic, settings)) if settings.has_typed_keys else None
        )

    @property
    def table(self) -> TopicTable | None:
        """The table; None while it has no columns."""
        return self._evolving.table

    def create(self) -> TopicTable | None:
        """Create the table from the newest schema; None while that, or a first record, is awaited."""
        if self._is_inferred:
            return None
        if self._whole is not None:
            return self._evolving.create(self._side.columns(WHOLE_TOPIC, self._whole), None)
        subject = self._side.subject
        latest = self._services.registry.latest(subject)
        if latest is None:
            return None
        try:
            return self._evolving.create(self._side.columns(latest.id, self._side.writer(latest)), latest)
        except tuple(REASONS) as error:  # records of other schemas may come
            self._no_table = f"; the newest schema of {subject} cannot become a table: {error}"
            self._evolving.report_refused({subject: f"cannot be a table: {error}"}, latest)
            return None

    def lay_out(self) -> None:
        """Apply the settings' partitions and properties to the table; raises as ``layout.lay_out``."""
        self._evolving.lay_out()

    def check_writable(self) -> None:
        """Check that rows can be written, with the ``_kafka_*`` columns of the settings."""
        if self.table is not None:
            columns = metadata_columns(self.settings, table=self.table.table.schema())
            self.table.check_writable(columns)

    def take(self, table: TopicTable | None, ledger: Ledger) -> None:
        """Take over table and ledger, for work that adds no rows: no schema is looked up."""
        self._evolving.table, self._evolving.ledger = table, ledger

    def adopt(self, table: TopicTable | None, ledger: Ledger) -> None:
        """Take over table and ledger, and the covered schemas as far as the registry answers."""
        self.take(table, ledger)
        if table is not None and (adapted := table.adapted(self.settings)) is not self.settings:
            self._use(adapted)
        if self._keys is not None:
            self._keys.adopt()
        if self._follows_latest:
            return  # each batch asks
        if self._whole is None:
            self._values.adopt()
        elif table is not None and not self._is_inferred:
            self._evolving.cover(self._side.columns(WHOLE_TOPIC, self._whole), None)
        elif table is not None and self.settings.transform == "flatten_debezium":
            self._cover_inferred(())  # tables of older versions lack fields of _cdc

    def needed_table(self) -> TopicTable:
        """The table; raises RetryableError until a record with a schema arrives."""
        if self.table is None:
            raise RetryableError(
                f"{self._topic} starts with records that cannot become rows; waiting for one with a schema"
                f"{self._no_table}"
            )
        return self.table

    def plan(self) -> StagePlan:
        """What tasks need to stage records of the schemas known so far."""
        table, ledger, values = self.table, self._evolving.ledger, self._values.plan()
        if self._whole is not None:
            named = values.schemas if self._is_inferred else {}
            values = replace(values, schemas={**named, WHOLE_TOPIC: self._whole})
        columns, text = table.table.schema().fields if table else (), self.settings.projection
        return StagePlan(
            topic=self._topic,
            table=table.plan() if table else None,
            dead_letters=None,
            epoch=ledger.epoch if ledger else 1,
            values=values,
            covers_tombstones=not any(column.required for column in columns),
            inferred=self._inferred(),
            projection=Projection(text, batch_columns(table)) if text is not None and table else None,
            settings=self.settings,
            keys=self._keys.plan() if self._keys is not None else None,
            upsert=self._evolving.upsert_columns(),
        )

    def cover(self, needs: Needs, *, recheck: bool = False) -> None:
        """Look up the schemas that a batch needs, and make the table fit those that a record proved.

        Schemas that cannot be read, do not belong to the topic, or do not fit are recorded as refused, unless
        the settings say stop (BadRecordError, ActionNeededError). ``recheck``: a batch begins, so those that
        are due are looked up again. ReusedIdError: the registry gave an id a second time.
        """
        if recheck:
            self._values.ask_again()
            if self._keys is not None:
                self._keys.ask_again()
        needed = needs.schema_ids
        self._values.carried |= dict(needs.carried)
        if self._follows_latest and (recheck or WHOLE_TOPIC in needed):
            self._cover_latest()
        ids = frozenset(key for key in needed if key is not None and key != WHOLE_TOPIC)
        self._values.resolve(ids, recheck=recheck)
        self._values.confirm(needs.proved)
        if needs.columns:
            self._cover_inferred(needs.columns)
        if None in needed and (self.table is not None or not ids):  # else one of ids may create the table
            self.needed_table()
            self._evolving.cover(_NO_COLUMNS, None)
        if self._keys is not None:
            self._keys.carried |= dict(needs.carried)
            self._keys.resolve(needs.key_ids, recheck=recheck)
            self._keys.confirm(needs.proved_keys)

    def forget_unknown(self) -> None:
        """Ask the registry again for unknown schemas when a record needs them, due or not."""
        for named in filter(None, (self._values, self._keys)):
            named.states.forget_unknown()

    def _cover_latest(self) -> None:
        """Use the subject's newest schema for all values; keep the one before if that cannot be used."""
        latest, states = self._services.registry.latest(self._side.subject), self._values.states
        if latest is None:
            if self._whole is None:
                raise RetryableError(
                    f"{self._topic}: the subject {self._side.subject} has no schema yet; waiting for one",
                    system=SUBJECT,
                )
            return
        self._values.checked(latest)
        if latest.id not in states:
            self._values.cover(latest)
        match states[latest.id]:
            case Covered(writer=writer):
                self._whole = writer
            case Refused(message=message) if self._whole is None:
                raise ActionNeededError(
                    f"{self._topic}: the newest schema of {self._side.subject} cannot be used: {message}. "
                    "Register another one, or enable the topic with another --table"
                )

    def _cover_inferred(self, columns: Sequence[Schema]) -> None:
        self._learned = inferred_columns(self._inferred(), columns, self.settings.transform)
        if not has_row(self._learned, self.settings.transform):
            return  # so far: tasks refuse the records
        wanted = value_columns(self._learned, self.settings.transform)
        change = self._evolving.cover(ValueColumns(wanted), None)
        if change.refused:
            reasons = "; ".join(f"{column} {why}" for column, why in change.refused.items())
            raise ActionNeededError(f"{self._topic}: the table's columns do not fit its records: {reasons}")

    def _inferred(self) -> Schema:
        columns = self.table.table.schema() if self.table else Schema()
        if self.table is not None and self.settings.projection is not None:
            columns = batch_columns(self.table)
        return decoded_columns(columns, self.settings.transform, self._learned)
