"""PyAthena against moto: how a statement is started, waited for, cancelled and read.

The tests set the statement's result; test_trino.py has an engine that understands SQL.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from tabletopic_kernel.model.errors import ActionNeededError, UsageError
from tabletopic_kernel.model.settings.sections import AthenaSettings
from tabletopic_kernel.query.athena import AthenaLake
from tests.athena.athena_server import Athena, Engine, Execution, RefusedError, column
from tests.servers.aws import KEY, REGION, SECRET, Aws

pytestmark = [pytest.mark.integration, pytest.mark.servers]

RESULTS = "s3://results/here/"
S3_TABLES = {
    "type": "rest", "warehouse": f"arn:aws:s3tables:{REGION}:111122223333:bucket/lake",
    "client.region": REGION, "client.access-key-id": KEY, "client.secret-access-key": SECRET,
}  # fmt: skip
Asked = Callable[..., tuple[AthenaLake, Athena]]


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aws]:
    """Moto, with a workgroup."""
    with Aws(tmp_path_factory.mktemp("aws")) as started:
        started.client("athena").create_work_group(Name="analysts")
        yield started


@pytest.fixture
def asked(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    """Creates the product's engine, and its server."""
    servers = []
    monkeypatch.delenv("AWS_ATHENA_WORK_GROUP", raising=False)

    def made(engine: Engine, settings: AthenaSettings | None = None) -> tuple[AthenaLake, Athena]:
        server = Athena(aws.url, engine)
        servers.append(server.__enter__())
        monkeypatch.setenv("AWS_ENDPOINT_URL_ATHENA", server.url)
        chosen = settings or AthenaSettings(workgroup="analysts", output_location=RESULTS)
        return AthenaLake(S3_TABLES, lambda _: (), chosen), server

    yield made
    for server in servers:
        server.__exit__()


def one(execution: Execution) -> None:
    """A number."""
    execution.columns, execution.rows = [column("n", "integer")], [["1"]]


def test_a_statement_goes_to_its_workgroup_catalog_and_place(asked: Asked) -> None:
    """By [athena] and [catalog] alone."""
    lake, server = asked(one)
    assert lake.query("SELECT 1 AS n;").rows.to_pylist() == [{"n": 1}]
    told = server.last.asked
    assert told["QueryString"] == "SELECT 1 AS n"
    assert told["WorkGroup"] == "analysts"
    assert told["ResultConfiguration"]["OutputLocation"] == RESULTS
    assert told["QueryExecutionContext"] == {"Catalog": "s3tablescatalog/lake", "Database": "default"}


def test_without_settings_the_workgroup_says_where_results_go(asked: Asked) -> None:
    """The workgroup is AWS's first, and no place is sent, which one that keeps results would refuse."""
    lake, server = asked(one, AthenaSettings())
    lake.query("SELECT 1 AS n")
    assert server.last.asked["WorkGroup"] == "primary"
    assert "ResultConfiguration" not in server.last.asked


def test_it_is_waited_for(asked: Asked) -> None:
    """The state is asked for until it is final, and only then the rows."""
    looked = threading.Event()

    def slow(execution: Execution) -> None:
        assert looked.wait(60)
        one(execution)

    lake, server = asked(slow)
    outcome: list[int] = []
    reader = threading.Thread(target=lambda: outcome.append(len(lake.query("SELECT 1").rows)))
    reader.start()
    deadline = time.monotonic() + 60
    while len(server.requests) < 3:  # a start and two looks
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not outcome
    looked.set()
    reader.join()
    assert outcome == [1]


def test_ctrl_c_cancels_it(asked: Asked) -> None:
    """Nobody pays for what nobody waits for."""
    stopped = threading.Event()

    def endless(execution: Execution) -> None:
        execution.cancel = stopped.set
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        assert stopped.wait(60)

    lake, server = asked(endless)
    with pytest.raises(KeyboardInterrupt):
        lake.query("SELECT 1")
    assert server.last.state == "CANCELLED"


def test_others_cancel_it(asked: Asked, aws: Aws) -> None:
    """In AWS's console, say, or a limit of the workgroup."""

    def cancelled(execution: Execution) -> None:
        execution.state, execution.reason = "CANCELLED", "Bytes scanned limit was exceeded"

    with pytest.raises(ActionNeededError, match="Bytes scanned limit was exceeded"):
        asked(cancelled)[0].query("SELECT 1")


