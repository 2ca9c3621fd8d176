"""One table topic in the Python API: ``workbench.topic("clicks")``."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tabletopic_kernel.local.machine import now_ms
from tabletopic_kernel.model.errors import ActionNeededError, LoginRefusedError, RetryableError
from tabletopic_kernel.model.settings.table_names import table_identifier, table_name
from tabletopic_kernel.workbench.topics.records import RecordRequests

if TYPE_CHECKING:  # loaded on first use: each takes a good part of a second
    from tabletopic_kernel.model.progress.events import ControlEvent
    from tabletopic_kernel.query.answer import Answer
    from tabletopic_kernel.table.health import TableHealth
    from tabletopic_kernel.table.history import TableSnapshot, TopicSchema
    from tabletopic_kernel.workbench.topics.drop import Drop
    from tabletopic_kernel.workbench.topics.rebase import Rebase
    from tabletopic_kernel.workbench.topics.topic_status import TopicStatus


class TableTopic(RecordRequests):
    """A handle of one Kafka topic, enabled or not: cheap to create, each call queries anew.

    Queries and orders raise UsageError if the topic is not enabled (``peek``, ``plan`` and ``enable`` need
    only a Kafka topic), and RetryableError if a server does not respond.
    """

    def __repr__(self) -> str:
        return f"<TableTopic {self.name}>"

    def _repr_html_(self) -> str:
        from tabletopic_kernel.faces.operations.next_steps import topic_html  # noqa: PLC0415

        return topic_html(self)

    def status(self) -> TopicStatus:
        """The topic's status."""
        return self._workbench.status(self.name)[0]

    def wait(
        self, timeout_s: float = 120.0, on_status: Callable[[TopicStatus], None] = lambda _: None
    ) -> TopicStatus:
        """Wait until the table contains everything that was in the topic when called, across outages.

        ``on_status`` gets each further status. Raises ActionNeededError if the topic failed or is paused,
        RetryableError if the table did not catch up in time.
        """
        deadline = time.monotonic() + timeout_s
        now = self.status()
        ends = now.end_offsets
        # If the lag is unknown, the ledger's offsets mean other records, or there is no topic.
        while now.lag_records is None or any(now.next_offsets.get(p, 0) < end for p, end in ends.items()):
            if now.state == "failed":
                raise ActionNeededError(f"{self.name} failed: {now.error}")
            if now.state == "paused":
                raise ActionNeededError(
                    f"{self.name} is paused; resume it with `tabletopic resume {self.name}`"
                )
            if time.monotonic() > deadline:
                reason = f": {now.error}" if now.error else ""
                behind = "" if now.lag_records is None else f" and {now.lag_records:,} records behind"
                raise RetryableError(f"{self.name} is {now.state}{behind} after {timeout_s:g} s{reason}")
            time.sleep(self.look_every_s)
            now = self.status_by(deadline)
            ends = ends or now.end_offsets
            on_status(now)
        return now

    def status_by(self, deadline: float) -> TopicStatus:
        """The status, as soon as the servers respond; RetryableError if not by then (``monotonic()``)."""
        while True:
            try:
                return self.status()
            except LoginRefusedError:
                raise
            except RetryableError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(self.look_every_s)

    def events(self, limit: int = 50) -> list[ControlEvent]:
        """Events, newest first, without heartbeats."""
        return self._workbench.newest_events(self.name, limit)

    def scan(self, *, live: bool = False, limit: int | None = None) -> Answer:
        """The rows of the table; with ``live`` also those of records that are not committed yet.

        Raises as ``Workbench.query``.
        """
        from tabletopic_kernel.query.statements.sql import quote  # noqa: PLC0415

        settings = self._settings()
        *namespace, table = table_identifier(self.name, settings)
        parts = [*filter(None, [settings.catalog]), ".".join(namespace), table]
        return self._workbench.query(f"FROM {'.'.join(map(quote, parts))}", limit=limit, live=live)

    def schema(self, version: int | None = None) -> TopicSchema:
        """The table's columns and the registered versions; with ``version`` that version's columns."""
        from tabletopic_kernel.table.history import topic_schema  # noqa: PLC0415

        settings, registry = self._settings(), self._workbench.registry
        table, subject = self._table(settings), settings.subject_of(self.name)
        identifier = table_name(self.name, settings)
        return topic_schema(self.name, identifier, table, registry, version, subject, settings)

    def schema_diff(self, v1: int, v2: int) -> list[str]:
        """What version ``v2`` changes in the columns of ``v1``, one change per line, after reused ids."""
        from tabletopic_kernel.table.history import schema_difference  # noqa: PLC0415
        from tabletopic_kernel.table.schemas.reused import reused_ids  # noqa: PLC0415

        settings, registry = self._settings(), self._workbench.registry
        changes = schema_difference(settings.subject_of(self.name), registry, v1, v2)
        table = self._table(settings)
        return [*(reused_ids(table, self.name, registry, settings) if table else []), *changes]

    def history(self, limit: int = 50) -> list[TableSnapshot]:
        """The table's snapshots, newest first; empty while there is no table. Raises like ``schema``."""
        from tabletopic_kernel.table.history import snapshots  # noqa: PLC0415

        table = self._table(self._settings())
        return [] if table is None else snapshots(table.table.metadata, limit)

    def health(self) -> TableHealth:
        """The table's health: file sizes, deletes, snapshots, and the next maintenance."""
        from tabletopic_kernel.table.health import next_work, table_health  # noqa: PLC0415

        settings = self._settings()
        table = self._loaded(settings)
        work = next_work(table.table, settings, now_ms())
        return table_health(self.name, table.table, work, settings.catalog)

    def rebase(self, *, records: int = 1_000, dry_run: bool = False) -> Rebase:
        """Let the table continue with a copy of its topic, comparing the last ``records``."""
        from tabletopic_kernel.workbench.topics.rebase import rebase  # noqa: PLC0415

        return rebase(self.name, self._settings(), self._workbench, records=records, dry_run=dry_run)

    def drop(self, table: str | None = None, *, dry_run: bool = False) -> Drop:
        """Disable the topic if it is enabled, and remove its table and its dead letters, with their files.

        ``table``: dotted, as in a query; needed for a topic that is not enabled.
        """
        from tabletopic_kernel.workbench.topics.drop import drop  # noqa: PLC0415

        return drop(self, table, self._workbench, dry_run=dry_run)

    def logs(self, lines: int = 100) -> list[str]:
        """The last lines that hosts on this machine logged about this topic, oldest first."""
        return self._workbench.logs(lines, self.name)
