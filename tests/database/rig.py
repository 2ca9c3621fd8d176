"""PostgreSQL, Debezium in Kafka Connect, and hosts, each of which may be killed at any time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tabletopic_kernel.demo.change_data.connect import Config, Connect, avro, debezium
from tabletopic_kernel.local.hosts import HostProcess
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.workbench import Workbench
from tests.database.compare import Rows, database_rows, differences, newest_state, table_rows
from tests.recovery.waiting import wait_until
from tests.servers.postgres import Postgres

# A connector's converters, by what its topics' names begin with: Connect's own JSON with a schema in each
# record, and Avro by schema id.
JSON, AVRO = "jx", "av"
_LIMIT_S = 300.0


class Rig:
    """One database with its table topics."""

    def __init__(self, folder: Path, postgres: Postgres) -> None:
        self.folder, self.postgres = folder, postgres
        self.bench = Workbench(Settings(state_dir=str(folder)))
        self.hosts: list[HostProcess] = []
        self.connect: Connect | None = None
        self._keyed: set[str] = set()  # topics whose tables are kept by key
        self._connection = postgres.connect()

    def sql(self, *statements: str) -> None:
        """Run each statement as a transaction of its own."""
        with self._connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def rows(self, table: str) -> Rows:
        """What the database has."""
        return database_rows(self._connection, table)

    def connected(self, tables: str, more: Config | None = None) -> Connect:
        """Both connectors on these tables (``public.a,public.b``), running."""
        settings = dict(more or {})
        connectors = {
            JSON: debezium(self.postgres, JSON, tables, settings),
            AVRO: debezium(self.postgres, AVRO, tables, {**avro(self.bench.servers.registry), **settings}),
        }
        self.connect = Connect(self.folder / "connect", self.bench.servers, connectors)
        self.connect.start()
        return self.connect

    def start_host(self) -> HostProcess:
        """Another host."""
        self.hosts.append(HostProcess(self.folder, len(self.hosts) + 1))
        return self.hosts[-1]

    def enable(self, topic: str, settings: Mapping[str, Any]) -> None:
        """Enable a topic as soon as it is there."""
        wait_until(f"topic {topic}", lambda: topic in self.bench.kafka_topics())
        given: dict[str, Any] = {"transform": "flatten_debezium", "commit_interval_ms": "500ms"}
        if topic.startswith(JSON):
            given["value_format"] = "json"
        if settings.get("mode") == "upsert":
            self._keyed.add(topic)
        self.bench.enable(topic, {**given, **settings})

    def state(self, topic: str, key: str) -> Rows:
        """What the newest-state query says now, or a table that is kept by key; empty before there is one."""
        table = self.bench.table_of(topic)
        return table_rows(self.bench, f"FROM {table}" if topic in self._keyed else newest_state(table, key))

    def wait_until_equal(self, topic: str, key: str = "id") -> Rows:
        """The database is quiet: soon the newest state has each of its rows, and no other."""
        wanted = self.rows(topic.partition(".")[2])
        assert wanted, topic

        def agrees() -> bool:
            (status,) = self.bench.status(topic)
            assert status.state != "failed", status.error
            for host in self.hosts:
                host.check()
            if self.connect is not None:
                self.connect.check()
            if not status.next_offsets or status.lag_records != 0:
                return False
            return not differences(self.state(topic, key), wanted)

        try:
            wait_until(f"{topic} as in the database", agrees, _LIMIT_S)
        except AssertionError as error:
            told = "\n".join(differences(self.state(topic, key), wanted)[:20])
            (status,) = self.bench.status(topic)
            raise AssertionError(f"{error}\n{status.refused} {status.passed_over}\n{told}") from None
        return wanted

    def end(self) -> None:
        """End all that was started here."""
        if self.connect is not None:
            self.connect.kill()
        for host in self.hosts:
            host.ask_to_stop()
        for host in self.hosts:
            host.wait()
        self._connection.close()
