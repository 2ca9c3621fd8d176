"""The REST interface: each handler reads the request, asks the backend in a thread, writes the answer.

``openapi.yaml`` beside this file describes it. Everything that may block runs in the backend's threads: a
second in the event loop is a second in which nothing else of JupyterLab answers.
"""

from __future__ import annotations

from urllib.parse import urlencode

from jupyter_server.auth.decorator import authorized
from jupyter_server.utils import url_path_join
from tornado.web import authenticated

from tabletopic_kernel.faces.jupyter_server.bodies import (
    ReplayBody,
    SampleBody,
    SettingsBody,
    read_body,
    read_limit,
)
from tabletopic_kernel.faces.jupyter_server.handler import Handler

_API = r"tabletopic/api"
_TOPIC = rf"{_API}/topics/([^/]+)"


class OverviewHandler(Handler):
    """Servers, host and all topics at one look; polled."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """From the cache; the first one waits for it."""
        self.answer(self.backend.known() or await self.call(self.backend.first_overview))


class TopicHandler(Handler):
    """One topic."""

    @authenticated
    @authorized
    async def get(self, topic: str) -> None:
        """All that is known of it."""
        self.answer(await self.call(self.backend.topic, topic))

    @authenticated
    @authorized
    async def put(self, topic: str) -> None:
        """Switch it on."""
        settings = read_body(SettingsBody, self.request.body).settings
        self.answer(await self.call(self.backend.enable, topic, settings), 202)

    @authenticated
    @authorized
    async def delete(self, topic: str) -> None:
        """Switch it off."""
        await self.call(self.backend.disable, topic)
        self.nothing()


class PlanHandler(Handler):
    """What switching on would do."""

    @authenticated
    @authorized
    async def post(self, topic: str) -> None:
        """Changes nothing."""
        settings = read_body(SettingsBody, self.request.body).settings
        self.answer(await self.call(self.backend.plan, topic, settings))


class ActionHandler(Handler):
    """Pause, resume, commit."""

    @authenticated
    @authorized
    async def post(self, topic: str, action: str) -> None:
        """The host does it when it reads the message, mostly within a second."""
        await self.call(self.backend.act, topic, action)
        self.answer({}, 202)


class ReplayHandler(Handler):
    """Dead letters, once more."""

    @authenticated
    @authorized
    async def post(self, topic: str) -> None:
        """The host does it; a ``Replayed`` event with this id tells what became of them."""
        where = read_body(ReplayBody, self.request.body).where
        self.answer({"replay_id": await self.call(self.backend.replay, topic, where)}, 202)


class ReplayPlanHandler(Handler):
    """What that would do."""

    @authenticated
    @authorized
    async def post(self, topic: str) -> None:
        """Changes nothing."""
        where = read_body(ReplayBody, self.request.body).where
        self.answer(await self.call(self.backend.plan_replay, topic, where))


class EventsHandler(Handler):
    """What happened."""

    @authenticated
    @authorized
    async def get(self, topic: str) -> None:
        """Newest first."""
        limit = read_limit(self.get_query_argument("limit", None))
        self.answer({"events": await self.call(self.backend.events, topic, limit)})


class SchemaHandler(Handler):
    """Columns and schema versions."""

    @authenticated
    @authorized
    async def get(self, topic: str) -> None:
        """Of the table as it is now."""
        self.answer(await self.call(self.backend.schema, topic))


class HistoryHandler(Handler):
    """Snapshots."""

    @authenticated
    @authorized
    async def get(self, topic: str) -> None:
        """Newest first."""
        limit = read_limit(self.get_query_argument("limit", None))
        self.answer({"snapshots": await self.call(self.backend.history, topic, limit)})


class SettingsSchemaHandler(Handler):
    """What can be set."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """JSON Schema, for a form."""
        self.answer(await self.call(self.backend.settings_schema))


class StackHandler(Handler):
    """The local stack."""

    @authenticated
    @authorized
    async def post(self) -> None:
        """Start it."""
        await self.call(self.backend.start_stack)
        stays = "the servers go on when Jupyter ends; `tabletopic down`, or DELETE, stops them"
        self.answer({"message": f"the local stack starts; {stays}"}, 202)

    @authenticated
    @authorized
    async def delete(self) -> None:
        """Stop it; the data stay."""
        await self.call(self.backend.stop_stack)
        self.nothing()


class HostHandler(Handler):
    """The headless host of this server."""

    @authenticated
    @authorized
    async def post(self) -> None:
        """Start it."""
        await self.call(self.backend.start_host)
        self.answer({"message": "the host starts; it ends with this Jupyter server"}, 202)

    @authenticated
    @authorized
    async def delete(self) -> None:
        """Stop it: what is staged is committed first."""
        await self.call(self.backend.stop_host)
        self.nothing()


class SampleHandler(Handler):
    """Something to try it with."""

    @authenticated
    @authorized
    async def post(self) -> None:
        """Send click events."""
        asked = read_body(SampleBody, self.request.body)
        await self.call(self.backend.send_sample, asked.topic, asked.count)
        self.answer({"message": f"{asked.count:,} events are on their way to {asked.topic}"}, 202)


class QuickstartHandler(Handler):
    """The first notebook."""

    @authenticated
    @authorized
    async def post(self) -> None:
        """Put it where this server's files are, unless it is there; answers with its path."""
        self.answer({"path": await self.backend.quickstart(self.contents_manager)})


class DashboardHandler(Handler):
    """The way to the dashboard."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Redirect to its first page, or to the topic's."""
        asked = {name: self.get_query_argument(name, "") for name in ("topic", "theme")}
        query = urlencode({name: value for name, value in asked.items() if value})
        self.redirect(url_path_join(self.base_url, "tabletopic/dashboard/") + (f"?{query}" if query else ""))


ROUTES: list[tuple[str, type[Handler]]] = [
    (rf"{_API}/overview", OverviewHandler),
    (rf"{_API}/settings-schema", SettingsSchemaHandler),
    (_TOPIC, TopicHandler),
    (rf"{_TOPIC}/plan", PlanHandler),
    (rf"{_TOPIC}/(pause|resume|commit)", ActionHandler),
    (rf"{_TOPIC}/replay", ReplayHandler),
    (rf"{_TOPIC}/replay/plan", ReplayPlanHandler),
    (rf"{_TOPIC}/events", EventsHandler),
    (rf"{_TOPIC}/schema", SchemaHandler),
    (rf"{_TOPIC}/history", HistoryHandler),
    (rf"{_API}/stack", StackHandler),
    (rf"{_API}/host", HostHandler),
    (rf"{_API}/sample", SampleHandler),
    (rf"{_API}/quickstart", QuickstartHandler),
    (rf"{_API}/dashboard", DashboardHandler),
]
