"""The conformance tests' catalogs: how each is run, and the [catalog] section for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.aws import KEY, REGION, SECRET, Aws
from tests.servers.gate import Gate
from tests.servers.http_proxy import GlueLock, HttpProxy, LentKeys, Tokens, signed_for
from tests.servers.jvm_servers import HiveMetastore, Nessie, ReferenceRest
from tests.servers.postgres import Postgres
from tests.servers.stores import ACCOUNT, Azure, Gcs
from tests.servers.token_server import CLIENT, TokenServer
from tests.servers.token_server import SECRET as TOKEN_SECRET

BUCKET = "lake"


@dataclass
class Lake:
    """A running catalog; ``commit`` is the content of a commit request, ``expire`` ends credentials.

    ``keeps_history``: a table's metadata has its older snapshots and its tags. Nessie shows only the newest
    snapshot, as its history is in its own commits.
    """

    properties: dict[str, str]
    gate: Gate | None = None
    commit: bytes = b""
    expire: Callable[[], None] | None = None
    keeps_history: bool = True


Started = Callable[[Path], AbstractContextManager[Lake]]
LAKES: dict[str, Started] = {}


def _lake(name: str) -> Callable[[Callable[[Path, ExitStack], Lake]], None]:
    def keep(make: Callable[[Path, ExitStack], Lake]) -> None:
        @contextmanager
        def started(folder: Path) -> Iterator[Lake]:
            with ExitStack() as servers:
                lake = make(folder, servers)
                lake.properties = {"name": "lake", **lake.properties}
                yield lake

        LAKES[name] = started

    return keep


def _aws(folder: Path, servers: ExitStack) -> Aws:
    aws = servers.enter_context(Aws(folder / "aws"))
    aws.bucket(BUCKET)
    return aws


@_lake("SQLite, local files")
def _sqlite(folder: Path, _: ExitStack) -> Lake:
    uri = f"sqlite:///{folder}/catalog.db"
    return Lake({"type": "sql", "uri": uri, "warehouse": f"file://{folder}/warehouse"})


@_lake("PostgreSQL, S3")
def _postgres(folder: Path, servers: ExitStack) -> Lake:
    aws, postgres = _aws(folder, servers), servers.enter_context(Postgres())
    gate = servers.enter_context(Gate(postgres.port))
    uri = postgres.uri(postgres.create_database("lake"), gate.port)
    properties = {"type": "sql", "uri": uri, "warehouse": f"s3://{BUCKET}/postgres", **aws.properties()}
    return Lake(properties, gate, b"COMMIT")


@_lake("SQLite, Google Cloud Storage")
def _gcs(folder: Path, servers: ExitStack) -> Lake:
    store = servers.enter_context(Gcs(folder / "gcs"))
    place = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"gs://{store.bucket(BUCKET)}/lake"}
    return Lake({"type": "sql", **place, **store.properties()})


@_lake("SQLite, Azure")
def _azure(folder: Path, servers: ExitStack) -> Lake:
    store = servers.enter_context(Azure(folder / "azure"))
    warehouse = f"abfss://{store.bucket(BUCKET)}@{ACCOUNT}.dfs.core.windows.net/lake"
    place = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": warehouse}
    return Lake({"type": "sql", **place, **store.properties()})


@_lake("REST, local files")
def _rest(folder: Path, servers: ExitStack) -> Lake:
    server = servers.enter_context(ReferenceRest(folder / "rest"))
    gate = servers.enter_context(Gate(server.port))
    return Lake({"type": "rest", "uri": f"http://127.0.0.1:{gate.port}"}, gate, b"add-snapshot")


def _rest_on_s3(folder: Path, servers: ExitStack) -> tuple[Aws, ReferenceRest]:
    aws = _aws(folder, servers)
    return aws, servers.enter_context(ReferenceRest(folder / "rest", aws, BUCKET))


@_lake("REST, S3")
def _rest_s3(folder: Path, servers: ExitStack) -> Lake:
    aws, server = _rest_on_s3(folder, servers)
    gate = servers.enter_context(Gate(server.port))
    properties = {"type": "rest", "uri": f"http://127.0.0.1:{gate.port}", **aws.properties()}
    return Lake(properties, gate, b"add-snapshot")


@_lake("Glue, S3")
def _glue(folder: Path, servers: ExitStack) -> Lake:
    aws = _aws(folder, servers)
    proxy = servers.enter_context(HttpProxy(aws.url, GlueLock(aws)))
    gate = servers.enter_context(Gate(proxy.port))
    glue = aws.glue(f"http://127.0.0.1:{gate.port}")
    properties = {**glue, "warehouse": f"s3://{BUCKET}/glue", **aws.properties()}
    return Lake(properties, gate, b"AWSGlue.UpdateTable")


@_lake("Hive, local files")
def _hive(folder: Path, servers: ExitStack) -> Lake:
    server = servers.enter_context(HiveMetastore(folder / "hive"))
    # The spelling that the metastore gives back, whatever it was told. No gate: a connection that ends inside
    # a commit leaves a lock, and this metastore keeps it for longer than a test may take.
    properties = {"type": "hive", "uri": server.uri, "warehouse": server.warehouse}
    return Lake(properties)


@_lake("Nessie, S3")
def _nessie(folder: Path, servers: ExitStack) -> Lake:
    aws = _aws(folder, servers)
    server = servers.enter_context(Nessie(folder / "nessie", aws, BUCKET))
    gate = servers.enter_context(Gate(server.port))
    uri = f"http://127.0.0.1:{gate.port}/iceberg/"
    properties = {"type": "rest", "uri": uri, **aws.properties()}
    return Lake(properties, gate, b"add-snapshot", keeps_history=False)


@_lake("REST signed as for S3 Tables, S3")
def _s3_tables(folder: Path, servers: ExitStack) -> Lake:
    aws, server = _rest_on_s3(folder, servers)
    proxy = servers.enter_context(HttpProxy(server.uri, signed_for("s3tables")))
    gate = servers.enter_context(Gate(proxy.port))
    signing = {
        "rest.sigv4-enabled": "true", "rest.signing-name": "s3tables", "rest.signing-region": REGION,
        "client.access-key-id": KEY, "client.secret-access-key": SECRET, "client.region": REGION,
    }  # fmt: skip
    properties = {"type": "rest", "uri": f"http://127.0.0.1:{gate.port}", **signing, **aws.properties()}
    return Lake(properties, gate, b"add-snapshot")


@_lake("REST with OAuth2, local files")
def _oauth2(folder: Path, servers: ExitStack) -> Lake:
    server = servers.enter_context(ReferenceRest(folder / "rest"))
    tokens, judge = servers.enter_context(TokenServer()), Tokens()
    proxy = servers.enter_context(HttpProxy(server.uri, judge))
    gate = servers.enter_context(Gate(proxy.port))
    properties = {
        "type": "rest",
        "uri": f"http://127.0.0.1:{gate.port}",
        "credential": f"{CLIENT}:{TOKEN_SECRET}",
        "oauth2-server-uri": f"{tokens.url}/token",
    }
    return Lake(properties, gate, b"add-snapshot", judge.expire)


@_lake("REST that vends keys, S3")
def _lent(folder: Path, servers: ExitStack) -> Lake:
    aws, server = _rest_on_s3(folder, servers)
    keys = LentKeys(lambda: storage.url)
    storage = servers.enter_context(HttpProxy(aws.url, keys.judge))
    proxy = servers.enter_context(HttpProxy(server.uri, change=keys.lend))
    gate = servers.enter_context(Gate(proxy.port))
    properties = {"type": "rest", "uri": f"http://127.0.0.1:{gate.port}", "s3.region": REGION}
    return Lake(properties, gate, b"add-snapshot", keys.expire)
