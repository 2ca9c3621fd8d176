"""What a commit costs on S3: object stores charge for requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tests.catalogs.conftest import LakeRig
from tests.host.rig import made_rig
from tests.servers.aws import Aws
from tests.servers.http_proxy import HttpProxy
from tests.table.samples import FlakyCatalog

pytestmark = [pytest.mark.integration, pytest.mark.servers]


def test_requests_of_a_commit_of_one_small_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the worker's file to the new metadata: four files are put at once, none in parts."""
    with Aws(tmp_path) as aws, HttpProxy(aws.url) as storage:
        place = {"warehouse": f"s3://{aws.bucket('lake')}/w", **aws.properties(storage.url)}
        properties = {"name": "lake", "type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", **place}
        made = made_rig(open_catalog(properties), monkeypatch)
        rig = LakeRig(FlakyCatalog(made.catalog.real), namespace="default")
        coordinator = rig.running(commit_interval_ms="1s")
        rig.committed(coordinator, 0, 3)
        table = rig.table
        storage.requests.clear()
        rig.committed(coordinator, 3, 6)
        looked = 2  # the test's own look at the table
        assert len(storage.requests) - looked <= 15
        puts = [path for method, path in storage.requests if method == "PUT"]
        assert len(puts) == 4
        assert not [path for path in puts if "partNumber" in path]
        assert table.table.metadata_location != rig.table.table.metadata_location
