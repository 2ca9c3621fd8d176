"""Compact and expire a topic's tables, by its host, or here if no host owns them; and their plans."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from tabletopic_kernel.local.machine import now_ms
from tabletopic_kernel.model.commit_cycle import State
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.settings.desired import DesiredTopic, MaintenanceRequest, Request
from tabletopic_kernel.model.settings.table_names import table_identifier
from tabletopic_kernel.model.topic_names import CONTROL_TOPIC
from tabletopic_kernel.workbench.topics.orders import Orders

if TYPE_CHECKING:  # loaded on first use: each takes a good part of a second
    from tabletopic_kernel.model.progress.events import Compacted, ControlEvent, Expired, OrphansRemoved
    from tabletopic_kernel.model.settings.sections import TopicSettings
    from tabletopic_kernel.table.compaction.plan import CompactionPlan
    from tabletopic_kernel.table.expiry import ExpiryPlan
    from tabletopic_kernel.table.topic_table import TopicTable
    from tabletopic_kernel.workbench.workbench import Workbench


Work = Literal["compact", "expire", "erase"]


class Requests(Orders):
    """Requests for one topic.

    ``compact`` and ``expire`` wait for their outcome, None if that takes longer than
    ``timeout_s``; ``ask_for_…`` does not wait, an event with the request's ``id`` reports it; ``plan_…``
    changes nothing. They raise UsageError if no host runs, or the topic is paused or failed: it would wait
    until the topic is resumed. The tables of a topic that is not enabled have no owner: this process does it,
    whatever ``timeout_s`` says, with the settings of the file; UnknownTopicError if there is no table either.
    """

    look_every_s = 0.5
    resume_s = 5.0  # until a host has reported that it resumed a topic

    def compact(self, where: str | None = None, timeout_s: float = 600) -> Compacted | None:
        """Compact small files of the table: those that may have rows matching ``where``, or all."""
        answers = self._done("compact", timeout_s, where)
        return answers[-1] if answers else None

    def ask_for_compaction(self, where: str | None = None) -> MaintenanceRequest:
        """Request a compaction."""
        return self.ask_for_maintenance("compact", where)

    def plan_compaction(self, where: str | None = None) -> CompactionPlan:
        """What a compaction would merge."""
        from tabletopic_kernel.table.compaction.plan import plan_compaction, rows_where  # noqa: PLC0415

        table = self._loaded(self._owned()[0]).table
        return plan_compaction(table, where=rows_where(where, table.schema()), due_only=False)

    def expire(
        self, *, orphans: bool = False, timeout_s: float = 600
    ) -> list[Expired | OrphansRemoved] | None:
        """Expire snapshots: the dead letters', the topic's own; then remove ``orphans``, files of none."""
        return self._done("expire", timeout_s, orphans=orphans)

    def plan_expiry(self, *, orphans: bool = False) -> list[ExpiryPlan]:
        """What an expiry would remove from each table."""
        from tabletopic_kernel.model.dead_letter import dead_letter_identifier  # noqa: PLC0415
        from tabletopic_kernel.table.expiry import plan_expiry  # noqa: PLC0415

        settings, _ = self._owned()
        catalog = self._workbench.open_catalog(settings.catalog)
        table = table_identifier(self.name, settings)
        plans = (
            plan_expiry(catalog, identifier, settings, now_ms(), orphans=orphans)
            for identifier in (table, dead_letter_identifier(table))
        )
        return [plan for plan in plans if plan is not None]

    def ask_for_maintenance(
        self, /, work: Work, where: str | None = None, **about: Any
    ) -> MaintenanceRequest:
        """Request maintenance before it is due."""
        from tabletopic_kernel.host.services import in_a_thread  # noqa: PLC0415

        settings, desired = self._owned()
        if where is not None:
            check_where(where, self._loaded(settings))
        if desired is not None:
            return self._requested(desired, work=work, where=where, **about)
        request = MaintenanceRequest(**self._stamp(), work=work, where=where, **about)
        in_a_thread(f"{work} {self.name}", partial(_maintain, self.name, settings, request, self._workbench))
        return request

    def _done(
        self,
        work: Work,
        timeout_s: float,
        where: str | None = None,
        **about: Any,
    ) -> list[Any] | None:
        """The outcome's events: of the topic's host, or of this process if nobody owns the table."""
        settings, desired = self._owned()
        if desired is not None:
            return self._answers(self.ask_for_maintenance(work, where, **about), timeout_s)
        if where is not None:
            check_where(where, self._loaded(settings))
        request = MaintenanceRequest(**self._stamp(), work=work, where=where, **about)
        return _until_outcome(_maintain(self.name, settings, request, self._workbench), request)

    def _owned(self) -> tuple[TopicSettings, DesiredTopic | None]:
        """The settings of the topic's table, and its desired state; None: no host may own the table."""
        from tabletopic_kernel.table.topic_table import TopicTable  # noqa: PLC0415

        bench = self._workbench
        desired_topics = bench.desired_topics()
        if self.name not in desired_topics:
            settings = self.settings_for()
            catalog, identifier = bench.open_catalog(settings.catalog), table_identifier(self.name, settings)
            if TopicTable.load(catalog, identifier, self.name) is not None:
                return settings, None
        desired = self.desired_state(desired_topics)
        return desired.settings, desired

    def _requested(self, desired: DesiredTopic, **about: Any) -> MaintenanceRequest:
        self._check_acts(desired)
        request = MaintenanceRequest(**self._stamp(), **about)
        self._change(lambda current: current.model_copy(update={"maintenance": request}))
        return request

    def _settings(self) -> TopicSettings:
        """The topic's settings; if it is not enabled, the settings file's."""
        desired = self._workbench.desired_topics().get(self.name)
        return desired.settings if desired else self.settings_for()

    def _table(self, settings: TopicSettings) -> TopicTable | None:
        """The table, if there is one; raises UsageError if there is no such topic either."""
        from tabletopic_kernel.table.topic_table import TopicTable  # noqa: PLC0415

        # Opened for each query: catalog objects are not shared between threads.
        catalog = self._workbench.open_catalog(settings.catalog)
        table = TopicTable.load(catalog, table_identifier(self.name, settings), self.name)
        if table is None:
            self._workbench.broker.facts(self.name)
        return table

    def _loaded(self, settings: TopicSettings) -> TopicTable:
        if (table := self._table(settings)) is None:
            raise UsageError(f"{self.name} has no table yet: the first records create it")
        return table

    def _stamp(self) -> dict[str, Any]:
        """Id and time of a new request; see ``events_from`` of requests."""
        end = self._workbench.broker.end_offsets([CONTROL_TOPIC]).get(CONTROL_TOPIC, {}).get(0, 0)
        return {"id": f"{uuid.uuid4().hex}@{end}", "asked_ms": now_ms()}

    def _check_acts(self, desired: DesiredTopic) -> None:
        bench = self._workbench
        if not bench.hosts():
            raise UsageError("no host is running to do it; start one with `tabletopic serve`")
        deadline = time.monotonic() + self.resume_s
        while True:
            (status,) = bench.statuses({self.name: desired})
            if status.state not in (State.PAUSED, State.FAILED):
                return
            if desired.run == "paused" or time.monotonic() > deadline:
                reason = f" ({status.error})" if status.error else ""
                raise UsageError(
                    f"{self.name} is {status.state}{reason}: its host does this once it runs; "
                    f"`tabletopic resume {self.name}` comes first"
                )
            time.sleep(self.look_every_s)

    def _answers(self, request: Request, timeout_s: float) -> list[Any] | None:
        """The events that answer a request, its outcome last; None if that takes longer."""
        from tabletopic_kernel.host.topics.control_topic import read_events  # noqa: PLC0415

        deadline = time.monotonic() + timeout_s
        since, follow = request.events_from, lambda: time.monotonic() < deadline
        events = read_events(self._workbench.broker.properties, None, since=since, follow=follow)
        return _until_outcome(events, request)


