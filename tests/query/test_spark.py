"""SQL with Spark, where a session is not needed."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

from tabletopic_kernel.model.errors import ActionNeededError
from tabletopic_kernel.query.spark import SparkLake
from tests.clients.samples import error_of_an_ended_jvm


@pytest.mark.parametrize(
    "error", [Py4JNetworkError("Answer from Java side is empty"), error_of_an_ended_jvm()]
)
def test_a_jvm_that_ends_during_a_query_is_told_in_a_sentence(error: Exception) -> None:
    """As when the machine is short of memory; the next query gets another JVM."""
    session = Mock(sql=Mock(side_effect=error))
    with pytest.raises(ActionNeededError, match=r"Spark failed: (Answer from Java|An error occurred)"):
        SparkLake(session, "lake").query("SELECT 1")
