"""Operations that set the desired state: plan, enable, alter, disable, pause, resume, commit, replay.

Longer than other modules, as it is a table: an entry is data, with what it needs beside it.
"""

# Imports are deferred: `tabletopic status` must respond at once.
# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tabletopic_kernel.faces.operations import rest_bodies
from tabletopic_kernel.faces.operations.operation import (
    JSON,
    REST,
    TOPIC,
    TYPED,
    Argument,
    Kind,
    Message,
    Operation,
    Route,
    time_limit,
)
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError

if TYPE_CHECKING:
    from tabletopic_kernel.host.replay.dry_run import ReplayPlan
    from tabletopic_kernel.model.progress.events import Replayed
    from tabletopic_kernel.model.settings.desired import DesiredTopic
    from tabletopic_kernel.render.grid import Grid
    from tabletopic_kernel.workbench.plan import Plan
    from tabletopic_kernel.workbench.workbench import Workbench

PANEL = "Table topics"
Arguments = Mapping[str, Any]
_SOON = "The topic's host carries it out, usually within a second."

_WHERE = Argument("where", "Only dead letters matching this condition", metavar="SQL", faces=TYPED | REST)


def _plan(workbench: Workbench, topic: str, settings: dict[str, Any], **schema: str | None) -> Plan:
    return workbench.plan(topic, settings, **schema)


def _plan_grid(plan: Plan, _: Arguments) -> Grid:
    from tabletopic_kernel.render.topics import plan_table

    return plan_table(plan)


def _settings_json(desired: DesiredTopic) -> dict[str, Any]:
    return {"topic": desired.topic, "settings": desired.settings.model_dump(mode="json")}


def table_of(desired: DesiredTopic) -> str:
    """The dotted table name of a topic that was just enabled."""
    from tabletopic_kernel.model.settings.table_names import table_name

    return table_name(desired.topic, desired.settings)


def _enabled(desired: DesiredTopic, _: Arguments) -> list[Message]:
    from tabletopic_kernel.render.words import clock, interval

    settings = desired.settings
    begin = settings.start if isinstance(settings.start, str) else clock(settings.start)
    by = f", partitioned by {', '.join(settings.partition_by)}" if settings.partition_by else ""
    by += f", sorted by {', '.join(settings.sort_by)}" if settings.sort_by else ""
    values = {"topic": desired.topic, "table": table_of(desired)}
    rhythm = {"every": interval(settings.commit_interval_ms), "begin": begin, "by": by}
    return [
        Message("{topic} is enabled; its table is {table}", values),
        Message("  commits every {every} while records arrive; a new table starts at {begin}{by}", rhythm),
    ]


def _disable(workbench: Workbench, topic: str) -> dict[str, str]:
    table = workbench.table_of(topic)
    workbench.disable(topic)
    return {"topic": topic, "table": table, "run": "off"}


def _commit(workbench: Workbench, topic: str) -> dict[str, str]:
    workbench.commit(topic)
    return {"topic": topic, "commit": "asked"}


def _replay(
    workbench: Workbench, topic: str, where: str | None, dry_run: bool, timeout: float
) -> Replayed | ReplayPlan:
    if dry_run:
        return workbench.plan_replay(topic, where)
    outcome = workbench.replay(topic, where, timeout_s=timeout)
    if outcome is None:
        raise RetryableError(
            f"after {timeout:g} s the replay of {topic} is still running; see `tabletopic events {topic}`"
        )
    if outcome.error is not None:
        raise ActionNeededError(f"{outcome.error} ({outcome.rows:,} dead letters became rows)")
    return outcome


def _replay_lines(outcome: Replayed | ReplayPlan, _: Arguments) -> list[Message]:
    """What a replay did, or would do."""
    from tabletopic_kernel.host.replay.dry_run import ReplayPlan

    if isinstance(outcome, ReplayPlan):
        counts = {"rows": f"{outcome.rows:,}", "letters": f"{outcome.letters:,}"}
        first = Message("{rows} of {letters} dead letters would become rows", counts)
        changes = [Message("  the table would change: {change}", {"change": one}) for one in outcome.changes]
    else:
        first = Message("{rows} dead letters became rows", {"rows": f"{outcome.rows:,}"})
        changes = []
    stay = [
        Message("  {count} stay dead letters: {reason}", {"count": f"{count:,}", "reason": reason})
        for reason, count in sorted(outcome.stayed.items())
    ]
    return [first, *stay, *changes]


