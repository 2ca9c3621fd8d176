"""The routes of servers, topics and the sidebar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlencode

from jupyter_server.utils import url_path_join
from pydantic import Field

from tabletopic_kernel.faces import pages
from tabletopic_kernel.faces.jupyter_server import answers
from tabletopic_kernel.faces.jupyter_server.overview import row_of_desired
from tabletopic_kernel.faces.jupyter_server.routes.own import own_route
from tabletopic_kernel.faces.operations.maintenance import CompactionPlanAnswer, counts_of
from tabletopic_kernel.faces.operations.operation import plain
from tabletopic_kernel.faces.operations.shown_records import ShownLetters, shown_letters
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.topic_names import kafka_topic
from tabletopic_kernel.render.words import event_name, event_text, event_tone

if TYPE_CHECKING:
    from tabletopic_kernel.faces.jupyter_server.backend import Backend
    from tabletopic_kernel.faces.jupyter_server.rest import Handler
    from tabletopic_kernel.host.replay.dry_run import ReplayPlan
    from tabletopic_kernel.table.expiry import ExpiryPlan
    from tabletopic_kernel.table.history import TableSnapshot

Settings = Annotated[
    dict[str, Any],
    Field(
        default_factory=dict,
        description="Settings that differ from the topic's section in tabletopic.toml",
    ),
]
LetterCondition = Annotated[str | None, Field(description="Only dead letters matching this condition")]
Limit = Annotated[int, Field(description="How many dead letters, whole", ge=0, le=1_000)]
Note = Annotated[str, Field(description="Why; the event keeps it", min_length=1)]
FileCondition = Annotated[
    str | None, Field(description="Only files that may contain rows matching this condition")
]
Orphans = Annotated[
    bool,
    Field(description="Also remove orphan files; those of other programs only if older than 3 days"),
]


# --- the stack, the host, sample events ---------------------------------------------------------------------


@own_route("post", "stack", 202)
def up(backend: Backend) -> answers.Message:
    """Start the local stack: Kafka, a schema registry and an Iceberg catalog.

    Broker, registry and catalog. The overview lists the steps.
    """
    backend.start_stack()
    return {
        "message": "the local stack is starting; it keeps running when Jupyter ends; stop it with "
        "`tabletopic down` or DELETE"
    }


@own_route("delete", "stack", 204)
def down(backend: Backend) -> None:
    """Stop the local stack and background hosts; the data stays.

    The background host, and hosts of `serve --detach`, stop first, so that they can commit.
    """
    backend.servers.stop(lambda: backend.host.child.stop(backend.host.stop_limit_s))
    backend.await_overview()


@own_route("post", "host", 202)
def serve(backend: Backend) -> answers.Message:
    """Run the table topics: read, stage and commit until Ctrl-C or SIGTERM.

    The background host of this Jupyter server. It outlives kernels and ends with the server.
    """
    backend.host.start()
    backend.await_overview()
    return {"message": "the host is starting; it ends with this Jupyter server"}


@own_route("delete", "host", 204)
def stop_host(backend: Backend) -> None:
    """Stop the background host of this Jupyter server.

    Staged files are committed first. Hosts started elsewhere are not touched.
    """
    backend.host.stop()
    backend.await_overview()


@own_route("post", "sample", 202)
def sample(
    backend: Backend,
    # Kafka's own rule for names.
    topic: Annotated[
        str, Field(description="Topic to send to", pattern=r"^[A-Za-z0-9._-]{1,249}$")
    ] = "clicks",
    # For load tests, use the command line.
    count: Annotated[int, Field(description="How many events", ge=1, le=100_000)] = 5_000,
) -> answers.Message:
    """Send clicks of a fictional shop to a topic, as Avro, and count them."""
    backend.sample.send(topic, count)
    backend.await_overview()
    return {"message": f"sending {count:,} events to {topic}"}


# --- topics -------------------------------------------------------------------------------------------------


@own_route("put", "topics/{topic}", 202)
def enable(backend: Backend, topic: str, settings: Settings) -> answers.Row:
    """Enable a topic, ensure that a host runs, and return the topic's row.

    Checks everything first, so nothing is left half done. If no host is live, this server's background host
    starts. For an enabled topic, changes the settings.
    """
    desired = backend.workbench.topic(topic).enable(settings)
    backend.ensure_host()
    overview = backend.await_overview()
    for row in overview["topics"] if overview else ():
        if row["topic"] == topic and row["enabled"]:
            return row
    return row_of_desired(desired, backend.workbench.kafka_topics().get(kafka_topic(topic), 0))


@own_route("get", "topics/{topic}")
def status(backend: Backend, topic: str) -> answers.Topic:
    """The topic's status and its desired state.

    The keys of `status TOPIC --json` on the command line, and `run` and `settings`.
    """
    desired = backend.workbench.desired_topic(topic)
    now = backend.workbench.topic(topic).status()
    return answers.Topic(**vars(now), run=desired.run, settings=desired.settings.model_dump(mode="json"))


@own_route("get", "topics/{topic}/events", key="events")
def events(
    backend: Backend,
    topic: str,
    limit: Annotated[int, Field(description="How many events", ge=1, le=1_000)] = 50,
) -> list[dict[str, Any]]:
    """Events with their text.

    Events of the control topic, newest first, without heartbeats.
    """
    return [
        plain(event) | {"text": event_text(event) or event_name(event), "tone": event_tone(event)}
        for event in backend.workbench.topic(topic).events(limit)
    ]


@own_route("get", "topics/{topic}/history", key="snapshots")
def history(
    backend: Backend,
    topic: str,
    limit: Annotated[int, Field(description="How many snapshots", ge=1, le=1_000)] = 50,
) -> list[TableSnapshot]:
    """The table's snapshots."""
    backend.check_known(topic)
    return backend.workbench.topic(topic).history(limit)


