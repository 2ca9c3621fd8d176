"""The walkthrough at AWS, on stand-ins for AWS's servers: only settings differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabletopic_kernel.local.stack import StackInfo
from tabletopic_kernel.model.settings.names import variable_name
from tests.athena.athena_server import Athena, answered_by
from tests.athena.trino import Trino
from tests.catalogs.lakes import LAKES
from tests.servers.aws import REGION
from tests.test_notebooks import AT_AWS, check_outputs, executed

pytestmark = [pytest.mark.integration, pytest.mark.servers]

BUCKET = f"arn:aws:s3tables:{REGION}:111122223333:bucket/walkthrough"


def test_the_notebook_runs_from_top_to_bottom(quiet_stack: StackInfo, trino: Trino, tmp_path: Path) -> None:
    """Topic, table bucket, Athena: each statement is Athena's, answered by its engine."""
    with LAKES["REST signed as for S3 Tables, S3"](tmp_path / "lake") as lake:
        properties = lake.properties | {"warehouse": BUCKET}
        trino.add_catalog("s3tablescatalog/walkthrough", properties)
        with Athena(properties["s3.endpoint"], answered_by(trino)) as athena:
            settings = {
                f"TABLETOPIC_{variable_name('catalog', key)}": value for key, value in properties.items()
            }
            settings |= {
                "TABLETOPIC_ATHENA__OUTPUT_LOCATION": "s3://lake/results/",
                "AWS_ENDPOINT_URL_ATHENA": athena.url,
            }
            notebook = executed(AT_AWS, quiet_stack, settings)
    check_outputs(notebook)
    asked = [cell for cell in notebook.cells if cell.source.startswith("%%lake --engine athena")]
    assert [one.state for one in athena.executions.values()] == ["SUCCEEDED"] * len(asked)
    shown = str([cell.outputs for cell in asked])
    assert shown.count("scanned ") >= len(asked)
