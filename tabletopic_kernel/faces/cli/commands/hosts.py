"""``serve`` and ``dashboard``: separate processes; ``down`` stops background hosts."""

# Imports are deferred: see the package's docstring.
# ruff: noqa: PLC0415

from __future__ import annotations

import contextlib
import dataclasses
import gc
import importlib
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import Call
from tabletopic_kernel.faces.cli.commands.detached import JOIN_S, JOINS, start_detached
from tabletopic_kernel.faces.cli.commands.stopping import stop_event
from tabletopic_kernel.faces.operations.operation import Option
from tabletopic_kernel.local.machine import need_limits, now_ms
from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.model.progress.events import HEARTBEATS, ControlEvent, Failed
from tabletopic_kernel.model.topic_names import SETTINGS_TOPIC

if TYPE_CHECKING:
    from tabletopic_kernel.host.host import Host
    from tabletopic_kernel.host.metrics.server import Address
    from tabletopic_kernel.model.settings.sections import Settings


_POLL_S = 0.2
_REOPEN_S = 2.0
_LAST_WORDS_S = 0.5
_ROUTINE = HEARTBEATS | {"FilesStaged"}
_PROBLEMS = frozenset({"Failed", "CommitFailed", "GapDetected", "SchemaRefused", "EnableRefused"})
_LOG = logging.getLogger("tabletopic.serve")


@dataclasses.dataclass(frozen=True)
class _ServeMode:
    """How a host runs as a process, apart from its settings."""

    quiet: bool = False
    json_logs: bool = False
    metrics: Address | None = None
    with_parent: int | None = None

    def note(self, message: str) -> None:
        """Print or log a note."""
        if self.json_logs:
            _LOG.info("%s", message)
        elif not self.quiet:
            screen.note(message)

    @property
    def prints_events(self) -> bool:
        """Whether events are printed as text."""
        return not self.quiet and not self.json_logs


def serve(
    call: Call,
    quiet: Annotated[bool, Option("Print nothing", ("--quiet", "-q"))] = False,
    detach: Annotated[bool, Option("Run in the background; `down` stops it", ("--detach", "-d"))] = False,
    mark: Annotated[str | None, Option(hidden=True)] = None,
    with_parent: Annotated[int | None, Option("Stop when this process ends", metavar="PID")] = None,
    metrics_port: Annotated[
        int | None,
        Option(
            "Serve /metrics, /healthz and /readyz on this port; 0 picks a free one",
            metavar="PORT",
            least=0,
            most=65_535,
        ),
    ] = None,
    metrics_host: Annotated[str, Option("Address of the metrics port", metavar="ADDRESS")] = "127.0.0.1",
    log_format: Annotated[
        Literal["text", "json"], Option("Format of standard output: text, or logs as JSON")
    ] = "text",
) -> None:
    """Run the table topics: read, stage and commit until Ctrl-C or SIGTERM.

    Several hosts share the topics and fail over. On exit, a host commits what is
    staged. Killing it loses nothing.

    Example:  tabletopic serve
    """
    from tabletopic_kernel.host.metrics.server import Address

    need_limits()
    if detach:
        serve_options = ["--log-format", log_format]
        if metrics_port is not None:
            serve_options += ["--metrics-port", str(metrics_port), "--metrics-host", metrics_host]
        _serve_detached(call, serve_options)
        return
    address = None if metrics_port is None else Address(metrics_host, metrics_port)
    with stop_event() as stop:
        _serve(call, _ServeMode(quiet, log_format == "json", address, with_parent), stop)


def _serve(call: Call, mode: _ServeMode, stop: threading.Event) -> None:
    from tabletopic_kernel.local.crash_points import obey

    obey()
    # Before the thread: two threads that import one package with cycles may each see a part of it.
    importlib.import_module("tabletopic_kernel.clients.spark.session")
    workbench = call.workbench
    workbench.is_host = True
    _log_to(workbench.servers.state_dir, call.debug, mode)
    host: Future[Host] = Future()
    # First of all: the JVM starts on another core while this process loads the rest.
    threading.Thread(target=_start_spark, args=(call, host, mode), name="spark start", daemon=True).start()
    host.set_result(workbench.host())
    with _watched(call, host.result(), mode):
        _run(call, host.result(), mode, stop)


@contextlib.contextmanager
def _watched(call: Call, host: Host, mode: _ServeMode) -> Iterator[None]:
    """Write the host's events to the log and serve its metrics at their port, if enabled."""
    if mode.json_logs and not mode.quiet:
        host.listen(_log_event)
    if mode.metrics is None:
        yield
        return
    watch = call.workbench.watch(host, mode.metrics)
    watch.start()
    mode.note(f"metrics at {watch.url}/metrics")
    try:
        yield
    finally:
        watch.stop()


def _run(call: Call, host: Host, mode: _ServeMode, stop: threading.Event) -> None:
    """Run the host until it is stopped; raises the error that ended it."""
    began_ms = now_ms()
    host.start()
    over = threading.Event()
    printer = threading.Thread(
        target=_print_events, args=(call, host, began_ms, over), name="events", daemon=True
    )
    mode.note(f"host {host.id} {JOINS}")
    if mode.prints_events:
        printer.start()
    try:
        shown_wait = None
        while not stop.wait(_POLL_S) and not host.wait(0) and not _is_orphan(mode.with_parent):
            if host.waits_for != shown_wait:
                shown_wait = host.waits_for
                mode.note(f"waiting: {shown_wait}" if shown_wait else "the broker responds")
        mode.note("leaving: committing staged files …")
    finally:
        host.stop()
        over.set()
        if mode.prints_events:
            printer.join(_LAST_WORDS_S * 4)
    host.wait(0)  # raises the error that ended it