# --- what a host does on request ----------------------------------------------------------------------------


@own_route("post", "topics/{topic}/replay", 202)
def replay(backend: Backend, topic: str, where: LetterCondition = None) -> answers.ReplayId:
    """Request a replay without waiting.

    The topic's host replays them; a `Replayed` event with this id reports the outcome.
    """
    return {"replay_id": backend.workbench.topic(topic).ask_for_replay(where).id}


@own_route("post", "topics/{topic}/replay/plan")
def plan_replay(backend: Backend, topic: str, where: LetterCondition = None) -> ReplayPlan:
    """Show what a replay of the dead letters would do; nothing is changed."""
    return backend.workbench.topic(topic).plan_replay(where)


@own_route("get", "topics/{topic}/letters", verbatim=True)
def letters(backend: Backend, topic: str, where: LetterCondition = None, limit: Limit = 0) -> dict[str, Any]:
    """As `letters TOPIC --json` on the command line."""
    return backend.workbench.topic(topic).letters(where, limit).to_json()


@own_route("get", "topics/{topic}/letters/records")
def letter_records(
    backend: Backend,
    topic: str,
    where: LetterCondition = None,
    limit: Limit = 50,
    raw: Annotated[bool, Field(description="Each record whole")] = False,
) -> ShownLetters:
    """List dead letters by reason, and the newest of them, in texts as `topics/{topic}/records` has them."""
    return shown_letters(backend.workbench.topic(topic).letters(where, limit), whole=raw)


@own_route("post", "topics/{topic}/letters/drop", 202)
def drop_letters(
    backend: Backend, topic: str, note: Note, where: LetterCondition = None
) -> answers.RequestId:
    """Request that dead letters are dropped; a `LettersDropped` event with this id reports the outcome."""
    return {"request_id": backend.workbench.topic(topic).ask_for_drop(note, where).id}


@own_route("post", "topics/{topic}/compact", 202)
def compact(backend: Backend, topic: str, where: FileCondition = None) -> answers.RequestId:
    """Request a compaction without waiting.

    The topic's host compacts, or this server if the topic is not enabled; a `Compacted` event with this id
    reports the outcome.
    """
    return {"request_id": backend.workbench.topic(topic).ask_for_compaction(where).id}


@own_route("post", "topics/{topic}/compact/plan")
def plan_compact(backend: Backend, topic: str, where: FileCondition = None) -> CompactionPlanAnswer:
    """Show what a compaction would merge; nothing is changed."""
    return counts_of(backend.workbench.topic(topic).plan_compaction(where))


@own_route("post", "topics/{topic}/expire", 202)
def expire(backend: Backend, topic: str, orphans: Orphans = False) -> answers.RequestId:
    """Request an expiry without waiting.

    By the topic's host, or this server if the topic is not enabled; events with this id report the outcome:
    `Expired` for the dead letters, `Expired` for the topic's own table, and `OrphansRemoved` last.
    """
    return {"request_id": backend.workbench.topic(topic).ask_for_maintenance("expire", orphans=orphans).id}


@own_route("post", "topics/{topic}/expire/plan", key="tables")
def plan_expire(backend: Backend, topic: str, orphans: Orphans = False) -> list[ExpiryPlan]:
    """Show which snapshots and files would be removed; nothing is changed."""
    return backend.workbench.topic(topic).plan_expiry(orphans=orphans)


# --- the sidebar --------------------------------------------------------------------------------------------


@own_route("get", "dashboard", 302)
async def dashboard(
    handler: Handler,
    topic: Annotated[str | None, Field(description="The topic to show; without it, all topics")] = None,
    pane: Annotated[str | None, Field(description="The pane to show, such as `lag`; default: all")] = None,
    theme: Annotated[Literal["default", "dark"] | None, Field(description="Colour theme")] = None,
    profile: Annotated[str | None, Field(description="Refused if another one is in use")] = None,
) -> None:
    """Serve the live dashboard to this machine's browser until Ctrl-C.

    Redirects to the page below `tabletopic/dashboard/`.
    """
    named = (("topic", topic), ("pane", pane), ("theme", theme), ("profile", profile))
    query = urlencode({name: value for name, value in named if value})
    page = url_path_join(handler.base_url, "tabletopic/dashboard/")
    handler.redirect(page + (f"?{query}" if query else ""))


@own_route("get", "overview")
async def overview(handler: Handler) -> answers.Overview:
    """Servers, host and all topics at a glance.

    Cheap to poll: a thread refreshes it while clients poll. Does not count as activity.
    """
    recent = handler.backend.known()
    return await handler.call(handler.backend.first_overview) if recent is None else recent


@own_route("get", "manual/{page}", verbatim=True)
def manual(backend: Backend, page: str) -> answers.Page:
    """A page of the manual, as Markdown.

    By the name of its file, such as `trouble`; the index is `README`.
    """
    return {"text": pages.page(page)}


@own_route("get", "settings-schema")
def settings_schema(backend: Backend) -> dict[str, Any]:
    """JSON Schema of a topic's settings.

    With defaults and descriptions, for a form. Durations and sizes may also be text such as `"5s"` and
    `"128MB"`.
    """
    return TopicSettings.model_json_schema()


@own_route("post", "quickstart")
async def quickstart(handler: Handler) -> answers.Quickstart:
    """Path of the quickstart notebook.

    Below this server's root folder; the notebook is created if it is missing.
    """
    return {"path": await handler.backend.quickstart(handler.contents_manager)}