def _replay_json(outcome: Replayed | ReplayPlan) -> dict[str, Any]:
    from tabletopic_kernel.host.replay.dry_run import ReplayPlan

    if isinstance(outcome, ReplayPlan):
        return outcome.to_json()
    return {"topic": outcome.topic, "rows": outcome.rows, "stayed": outcome.stayed}


OPERATIONS = (
    Operation(
        "plan",
        "Show what enable, or a new schema, would do; nothing is changed",
        _plan,
        (
            TOPIC,
            Argument("schema", "Show what this schema would change: .avsc, .proto or .json", metavar="FILE"),
            Argument(
                "schema_type", "Type of the schema, if the extension differs", metavar="avro|protobuf|json"
            ),
            JSON,
        ),
        settings="all",
        render=_plan_grid,
        to_json=lambda plan: plan.to_json(),
        has_failed=lambda plan: bool(plan.refused or plan.incompatible),
        returns="`topic`, `table`, `creates`, `columns` (`name`, `type`, `required`, `doc`, `change`: `new`, "
        "`kept`, `relaxed`, `widened` or `renamed`), `partition_by`, `sort_by`, `partition_by_before` and "
        "`sort_by_before` (of an existing table), `start`, `notes`, `refused`, `changes` of an existing "
        "table, `incompatible` (column → why), "
        "`registry` (with `--schema`: whether it would accept the schema, in words); the exit code is 1 if "
        "`refused` has a reason, or with `--schema` if `incompatible` has one",
        panel=PANEL,
        details="""\
With --schema: which columns a schema that is not registered yet would add,
relax, widen or rename, and what does not fit, with the settings of the topic
if it is enabled. The exit code is 1 if enable would be refused, or if the
schema does not fit.""",
        example="tabletopic plan clicks --schema clicks-v2.avsc",
        magic="%topic plan",
        button="Settings and Plan…",
        route=Route(
            "post",
            "topics/{topic}/plan",
            answer=lambda: rest_bodies.PlanAnswer,
            notes="Enable would be refused if `refused` contains a reason.",
        ),
    ),
    Operation(
        "enable",
        "Make a Kafka topic a table topic: ingest it into an Iceberg table",
        lambda workbench, topic, settings: workbench.enable(topic, settings),
        (
            TOPIC,
            Argument("wait", "Wait until the table contains what the topic contains", Kind.FLAG, False),
            time_limit("5m"),
            JSON,
        ),
        settings="all",
        changes=True,
        wants_host=True,
        render=_enabled,
        to_json=lambda desired: {
            "topic": desired.topic,
            "table": table_of(desired),
            **_settings_json(desired),
        },
        returns="`topic`, `table`, `settings`, `hosts`; with `--wait` the object of `status TOPIC --json`",
        panel=PANEL,
        details="""\
Checks everything first (topic, settings, schema, table), so nothing is left
half done. A running host, here or elsewhere, takes the topic at once.
Settings without an option come from tabletopic.toml. --timeout limits --wait.""",
        example="tabletopic enable clicks --commit-interval 5s --partition-by 'hour(event_time)'",
        magic="%topic enable",
        aliases=("start",),
        button="Settings and Plan…",
        route=Route(
            "put",
            "topics/{topic}",
            202,
            lambda: rest_bodies.Row,
            notes="Checks everything first, so nothing is left half done. If no host is live, this server's "
            "headless host is started. For an enabled topic, changes the settings.",
        ),
    ),
    Operation(
        "alter",
        "Change settings of a table topic; other settings stay as they are",
        lambda workbench, topic, settings: workbench.alter(topic, settings),
        (TOPIC, JSON),
        settings="changeable",
        changes=True,
        render=lambda desired, _: [
            Message("{topic} has new settings; see `tabletopic events {topic}`", {"topic": desired.topic})
        ],
        to_json=_settings_json,
        returns="`topic`, `settings`, `hosts`",
        panel=PANEL,
        details="""\
Its host commits what is staged and resumes with the new settings within
seconds. New partitions apply to new rows; existing rows keep theirs. An
empty value unsets an optional setting: --projection ''.""",
        example="tabletopic alter clicks --partition-by 'day(event_time)' --commit-interval 1s",
        magic="%topic alter",
        button="Settings and Plan…",
    ),
    Operation(
        "disable",
        "Disable a table topic; its table and its ledger stay",
        _disable,
        (TOPIC, JSON),
        changes=True,
        render=lambda result, _: [
            Message("{topic} is disabled; the table {table} and its ledger stay", result)
        ],
        returns="`topic`, `table`, `run`",
        panel=PANEL,
        details="""\
The host commits what is staged and releases the topic. Enabled again, the
topic resumes where the table ends.""",
        example="tabletopic disable clicks",
        magic="%topic disable",
        aliases=("stop",),
        button="Disable",
        route=Route(
            "delete",
            "topics/{topic}",
            204,
            notes="Staged files are committed. The table and its ledger stay.",
        ),
    ),
    Operation(
        "pause",
        "Pause reading a table topic; staged files are committed first",
        lambda workbench, topic: workbench.pause(topic),
        (TOPIC, JSON),
        changes=True,
        render=lambda desired, _: [
            Message("{topic} is pausing; resume with `tabletopic resume {topic}`", {"topic": desired.topic})
        ],
        to_json=lambda desired: {"topic": desired.topic, "run": desired.run},
        returns="`topic`, `run`",
        panel=PANEL,
        example="tabletopic pause clicks",
        magic="%topic pause",
        button="Pause",
        route=Route("post", "topics/{topic}/pause", 202, notes=_SOON),
    ),
    Operation(
        "resume",
        "Resume after a pause, or after fixing the cause of a failure",
        lambda workbench, topic: workbench.resume(topic),
        (TOPIC, JSON),
        changes=True,
        wants_host=True,
        render=lambda desired, _: [Message("{topic} resumes", {"topic": desired.topic})],
        to_json=lambda desired: {"topic": desired.topic, "run": desired.run},
        returns="`topic`, `run`",
        panel=PANEL,
        example="tabletopic resume clicks",
        magic="%topic resume",
        button="Resume",
        route=Route("post", "topics/{topic}/resume", 202, notes=_SOON),
    ),
    Operation(
        "commit",
        "Commit what the topic contains now, without waiting for the interval",
        _commit,
        (TOPIC, JSON),
        changes=True,
        render=lambda result, _: [
            Message("requested a commit of {topic}; see `tabletopic history {topic}`", result)
        ],
        returns="`topic`, `commit`",
        panel=PANEL,
        example="tabletopic commit clicks",
        magic="%topic commit",
        button="Commit Now",
        route=Route("post", "topics/{topic}/commit", 202, notes=_SOON),
    ),
)