def _log_event(event: ControlEvent) -> None:
    """Write an event as a log record, except heartbeats and staged files."""
    from tabletopic_kernel.render.words import event_text

    if event.type in _ROUTINE:
        return
    level = logging.WARNING if event.type in _PROBLEMS else logging.INFO
    if isinstance(event, Failed) and not event.waits:
        level = logging.ERROR
    _LOG.log(
        level,
        "%s: %s",
        event.type,
        event_text(event),
        extra={"topic": event.topic, "event": event.type},
    )


def _is_orphan(with_parent: int | None) -> bool:
    """Whether the parent process has ended: the system then assigns another."""
    return with_parent is not None and os.getppid() != with_parent


def _serve_detached(call: Call, serve_options: Sequence[str]) -> None:
    log, pid = start_detached(call, serve_options)
    screen.show(f"host {pid} runs in the background; its output goes to {screen.plain(log)}")
    screen.show(f"stop it, and the local stack, with [cyan]{screen.plain(call.command('down'))}[/]")


def _start_spark(call: Call, host: Future[Host], mode: _ServeMode) -> None:
    """Start Spark early, while the host joins the group; topics report errors when they need it."""
    from tabletopic_kernel.clients.kafka.java_properties import java_properties
    from tabletopic_kernel.clients.spark.warm_up import warm_up_source, warm_up_workers
    from tabletopic_kernel.local.java.jvm import make_later
    from tabletopic_kernel.local.progress import TerminalReport, silent
    from tabletopic_kernel.pipeline import source
    from tabletopic_kernel.workbench.config import embedded_servers

    began = time.monotonic()
    try:
        session = call.workbench.host_spark(TerminalReport() if mode.prints_events else silent)
        mode.note(f"Spark is ready ({time.monotonic() - began:.1f} s)")
        # While topics are taken over and their queries are planned; a cluster's workers have run a probe.
        if call.workbench.settings.spark.is_local:
            warm_up_workers(session)
        # A host without topics warms up, to take over quickly from a host that dies; topics warm it up, too.
        if host.result().wait_until_joined(JOIN_S) and not host.result().coordinators():
            java = java_properties(call.workbench.broker.properties)
            warm_up_source(session, source.warm_up_options(java, SETTINGS_TOPIC))
    except TableTopicError as error:
        if mode.json_logs:
            _LOG.error("%s", error)
        else:
            screen.error(error)
        return
    make_later(embedded_servers(call.workbench.settings))
    # A full collection walks through all modules and would delay some commit by 0.1 s.
    gc.collect()
    gc.freeze()


def _print_events(call: Call, host: Host, since_ms: int, over: threading.Event) -> None:
    """Print this host's events until the end, across broker outages."""
    out = screen.console()
    ends_at = float("inf")

    def going() -> bool:
        nonlocal ends_at
        if over.is_set() and ends_at == float("inf"):
            ends_at = time.monotonic() + _LAST_WORDS_S
        return time.monotonic() < ends_at

    host.wait_until_joined(JOIN_S)
    _hint_if_idle(call)
    while going():
        try:
            for event in call.workbench.events(None, since_ms, going):
                since_ms = max(since_ms, event.at_ms + 1)
                if event.host == host.id and event.type not in _ROUTINE:
                    out.print(screen.event_line(event))
        except BrokenPipeError:  # nobody reads the output; the host continues
            return
        except Exception as error:  # the broker is unavailable; events are only news
            logging.getLogger(__name__).warning("events: %s", error)
        over.wait(_REOPEN_S)


def _hint_if_idle(call: Call) -> None:
    try:
        if not call.workbench.desired_topics():
            screen.note(f"no table topics yet; enable one: {call.command('enable', 'TOPIC')}")
    except TableTopicError as error:
        logging.getLogger(__name__).warning("desired state: %s", error)


def _log_to(state_dir: Path, debug: bool, mode: _ServeMode) -> None:
    """Log to a file in the state folder, and as JSON to stdout."""
    from tabletopic_kernel.workbench.logs import log_json_to, log_to

    log_to(state_dir, "serve.log", logging.NOTSET)
    if mode.json_logs:
        log_json_to(sys.stdout)
        _LOG.setLevel(logging.INFO)
    if not debug:
        logging.getLogger().setLevel(logging.WARNING)


def dashboard(
    call: Call,
    port: Annotated[int, Option("Port on 127.0.0.1; 0 picks a free one", least=0, most=65_535)] = 0,
) -> None:
    """Serve the live dashboard to this machine's browser until Ctrl-C.

    In JupyterLab, open it from the sidebar, or with %dashboard in a notebook.

    Example:  tabletopic dashboard --port 8050
    """
    from tabletopic_kernel.faces.live_dashboard.server import Place, serve

    def settings() -> Settings:
        """Read again each time: the servers may change while the dashboard runs."""
        return dataclasses.replace(call).loaded.settings

    def ready(url: str) -> None:
        screen.show(f"dashboard at [cyan]{screen.plain(url)}[/]")
        screen.note("Ctrl-C ends it; hosts keep running")

    settings()  # a mistake in them is reported here, not on the page
    serve(Place(port=port), ready=ready, load=settings)
