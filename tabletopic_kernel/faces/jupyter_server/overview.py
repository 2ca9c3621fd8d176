"""The sidebar's overview: servers, host and all topics."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

from tabletopic_kernel.faces.jupyter_server.answers import Overview, Row, Topics
from tabletopic_kernel.faces.jupyter_server.answers import Servers as ServersState
from tabletopic_kernel.faces.jupyter_server.left_tables import LeftTable, LeftTables
from tabletopic_kernel.faces.jupyter_server.servers import HeadlessHost, Sample, Servers, live_hosts
from tabletopic_kernel.faces.jupyter_server.settings_in_force import NoServersError, SettingsInForce
from tabletopic_kernel.local.machine import now_ms
from tabletopic_kernel.model.errors import SettingsError, TableTopicError, error_of
from tabletopic_kernel.model.progress.events import EnableRefused
from tabletopic_kernel.model.progress.progress_view import NO_HOST, NO_HOST_HINT
from tabletopic_kernel.model.redact import mask
from tabletopic_kernel.model.settings.desired import DesiredTopic
from tabletopic_kernel.model.settings.servers import registry_place
from tabletopic_kernel.model.settings.table_names import table_name
from tabletopic_kernel.model.topic_names import kafka_topic
from tabletopic_kernel.render.words import event_text
from tabletopic_kernel.workbench.config import names_all_servers

if TYPE_CHECKING:  # loads the Kafka client
    from tabletopic_kernel.workbench.topics.topic_status import TopicStatus
    from tabletopic_kernel.workbench.workbench import Workbench

_LOG = logging.getLogger(__name__)
_LOCAL: tuple[Literal["kafka", "registry"], ...] = ("kafka", "registry")
_EVERY_MS, _BACK_MS = 10_000, 20_000  # of looks for refusals; hosts' clocks differ
_State = Literal["ready", "starting", "stopping", "none", "unreachable"]
_EMPTY: Topics = {"topics": [], "lag_records": 0, "lag_seconds": None, "seen_ms": None}


@dataclass
class Refusals:
    """Why standing patterns did not enable topics, as hosts report it once. For one thread."""

    _known: dict[str, str] = field(default_factory=dict)
    _looked_ms: int = 0

    def of(self, workbench: Workbench, topics: Collection[str]) -> dict[str, str]:
        """The reasons by topic, of these."""
        if (now := now_ms()) - self._looked_ms >= _EVERY_MS:
            self._looked_ms = now
            for event in workbench.events(None, now - _BACK_MS):
                if isinstance(event, EnableRefused):
                    self._known[event.topic] = event_text(event)
        self._known = {topic: why for topic, why in self._known.items() if topic in topics}
        return self._known


@dataclass
class OverviewMaker:
    """Builds the overview; every part may block."""

    in_force: SettingsInForce
    servers: Servers
    host: HeadlessHost
    sample: Sample
    left: LeftTables = field(default_factory=LeftTables)
    refusals: Refusals = field(default_factory=Refusals)

    def look(self, last: Overview | None = None) -> Overview:
        """The overview for the API, with the topics of ``last`` while the servers do not respond."""
        return self._overview(*self._servers(last))

    def waiting(self) -> Overview:
        """The overview until the first one is complete; does not block."""
        servers = _servers_json("starting", "the servers take longer than usual to respond", own=False)
        return self._overview(servers, _EMPTY, [])

    def _overview(self, servers: ServersState, figures: Topics, ids: list[str]) -> Overview:
        host, sample = self.host.status(ids), self.sample.state()
        profiles = {"profile": self.in_force.profile, "profiles": self.in_force.profiles()}
        parts = {"servers": servers, "host": host, "sample": sample, **figures, "at_ms": now_ms()}
        return cast("Overview", {**profiles, **parts})

    def _servers(self, last: Overview | None) -> tuple[ServersState, Topics, list[str]]:
        """The servers' state, the topics' figures, the live hosts' ids."""
        state, detail, workbench = self._reach(is_again=bool(last and last["servers"]["missing"]))
        # Topics stay visible while a server restarts.
        figures, ids = _known(last) if state == "starting" else _EMPTY, list[str]()
        missing: tuple[str, ...] = ()
        if workbench is not None:
            try:
                away = workbench.servers.away()
                missing, doing = away.names, self.servers.doing
                # Which servers have ended, or why they did not restart.
                detail = doing.detail if missing and doing.state == "failed" else away.message()
                away.check("kafka")
                # The first overview does not wait for catalogs: PyIceberg alone takes a second to load.
                topics = rows(workbench, self) if last else rows(workbench)
                ids = live_hosts(workbench)
                if self.host.is_young or ids:
                    topics = [_as_starting(row) for row in topics]
                figures = summed(topics)
            except TableTopicError as error:
                state = "starting" if self.servers.doing.state == "starting" else "unreachable"
                detail, figures = detail or error.advice, _known(last)
            except Exception as error:  # the page shows it
                _LOG.exception("overview")
                detail = f"unexpected {error_of(error)}; the Jupyter server's log has the trace"
                state, figures = "unreachable", _known(last)
        return _servers_json(state, detail, missing, own=self._own(), workbench=workbench), figures, ids

    def _reach(self, *, is_again: bool) -> tuple[_State, str, Workbench | None]:
        """State and detail before any query, and the workbench for the queries.

        ``is_again``: a server that ended is restarting; the others respond, so queries go on.
        """
        doing = self.servers.doing
        if doing.state == "stopping" or (doing.state == "starting" and not is_again):
            return doing.state, f"the local stack is {doing.state}: {doing.detail}", None
        try:
            self.in_force.settings()
        except SettingsError as error:
            return "unreachable", f"the settings are wrong: {error.advice}", None
        try:
            return "ready", "", self.in_force.workbench()
        except NoServersError as error:
            return "none", doing.detail if doing.state == "failed" else str(error), None
        except TableTopicError as error:
            return "unreachable", error.advice, None

    def _own(self) -> bool:
        try:
            return names_all_servers(self.in_force.settings())
        except SettingsError:
            return True