@pytest.mark.parametrize(
    "reason",
    [
        "SYNTAX_ERROR: line 1:8: Column 'x' cannot be resolved",
        "TABLE_NOT_FOUND: line 1:15: Table 's3tablescatalog/lake.default.nothing' does not exist",
        "COLUMN_NOT_FOUND: line 1:8: Column 'x' cannot be resolved or requester is not authorized",
        "TYPE_MISMATCH: line 1:10: Cannot apply operator: integer = varchar(1)",
        "DIVISION_BY_ZERO: Division by zero",
        "INVALID_CAST_ARGUMENT: Cannot cast 'x' to INT",
    ],
)
def test_a_wrong_statement_is_the_persons(asked: Asked, reason: str) -> None:
    """Said in Athena's words, which name the place."""

    def refused(_: Execution) -> None:
        raise RefusedError(reason)

    with pytest.raises(UsageError, match=reason.partition(": ")[0]) as caught:
        asked(refused)[0].query("SELECT x")
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    "reason",
    [
        "GENERIC_INTERNAL_ERROR: io.trino.spi.TrinoException: Failed to read",
        "PERMISSION_DENIED: Access denied on operation s3tables:GetTableData",
        "Insufficient permissions to execute the query",
    ],
)
def test_what_is_not_in_the_statement_is_no_wrong_sql(asked: Asked, reason: str) -> None:
    """Rights, limits and AWS's own failures."""

    def failed(_: Execution) -> None:
        raise RefusedError(reason)

    with pytest.raises(ActionNeededError, match="Athena failed"):
        asked(failed)[0].query("SELECT 1")


def test_a_workgroup_that_is_not_there(asked: Asked, capfd: pytest.CaptureFixture[str]) -> None:
    """AWS refuses the start; it is said once, and no trace of PyAthena's is printed."""
    lake, server = asked(one, AthenaSettings(workgroup="nobodys"))
    with pytest.raises(ActionNeededError, match="WorkGroup does not exist"):
        lake.query("SELECT 1")
    assert server.executions == {}
    assert capfd.readouterr().err == ""


def test_rows_come_in_pages_and_no_more_than_are_wanted(asked: Asked) -> None:
    """A thousand a request, the line of names among them; a limit ends the reading."""

    def many(execution: Execution) -> None:
        execution.columns = [column("n", "bigint")]
        execution.rows = [[str(number)] for number in range(2500)]
        execution.scanned = 12_345_678

    lake, server = asked(many)
    answer = lake.query("SELECT n FROM t")
    assert answer.rows["n"].to_pylist() == list(range(2500))
    assert (answer.truncated, answer.scanned_bytes) == (False, 12_345_678)
    server.pages = 0
    cut = lake.query("SELECT n FROM t", limit=10)
    assert (cut.rows["n"].to_pylist(), cut.truncated) == (list(range(10)), True)
    assert server.pages == 1


def test_null_is_not_empty_text(asked: Asked) -> None:
    """Names that occur twice, types of Athena, and a row of nulls."""

    def rows(execution: Execution) -> None:
        execution.columns = [
            column("t", "varchar"),
            column("t", "decimal", 12, 3),
            column("at", "timestamp with time zone"),
            column("b", "varbinary"),
            column("r", "row"),
        ]
        execution.rows = [
            ["", "1.500", "2026-01-31 12:00:00.123456 UTC", "68 69", "{a=1, b=null}"],
            [None] * 5,
            ["x", "-0.001", "2026-01-31 12:00:00.5 Europe/Berlin", "", "{}"],
        ]

    found = asked(rows)[0].query("SELECT …").rows
    assert found.column_names == ["t", "t", "at", "b", "r"]
    assert [str(kind) for kind in found.schema.types] == [
        "string", "decimal128(12, 3)", "timestamp[us, tz=UTC]", "binary", "string",
    ]  # fmt: skip
    assert found.column(0).to_pylist() == ["", None, "x"]
    assert found.column(1).to_pylist() == [Decimal("1.500"), None, Decimal("-0.001")]
    assert [at and at.isoformat() for at in found["at"].to_pylist()] == [
        "2026-01-31T12:00:00.123456+00:00",
        None,
        "2026-01-31T11:00:00.500000+00:00",
    ]
    assert found["b"].to_pylist() == [b"hi", None, b""]
    assert found["r"].to_pylist() == ["{a=1, b=null}", None, "{}"]


def test_a_statement_without_rows(asked: Asked) -> None:
    """DDL, say."""
    assert asked(lambda _: None)[0].query("CREATE VIEW v AS SELECT 1").rows.num_columns == 0


def test_keys_that_are_nowhere(aws: Aws, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """AWS's own message, not a trace."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_ENDPOINT_URL_ATHENA", aws.url)
    keyless = {key: value for key, value in S3_TABLES.items() if not key.endswith("key-id")}
    keyless = {key: value for key, value in keyless.items() if not key.endswith("access-key")}
    with pytest.raises(ActionNeededError, match="credentials"):
        AthenaLake(keyless, lambda _: ()).query("SELECT 1")
