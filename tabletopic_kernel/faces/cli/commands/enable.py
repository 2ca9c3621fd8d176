"""``enable`` and ``alter``: beside what changes, they say who runs the topic."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import Call, not_in_time
from tabletopic_kernel.faces.cli.command import show_messages
from tabletopic_kernel.faces.operations import BY_NAME
from tabletopic_kernel.faces.operations.operation import Message
from tabletopic_kernel.model.errors import ActionNeededError

if TYPE_CHECKING:
    from tabletopic_kernel.workbench.status import TopicStatus

_RUNNING = frozenset({"running", "staged", "committing", "settling"})
_POLL_S = 0.5


def enable(call: Call, topic: str, settings: dict[str, Any], wait: float | None, as_json: bool) -> None:
    """Enable a topic, and with ``wait`` wait until a host runs it."""
    operation = BY_NAME["enable"]
    assert operation.run is not None
    assert operation.render is not None
    result = operation.run(call.workbench, topic=topic, settings=settings)
    hosts = call.hosts()
    if as_json and wait is None:
        screen.show_json({**operation.to_json(result), "hosts": hosts})
    if not as_json:
        show_messages(call, [*operation.render(result, {}), _who_runs(topic, hosts)])
    if wait is None:
        return
    status = _wait_until_running(call, topic, wait)
    if as_json:
        screen.show_json(status.to_json())
    else:
        screen.show(f"[green]{status.state}[/] on {screen.plain(status.host)}")


def alter(call: Call, topic: str, settings: dict[str, Any], as_json: bool) -> None:
    """Change settings of a topic."""
    operation = BY_NAME["alter"]
    assert operation.run is not None
    assert operation.render is not None
    result = operation.run(call.workbench, topic=topic, settings=settings)
    if as_json:
        screen.show_json({**operation.to_json(result), "hosts": call.hosts()})
    else:
        show_messages(call, operation.render(result, {}))


def _who_runs(topic: str, hosts: list[str] | None) -> Message:
    if hosts:
        return Message("  a host runs and takes it; see `tabletopic status {name}`", {"name": topic})
    return Message("no host runs yet: start one, in a terminal of its own, with `tabletopic serve`")


def _wait_until_running(call: Call, topic: str, seconds: float) -> TopicStatus:
    deadline = time.monotonic() + seconds
    while True:
        status = call.workbench.status(topic)[0]
        if status.state in _RUNNING:
            return status
        if status.state == "failed":
            raise ActionNeededError(f"{topic} failed: {status.error}")
        if time.monotonic() >= deadline:
            reason = f": {status.error}" if status.error else ""
            raise not_in_time(f"{topic} is {status.state}{reason}", seconds)
        time.sleep(_POLL_S)
