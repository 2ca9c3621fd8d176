"""What a commit costs on S3: object stores charge for requests."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.clients.catalog.pyiceberg_seams import rest_answers
from tests.catalogs.conftest import LakeRig
from tests.host.rig import made_rig
from tests.servers.aws import Aws
from tests.servers.http_proxy import GlueLock, HttpProxy
from tests.servers.jvm_servers import ReferenceRest
from tests.table.samples import FlakyCatalog, batch

pytestmark = [pytest.mark.integration, pytest.mark.servers]
HOST = [
    "PUT rows",  # by the worker
    "HEAD rows",  # are they there, and whole
    "HEAD list",  # PyArrow asks for a length before it reads
    *("HEAD list", "HEAD manifest", "HEAD rows"),  # has anybody deleted what the commit before wrote
    *("HEAD list", "HEAD manifest"),  # or what this one has written
    "GET list",  # the manifests of the snapshot before
    "PUT manifest",
    "PUT list",
]
_KINDS = {".parquet": "rows", ".metadata.json": "metadata", "-m0.avro": "manifest", ".avro": "list"}


class _Counted(Aws):
    """Storage as seen through a counting proxy."""

    def __init__(self, aws: Aws, proxy: HttpProxy) -> None:
        self.port = proxy.port
        self._aws = aws


def asked(proxy: HttpProxy) -> list[str]:
    """Requests as "PUT rows", in the order of a commit of one file."""
    found = []
    for method, path in proxy.requests:
        (kind, *_) = [name for end, name in _KINDS.items() if re.search(re.escape(end) + "$", path)] or [path]
        found.append(f"{method} {kind}")
    return sorted(found)


@pytest.mark.parametrize("kind", ["SQL", "Glue", "REST"])
def test_requests_of_a_commit_of_one_small_file(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the worker's file to the new metadata: nothing is put in parts, looked for or read twice."""
    with ExitStack() as servers:
        aws = servers.enter_context(Aws(tmp_path))
        aws.bucket("lake")
        storage, of_server = (servers.enter_context(HttpProxy(aws.url)) for _ in range(2))
        own = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"}
        metadata = ["PUT metadata"]
        if kind == "Glue":
            own = aws.glue(servers.enter_context(HttpProxy(aws.url, GlueLock(aws))).url)
        if kind == "REST":  # the server writes it
            rest = ReferenceRest(tmp_path / "rest", _Counted(aws, of_server), "lake")
            own, metadata = {"type": "rest", "uri": servers.enter_context(rest).uri}, []
        # Else PyArrow asks for what is slow a second time.
        patient = {"s3.request-timeout": "60", "s3.connect-timeout": "60"}
        place = {"warehouse": "s3://lake/w", **patient, **aws.properties(storage.url)}
        made = made_rig(open_catalog({"name": "lake", **own, **place}), monkeypatch)
        rig = LakeRig(FlakyCatalog(made.catalog.real), namespace="default")
        coordinator = rig.running(commit_interval_ms="1s")
        rig.committed(coordinator, 0, 3)
        before = rig.table
        for one in (storage, of_server):
            one.requests.clear()
        parsed: list[str] = []
        with monkeypatch.context() as patched:
            # The look of a commit brings what the commit before was answered with.
            patched.setattr(rest_answers.TableResponse, "model_validate_json", parsed.append)
            rig.worker.listener.staged(batch(before, 3, 6))
            rig.after(60_000, coordinator)
        assert not parsed
        assert asked(storage) == sorted(HOST + metadata)
        if kind == "REST":
            assert asked(of_server) == ["GET metadata"] * 3 + ["PUT metadata"]
        assert before.table.metadata_location != rig.table.table.metadata_location
        assert rig.offset() == 6
