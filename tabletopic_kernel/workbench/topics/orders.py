"""Orders of a table topic: each changes the desired state, which the topic's host carries out."""

from __future__ import annotations

import difflib
import getpass
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabletopic_kernel.local.machine import now_ms
from tabletopic_kernel.model.errors import UnknownTopicError, UsageError
from tabletopic_kernel.model.settings.desired import DesiredTopic
from tabletopic_kernel.model.settings.options import altered, validated
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.table_names import table_identifier, table_name
from tabletopic_kernel.model.settings.values import AcceptedText
from tabletopic_kernel.model.topic_names import check_table_topic, check_topic_name, kafka_topic

if TYPE_CHECKING:  # loaded on first use: each takes a good part of a second
    from tabletopic_kernel.clients.registry.registry import RegisteredSchema
    from tabletopic_kernel.table.schemas.registered import Candidate
    from tabletopic_kernel.workbench.plan import Plan
    from tabletopic_kernel.workbench.workbench import Workbench

Given = Mapping[str, Any] | None


class Orders:
    """Orders of one topic. Settings are fields of ``TopicSettings``, as a mapping or by name."""

    def __init__(self, name: str, workbench: Workbench) -> None:
        self.name = name
        self._workbench = workbench

    def settings_for(self, given: Given = None, /) -> TopicSettings:
        """The settings of ``[topics.<topic>]``, overridden by those given; or SettingsError."""
        base, servers = self._workbench.settings.topics.get(self.name), self._workbench.servers
        in_file = base.model_dump(exclude_unset=True) if base else {}
        settings = validated(servers.in_default_catalog({**in_file, **(given or {})}))
        servers.catalog_of(settings.catalog)
        return settings

    def desired_state(self, desired_topics: Mapping[str, DesiredTopic] | None = None) -> DesiredTopic:
        """The topic's desired state, among those of all topics; UnknownTopicError names others."""
        if desired_topics is None:
            desired_topics = self._workbench.desired_topics()
        if self.name in desired_topics:
            return desired_topics[self.name]
        check_topic_name(self.name)
        enabled = sorted(desired_topics)
        known = f"; enabled: {', '.join(enabled[:10])}{', …' * (len(enabled) > 10)}" if enabled else ""
        reason = f"{self.name} is not enabled"
        topics = self._workbench.kafka_topics()
        if kafka_topic(self.name) in topics:
            raise UnknownTopicError(f"{reason}{known}. Enable it with `tabletopic enable {self.name}`")
        close = difflib.get_close_matches(self.name, topics, n=3)
        hint = f"; did you mean {' or '.join(close)}?" if close else known
        raise UnknownTopicError(f"{reason}, and Kafka has no such topic{hint}")

    def table_name(self) -> str:
        """The dotted name of the topic's table, with its catalog unless that is the default one."""
        return table_name(self.name, self.desired_state().settings)

    def plan(
        self,
        given: Given = None,
        /,
        *,
        schema: str | Path | None = None,
        schema_type: str | None = None,
        **settings: Any,
    ) -> Plan:
        """What ``enable`` would do with these settings, and why it would not; changes nothing.

        ``schema``: a file with an unregistered schema (.avsc, .proto, .json; of another ``schema_type``):
        what would it change, with an enabled topic's settings? Raises UsageError if it cannot be read.
        """
        from tabletopic_kernel.table.schemas.registered import read_candidate  # noqa: PLC0415

        check_table_topic(self.name)
        if schema is None and schema_type is not None:
            raise UsageError("--schema-type requires --schema")
        candidate = read_candidate(schema, schema_type) if schema is not None else None
        wanted = {**(given or {}), **settings}
        desired_topics = self._workbench.desired_topics()
        desired = desired_topics.get(self.name) if candidate else None
        if desired is None:
            chosen = self.settings_for(wanted)
        else:
            chosen = altered(self.name, desired.settings, self._workbench.servers.in_default_catalog(wanted))
        return self._planned(chosen, desired_topics, candidate)

    def enable(self, given: Given = None, /, *, pattern: str | None = None, **settings: Any) -> DesiredTopic:
        """Enable the topic: check everything, then write one message. Settings default to the file's.

        ``pattern``: a standing one that does it, unless somebody enables the topic meanwhile. Catalog and
        storage are tested with a change and a file, which are undone. Raises UsageError (no such topic, a
        wrong setting, a foreign table) or ActionNeededError (catalog or storage do not permit it).
        """
        from tabletopic_kernel.clients.catalog.catalog import in_section  # noqa: PLC0415
        from tabletopic_kernel.clients.storage.probe import try_table  # noqa: PLC0415
        from tabletopic_kernel.host.topics.settings_topic import write_desired  # noqa: PLC0415

        check_table_topic(self.name)
        bench = self._workbench
        chosen = self.settings_for({**(given or {}), **settings})
        bench.broker.facts(self.name)
        with in_section(chosen.catalog):
            identifier = table_identifier(self.name, chosen)
            try_table(bench.servers.catalog_of(chosen.catalog), identifier, chosen.table_properties)
        self._planned(chosen, bench.desired_topics()).check()
        desired = _desired(self.name, chosen, "on")
        if pattern is not None:
            desired = desired.model_copy(update={"requested_by": f"the pattern {pattern}"})
            return self.change_desired(lambda current: current or desired)
        write_desired(bench.broker, self.name, desired)
        return desired

    def alter(self, given: Given = None, /, **settings: Any) -> DesiredTopic:
        """Change settings of the enabled topic; other settings stay as they are.

        Within seconds its host commits what is staged and continues from the ledger. Table properties are
        added to the existing ones; None or empty text unsets an optional setting. UsageError: a setting is
        fixed.
        """
        wanted = self._workbench.servers.in_default_catalog({**(given or {}), **settings})
        if not wanted:
            raise UsageError("nothing to change: name a setting")
        desired_topics = self._workbench.desired_topics()
        before = self.desired_state(desired_topics)
        chosen = altered(self.name, before.settings, wanted)
        if chosen == before.settings:
            return before
        self._planned(chosen, desired_topics).check()

        def change(current: DesiredTopic) -> DesiredTopic:
            newest = altered(self.name, current.settings, wanted)
            if newest != chosen:  # somebody else changed other settings meanwhile
                self._planned(newest, desired_topics).check()
            return _desired(self.name, newest, current.run)

        return self._change(change)

    def accept_schema(self, schema_id: int, registry_id: int | None = None) -> RegisteredSchema:
        """Say which text records mean by an id that the registry gave a second time; they are read on.

        ``registry_id``: where the registry has that text now; None: the same. Raises UnknownSchemaError.
        """
        schema = self._workbench.registry.by_id(schema_id if registry_id is None else registry_id)
        answer = AcceptedText(schema_id, int(schema.id), schema.fingerprint)

        def change(current: DesiredTopic) -> DesiredTopic:
            answers = (*current.settings.accepted_texts, str(answer))
            return _desired(
                self.name, altered(self.name, current.settings, {"accepted_texts": answers}), current.run
            )

        self._change(change)
        return schema

    def disable(self) -> None:
        """Disable the topic: its host commits staged files and releases it. Table and ledger stay."""
        from tabletopic_kernel.host.topics.settings_topic import write_desired  # noqa: PLC0415
        from tabletopic_kernel.host.topics.standing_patterns import leave_off  # noqa: PLC0415

        self.desired_state()
        leave_off(self._workbench.broker, self.name)
        write_desired(self._workbench.broker, self.name, None)

    def pause(self) -> DesiredTopic:
        """Pause reading; staged files are committed first. The topic stays enabled."""
        return self._change(lambda current: _desired(self.name, current.settings, "paused"))

    def resume(self, on_truncation: str | None = None) -> DesiredTopic:
        """Resume after a pause, or after fixing the cause of a failure; optionally with another setting."""
        wanted = {} if on_truncation is None else {"on_truncation": on_truncation}
        return self._change(
            lambda current: _desired(self.name, altered(self.name, current.settings, wanted), "on")
        )

    def commit(self) -> None:
        """Ask the host to commit what the topic contains now, before it is due."""
        self._change(lambda current: current.model_copy(update={"commit_asked_ms": now_ms()}))

    def _change(self, change: Callable[[DesiredTopic], DesiredTopic]) -> DesiredTopic:
        """Change the desired state despite concurrent changes; UsageError if one disabled the topic."""

        def change_enabled(current: DesiredTopic | None) -> DesiredTopic:
            if current is None:  # ignore our own superseded message
                others = self._workbench.desired_topics()
                others.pop(self.name, None)
                return self.desired_state(others)
            return change(current)

        return self.change_desired(change_enabled)

    def change_desired(self, change: Callable[[DesiredTopic | None], DesiredTopic]) -> DesiredTopic:
        """Change the desired state; ``change`` gets None if the topic is not enabled."""
        from tabletopic_kernel.host.topics.settings_topic import change_desired  # noqa: PLC0415

        return change_desired(self._workbench.broker, self.name, change)

    def _planned(
        self,
        settings: TopicSettings,
        desired_topics: Mapping[str, DesiredTopic],
        candidate: Candidate | None = None,
    ) -> Plan:
        from tabletopic_kernel.clients.catalog.catalog import in_section  # noqa: PLC0415
        from tabletopic_kernel.workbench.topics.planning import plan_enable  # noqa: PLC0415

        bench, section = self._workbench, settings.catalog
        others = {
            table_identifier(other, desired.settings): other
            for other, desired in desired_topics.items()
            if other != self.name and desired.settings.catalog == section
        }
        with in_section(section):
            catalog = bench.catalog_of(section)
            plan = plan_enable(self.name, settings, bench.broker, bench.registry, catalog, others, candidate)
        plan.refused.extend(bench.servers.out_of_reach(bench.settings.spark, section))
        return plan


def _desired(topic: str, settings: TopicSettings, run: str) -> DesiredTopic:
    return DesiredTopic.model_validate(
        {
            "topic": topic,
            "run": run,
            "settings": settings,
            "requested_by": user_name(),
            "requested_at_ms": now_ms(),
        }
    )


def user_name() -> str:
    """The user's name; the user id in a container without one."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
