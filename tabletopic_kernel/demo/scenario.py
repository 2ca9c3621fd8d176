"""The demo from start to end: its scenes in order, with their texts."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka.schema_registry import Schema

from tabletopic_kernel._datasets.clickstream.avro import schema_text
from tabletopic_kernel._datasets.clickstream.questions import Row
from tabletopic_kernel._datasets.clickstream.tallies import Tallies
from tabletopic_kernel.clients.registry.client import registry_client
from tabletopic_kernel.clients.storage.storage import list_files
from tabletopic_kernel.demo import proof, report, script
from tabletopic_kernel.demo.change_data.scenes import USUAL_CHANGES, ChangeDataDemo
from tabletopic_kernel.demo.report import Outcome
from tabletopic_kernel.demo.screen import Screen
from tabletopic_kernel.demo.script import TOPIC, USUAL_EVENTS, Script
from tabletopic_kernel.demo.servers import DemoServers, Interrupted, Monitor, interruptible
from tabletopic_kernel.demo.stream import StreamScene
from tabletopic_kernel.local.machine import now_ms
from tabletopic_kernel.local.progress import TerminalReport
from tabletopic_kernel.model.errors import InternalError, UsageError
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.model.settings.table_names import table_identifier
from tabletopic_kernel.pipeline.write import data_root
from tabletopic_kernel.query.duckdb import DuckLake
from tabletopic_kernel.table.topic_table import TopicTable
from tabletopic_kernel.workbench.workbench import Workbench


def run(
    events: int | None = None,
    state_dir: Path | None = None,
    keep: bool = False,
    as_json: bool = False,
    cdc: bool = False,
) -> int:
    """Run the demo with its own servers, and stop everything it started, whatever is raised.

    Without ``state_dir`` in a temporary folder, which ``keep`` keeps; ``as_json`` prints a summary on stdout;
    ``cdc``: that of a database, with so many changes as ``events``.
    Returns the exit code: 1 if a comparison failed, 128 + signal number if interrupted.
    """
    screen = Screen(sys.stderr if as_json else sys.stdout)
    try:
        with interruptible(), DemoServers(state_dir, keep=keep) as servers:
            try:
                outcome = (
                    ChangeDataDemo(events or USUAL_CHANGES, servers, screen).play()
                    if cdc
                    else Demo(Script(events or USUAL_EVENTS), servers, screen).play()
                )
            except Exception:
                screen.step("✗", f"the demo stops here; the logs are in {servers.folder / 'logs'}")
                raise
    except Interrupted as interrupt:
        screen.step("!", "interrupted: everything the demo started has been stopped")
        return 128 + interrupt.signal_number  # as in shells
    if as_json:
        json.dump(outcome.to_json(), sys.stdout, indent=2, default=str)
        sys.stdout.write("\n")
    return 0 if outcome.ok else 1


class Demo:
    """One run of the demo."""

    def __init__(self, plan: Script, servers: DemoServers, screen: Screen) -> None:
        self._script = plan
        self._servers = servers
        self._screen = screen
        self.outcome = Outcome(plan.events)

    def play(self) -> Outcome:
        """Play all scenes; raises what a scene raises."""
        screen, outcome = self._screen, self.outcome
        screen.console.print(f"\n[bold]{script.TITLE.format(events=f'{self._script.events:,}')}[/]")
        screen.text(script.INTRODUCTION)
        with self._scene("servers", "1. Servers", script.SERVERS):
            self._servers.up(TerminalReport(screen.stream))
        workbench = Workbench(Settings(state_dir=str(self._servers.folder)))
        tallies = self._stream(workbench)
        outcome.sent = tallies.events
        with self._scene("proof"):
            self._prove(workbench, tallies)
        with self._scene("stop"):
            self._servers.close()
        outcome.peak_memory_bytes = self._servers.tree.peak_bytes
        outcome.peak_rss_bytes = self._servers.tree.peak_rss_bytes
        outcome.ended_by_force = self._servers.killed
        self._say_goodbye()
        return outcome

    @contextlib.contextmanager
    def _scene(self, name: str, heading: str = "", text: str = "") -> Iterator[None]:
        if heading:
            self._screen.section(heading, text)
        began = time.monotonic()
        yield
        self.outcome.seconds[name] = round(time.monotonic() - began, 2)

    def _stream(self, workbench: Workbench) -> Tallies:
        """Scenes 2 and 3: the topic is enabled, then the events flow."""
        began_ms = now_ms()
        with Monitor(Workbench(workbench.settings), TOPIC, began_ms) as monitor:
            with self._scene("enable", "2. A topic becomes a table topic", script.ENABLE):
                scene = self._enable(workbench, monitor)
            with self._scene("stream", "3. Events flow, and a host is killed", script.STREAM):
                tallies = scene.play(workbench.servers)
            self.outcome.story = scene.story
        # The rest needs no host: let it leave while the queries run.
        for host in self._servers.hosts:
            host.ask_to_stop()
        self._events = scene.events
        return tallies

    def _enable(self, workbench: Workbench, monitor: Monitor) -> StreamScene:
        screen, began = self._screen, time.monotonic()
        if TOPIC in workbench.broker.topics():
            raise UsageError(
                f"{self._servers.folder} already has a topic {TOPIC}, and the demo counts all its "
                "records: choose another --state-dir, or none"
            )
        # First the host: it takes a while to start.
        scene = StreamScene(self._script, self._servers.start_host, monitor, screen)
        workbench.broker.ensure_topic(TOPIC, script.PARTITIONS, {})
        with registry_client(workbench.servers.registry) as client:
            schema_id = client.register_schema(f"{TOPIC}-value", Schema(schema_text("v1"), "AVRO"))
        schema = f"schema {TOPIC}-value version 1 (id {schema_id})"
        screen.step("✓", f"topic {TOPIC} with {script.PARTITIONS} partitions; {schema}")
        desired = workbench.enable(TOPIC, {"commit_interval_ms": script.COMMIT_INTERVAL_MS})
        table = ".".join(table_identifier(TOPIC, desired.settings))
        screen.step("✓", f"enabled: table {table}, a commit every {script.COMMIT_INTERVAL_MS / 1000:g} s")
        epoch = scene.wait_until_owned()
        screen.step("✓", f"{scene.host} owns the table under epoch {epoch}", time.monotonic() - began)
        return scene

    def _prove(self, workbench: Workbench, tallies: Tallies) -> None:
        """Scenes 4 to 7: the content of the table, and the proof that it is correct."""
        screen, outcome = self._screen, self.outcome
        identifier = table_identifier(TOPIC, workbench.desired_topic(TOPIC).settings)
        table = TopicTable.load(workbench.catalog, identifier, TOPIC)
        if table is None or table.ledger is None:
            raise InternalError(f"the table {'.'.join(identifier)} no longer exists")
        metadata = table.table.metadata
        lake = DuckLake(workbench.catalog)

        def ask(sql: str) -> list[Row]:
            return list(zip(*(column.to_pylist() for column in lake.sql(sql).columns), strict=True))

        outcome.commits = proof.commits(ask, TOPIC, metadata)
        screen.section("4. The table's history: one snapshot per commit", script.COMMITS)
        screen.show(report.commit_table(outcome.commits))
        outcome.schemas = proof.schemas(metadata, table.registered_schemas(), self._events)
        screen.section("5. The table's schemas", script.SCHEMAS)
        screen.show(report.schema_table(outcome.schemas))
        outcome.answers = proof.answers(ask, TOPIC, tallies)
        screen.section("6. Five queries with DuckDB", script.ANSWERS)
        for answer in outcome.answers:
            screen.show(report.answer_table(answer))
        ends = workbench.broker.end_offsets([TOPIC])[TOPIC]
        outcome.partitions = proof.partitions(ask, TOPIC, ends, table.ledger.next_offsets)
        on_disk = list_files(table.table, data_root(metadata), recursive=True)
        outcome.checks = proof.checks(
            ask, TOPIC, tallies.events, outcome.partitions, proof.files(table.table), len(on_disk)
        )
        screen.section("7. The proof: nothing lost, nothing duplicated", script.PROOF)
        screen.show(report.partition_table(outcome.partitions))
        screen.show(report.check_table(outcome.checks))

    def _say_goodbye(self) -> None:
        screen, outcome = self._screen, self.outcome
        screen.section("Summary")
        screen.show(report.summary(outcome))
        kept = self._servers.folder if self._servers.is_kept else None
        if kept is not None:
            screen.text(script.KEPT.format(folder=kept))
        screen.show(report.next_steps(kept))