REPLAY = (
    Operation(
        "replay",
        "Replay the dead letters of a topic: each becomes a row, or stays a dead letter",
        _replay,
        (
            TOPIC,
            _WHERE,
            Argument("dry_run", "Report what would happen; change nothing", Kind.FLAG, False),
            time_limit("5m", "--wait"),
            JSON,
        ),
        changes=True,
        render=_replay_lines,
        to_json=_replay_json,
        returns="`topic`, `rows`, `stayed` (reason → count); with `--dry-run` also `letters` and `changes`",
        panel=PANEL,
        details="""\
The topic's host replays them with the current settings and schemas.
Conditions refer to columns of the dead-letter table: partition, offset,
timestamp, schema_id, reason, message, at.""",
        example="tabletopic replay clicks --where \"reason = 'unknown_schema'\"",
        magic="%topic replay",
        button="Replay Dead Letters…",
        route=Route(
            "post",
            "topics/{topic}/replay",
            202,
            lambda: rest_bodies.ReplayId,
            notes="The topic's host replays them; a `Replayed` event with this id reports the outcome.",
        ),
    ),
    Operation(
        "plan-replay",
        "Show what a replay of the dead letters would do; nothing is changed",
        lambda workbench, topic, where: workbench.plan_replay(topic, where),
        (TOPIC, _WHERE),
        to_json=_replay_json,
        route=Route("post", "topics/{topic}/replay/plan", answer=lambda: rest_bodies.ReplayPlanAnswer),
    ),
)
