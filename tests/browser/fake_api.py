"""A fake REST interface for the page: for screens that real servers show rarely or late."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from playwright.sync_api import Page, Route

from tabletopic_kernel.model.settings.sections import TopicSettings

_NOTHING: dict[str, Any] = dict.fromkeys(
    (
        "run", "table", "state", "error", "lag_records", "lag_seconds", "schema_version", "rows_per_second",
        "commits", "rows", "snapshot_id", "last_commit_ms", "dead_letters", "delay", "delay_reason",
        "standing", "caught_up_s", "paused_by",
    )
)  # fmt: skip


def other(topic: str, partitions: int = 4) -> dict[str, Any]:
    """The row of a topic that is not enabled."""
    return {"topic": topic, "enabled": False, "partitions": partitions, **_NOTHING}


def running(topic: str, **changes: Any) -> dict[str, Any]:
    """The row of an up-to-date table topic, with the given differences."""
    figures = {
        "run": "on", "table": f"default.{topic}", "state": "running", "lag_records": 0, "lag_seconds": 0.0,
        "schema_version": "v1", "rows_per_second": 480.0, "commits": 12, "snapshot_id": "6823419034586224051",
        "last_commit_ms": time.time_ns() // 1_000_000 - 1_500, "dead_letters": 0,
    }  # fmt: skip
    return {**other(topic), "enabled": True, **figures, **changes}


@dataclass
class FakeApi:
    """Responses of the server; ``asked`` has every request that is not a poll."""

    topics: list[dict[str, Any]] = field(default_factory=list)
    servers: str = "ready"
    detail: str = ""
    missing: list[str] = field(default_factory=list)
    profiles: list[str] = field(default_factory=lambda: ["default"])  # the first is in use
    host: dict[str, Any] = field(
        default_factory=lambda: {"state": "running", "detail": "", "ids": ["here-1-a"]}
    )
    seen_s_ago: float = 0
    answers: dict[tuple[str, str], tuple[int, Any]] = field(default_factory=dict)
    asked: list[tuple[str, str, Any]] = field(default_factory=list)

    def serve(self, page: Page) -> None:
        """Respond to this page's requests from now on."""
        page.route("**/tabletopic/api/**", self._answer)

    def overview(self) -> dict[str, Any]:
        """The responses to polls."""
        ready, at_ms = self.servers == "ready", time.time_ns() // 1_000_000
        return {
            "profile": self.profiles[0], "profiles": self.profiles,
            "servers": {
                "state": self.servers, "detail": self.detail, "missing": self.missing,
                "bootstrap_servers": "127.0.0.1:9092" if ready else "",
                "registry_url": "http://127.0.0.1:8081" if ready else "", "own": False,
            },
            "host": self.host, "sample": {"state": "idle", "detail": ""}, "topics": self.topics,
            "lag_records": sum(row["lag_records"] or 0 for row in self.topics),
            "lag_seconds": max((row["lag_seconds"] or 0.0 for row in self.topics), default=None),
            "at_ms": at_ms, "seen_ms": at_ms - round(self.seen_s_ago * 1000),
        }  # fmt: skip

    def _answer(self, route: Route) -> None:
        request = route.request
        path = unquote(urlsplit(request.url).path.partition("/tabletopic/api/")[2])
        if path == "overview":
            route.fulfill(json=self.overview())
            return
        body = json.loads(request.post_data) if request.post_data else None
        self.asked.append((request.method, path, body))
        if path == "settings-schema":
            route.fulfill(json=TopicSettings.model_json_schema())
            return
        status, answer = self.answers.get((request.method, path), (202, {}))
        route.fulfill(status=status, json=answer)
