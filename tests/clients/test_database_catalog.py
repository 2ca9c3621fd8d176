"""A catalog in a database that is restarted between requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tests.servers.gate import Gate
from tests.servers.postgres import Postgres

pytestmark = [pytest.mark.integration, pytest.mark.servers]


def test_a_connection_that_has_ended_is_replaced(tmp_path: Path) -> None:
    """The next question is answered; a person in a notebook got the end of the old connection for it."""
    with Postgres() as postgres, Gate(postgres.port) as gate:
        uri = postgres.uri(postgres.create_database("lake"), gate.port)
        catalog = open_catalog({"type": "sql", "uri": uri, "warehouse": f"file://{tmp_path}"})
        catalog.create_namespace("default")
        gate.close()
        gate.open()
        assert catalog.list_namespaces() == [("default",)]
        catalog.close()