def _as_starting(row: Row) -> Row:
    """Not an error yet: a new host, or one that has not reported since the broker is back."""
    starting = {"state": "starting", "standing": "starting", "error": None}
    return cast("Row", {**row, **starting}) if row["state"] == NO_HOST else row


def _known(last: Overview | None) -> Topics:
    return cast("Topics", {name: last[name] for name in _EMPTY}) if last else _EMPTY  # type: ignore[literal-required]


def _servers_json(
    state: _State,
    detail: str,
    missing: Sequence[str] = (),
    *,
    own: bool,
    workbench: Workbench | None = None,
) -> ServersState:
    """Addresses without the secrets they may contain."""
    kafka = workbench.servers.kafka if workbench else {}
    address = kafka.get("bootstrap.servers") or kafka.get("metadata.broker.list", "")
    registry = registry_place(workbench.servers.registry) if workbench else ""
    return {
        "state": state,
        "detail": detail,
        "missing": [name for name in _LOCAL if name in missing],
        "bootstrap_servers": mask(address),
        "registry_url": mask(registry),
        "own": own,
    }


def rows(workbench: Workbench, maker: OverviewMaker | None = None) -> list[Row]:
    """All topics: the enabled ones first, each by name; ``maker`` knows more of the others."""
    desired_topics = workbench.desired_topics()
    partitions = workbench.kafka_topics()
    enabled = [
        row_of(
            status,
            desired_topics[status.topic],
            partitions.get(kafka_topic(status.topic), len(status.end_offsets)),
        )
        for status in workbench.statuses(desired_topics)
    ]
    names = sorted(partitions.keys() - desired_topics.keys())
    tables = maker.left.of(workbench, names) if maker else {}
    why = maker.refusals.of(workbench, names) if maker else {}
    others = (row_of_other(name, partitions[name], tables.get(name), why.get(name)) for name in names)
    return [*enabled, *others]


def row_of(status: TopicStatus, desired: DesiredTopic, partitions: int) -> Row:
    """The row of an enabled topic."""
    row = {
        **row_of_desired(desired, partitions),
        **{name: value for name, value in vars(status).items() if name in Row.__annotations__},
        # The page's header says that no host runs, and has the button.
        "error": None if status.error == NO_HOST_HINT else status.error,
        "schema_version": _newest(status.schema_versions),
        "snapshot_id": None if status.snapshot_id is None else str(status.snapshot_id),
    }
    return cast("Row", row)


def row_of_desired(desired: DesiredTopic, partitions: int) -> Row:
    """The row of a topic that was just enabled: its status is not known yet."""
    row = row_of_other(desired.topic, partitions)
    table = table_name(desired.topic, desired.settings)
    return {**row, "enabled": True, "run": desired.run, "table": table}


def row_of_other(
    topic: str, partitions: int, left: LeftTable | None = None, refused: str | None = None
) -> Row:
    """The row of a topic that is not enabled, perhaps any more; ``refused``: why a pattern did not."""
    about = {"topic": topic, "enabled": False, "partitions": partitions, "error": refused}
    row = {**dict.fromkeys(Row.__annotations__), **about}
    row |= {} if left is None else {"table": left.table, "rows": left.rows}
    return cast("Row", row)


def _newest(versions: list[dict[str, Any]]) -> str | None:
    """The newest version of each subject."""
    newest: dict[str, int] = {}
    for version in versions:
        newest[version["subject"]] = max(version["version"], newest.get(version["subject"], 0))
    return ", ".join(f"v{version}" for version in newest.values()) or None


def summed(rows: list[Row]) -> Topics:
    """Topics with their total lag in records, and the lag in seconds of the topic furthest behind."""
    seconds = [row["lag_seconds"] for row in rows if row["lag_seconds"] is not None]
    records = sum(row["lag_records"] or 0 for row in rows)
    oldest = max(seconds, default=None)
    return {"topics": rows, "lag_records": records, "lag_seconds": oldest, "seen_ms": now_ms()}