def check_where(where: str, table: TopicTable) -> None:
    """Raise UsageError if it is no condition on the table's columns."""
    from tabletopic_kernel.table.compaction.plan import rows_where  # noqa: PLC0415

    rows_where(where, table.table.schema())


def _until_outcome(events: Iterable[ControlEvent], request: Request) -> list[Any] | None:
    """The events that answer a request, its outcome last; None without that."""
    from tabletopic_kernel.model.progress.events import is_outcome, request_of  # noqa: PLC0415

    answers = []
    for event in events:
        if request_of(event) == request.id:
            answers.append(event)
            if is_outcome(event, request):
                return answers
    return None


def _maintain(
    topic: str, settings: TopicSettings, request: MaintenanceRequest, bench: Workbench
) -> list[ControlEvent]:
    """Maintain the tables of a topic that is not enabled, in this process; returns its events."""
    from tabletopic_kernel.host.maintenance.unowned import maintain  # noqa: PLC0415
    from tabletopic_kernel.host.report import new_host_id  # noqa: PLC0415
    from tabletopic_kernel.host.services import Services  # noqa: PLC0415
    from tabletopic_kernel.host.topics.control_topic import ControlLog, ensure_control_topic  # noqa: PLC0415

    ensure_control_topic(bench.broker)
    events, control = list[Any](), ControlLog(bench.servers.kafka)
    control.listen(events.append)
    services = Services(
        catalog=bench.open_catalog,
        spark=bench.host_spark,
        broker=bench.broker,
        registry=bench.registry,
        control=control,
        host=new_host_id(),
        other_catalog=bench.open_catalog,
    )
    try:
        maintain(topic, settings, services.of(settings.catalog), request)
    finally:
        control.close()
    return events
