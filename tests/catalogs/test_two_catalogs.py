"""Catalogs of different kinds, in stores with different addresses and keys, in one query."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tests.environment import completed
from tests.servers.aws import Aws
from tests.servers.http_proxy import Answer, HttpProxy, Request
from tests.servers.jvm_servers import ReferenceRest

pytestmark = [pytest.mark.integration, pytest.mark.servers]
Section = dict[str, str]


def only_for(key: str) -> Callable[[Request], Answer | None]:
    """A gatekeeper before a store, which denies other keys than its own."""

    def judge(request: Request) -> Answer | None:
        if request.key == key:
            return None
        return Answer(403, b"<Error><Code>InvalidAccessKeyId</Code><Message>whose?</Message></Error>")

    return judge


def store(servers: ExitStack, folder: Path, key: str, *buckets: str) -> tuple[Aws, Section]:
    """A separate object store, and its [catalog] properties."""
    aws = servers.enter_context(Aws(folder))
    for name in buckets:
        aws.bucket(name)
    proxy = servers.enter_context(HttpProxy(aws.url, only_for(key)))
    return aws, {**aws.properties(proxy.url), "s3.access-key-id": key}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A tabletopic.toml with three catalogs: SQLite on a disk, SQLite on one S3, REST on another."""
    folder = tmp_path_factory.mktemp("two")
    with ExitStack() as servers:
        _, ours = store(servers, folder / "ours", "our-key", "ours", "our-files")
        aws, theirs = store(servers, folder / "theirs", "their-key", "theirs", "their-files")
        rest = servers.enter_context(ReferenceRest(folder / "rest", aws, "theirs"))
        disk = {"type": "sql", "uri": f"sqlite:///{folder}/d.db", "warehouse": f"file://{folder}/w"}
        sql = {"type": "sql", "uri": f"sqlite:///{folder}/s.db", "warehouse": "s3://ours/w", **ours}
        sections = {
            "catalog": disk,
            "catalogs.ours": sql,
            "catalogs.theirs": {"type": "rest", "uri": rest.uri, **theirs},
        }
        fill("lake", disk, 1, None)
        fill("ours", sql, 2, "s3://our-files/elsewhere")
        fill("theirs", sections["catalogs.theirs"], 3, "s3://their-files/elsewhere")
        path = folder / "tabletopic.toml"
        path.write_text(toml(folder, sections))
        yield path


def toml(folder: Path, sections: dict[str, Section]) -> str:
    """The file; broker and registry are not contacted."""
    lines = [f'state_dir = "{folder}/state"', '[kafka]\n"bootstrap.servers" = "127.0.0.1:1"']
    lines += ['[registry]\nurl = "http://127.0.0.1:1"']
    for name, section in sections.items():
        lines += [f"[{name}]", *(f'"{key}" = {json.dumps(text)}' for key, text in section.items())]
    return "\n".join(lines) + "\n"


def fill(name: str, section: Section, rows: int, data_path: str | None) -> None:
    """``web.clicks`` with this many rows; ``data_path``: where its files are, if not below the table."""
    catalog = open_catalog({"name": name, **section})
    catalog.create_namespace("web")
    content = pa.table({"id": list(range(rows))})
    properties = {"write.data.path": data_path} if data_path else {}
    catalog.create_table("web.clicks", content.schema, properties=properties).append(content)


def ask(config: Path, engine: str, sql: str) -> str:
    """The output of `tabletopic query`."""
    done = completed(
        [sys.executable, "-m", "tabletopic_kernel.faces.cli", "query", "--engine", engine, "--json", sql],
        cwd=config.parent,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_one_query_reads_three_catalogs(config: Path, engine: str) -> None:
    """A disk and two stores of S3 with other keys; files that lie in further buckets, too."""
    sql = (
        "SELECT count(a.id) AS disk, count(b.id) AS ours, count(*) AS theirs FROM theirs.web.clicks c "
        "LEFT JOIN ours.web.clicks b ON b.id = c.id LEFT JOIN web.clicks a ON a.id = c.id"
    )
    assert json.loads(ask(config, engine, sql)) == [{"disk": 1, "ours": 2, "theirs": 3}]
