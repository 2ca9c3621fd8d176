"""Jars that only queries need: table topics do without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tabletopic_kernel.clients.spark import session as spark
from tabletopic_kernel.local.java import jvm
from tabletopic_kernel.model.errors import StackError
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.clients import Clients
from tabletopic_kernel.workbench.config.servers import Servers


def test_table_topics_go_on_without_jars_of_queries(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where these cannot be fetched, who queries is told, and a host has its session."""

    def refuse(names: Any, _: Any) -> list[Path]:
        raise StackError(f"no network for {', '.join(names)}")

    monkeypatch.setattr(jvm, "spark_jars", lambda _: [Path("/jars/a.jar")])
    monkeypatch.setattr(jvm, "spark_extras", refuse)
    monkeypatch.setattr(jvm, "spark_archive", lambda: None)
    monkeypatch.setattr(jvm, "spark_java_home", lambda *_: tmp_path)
    monkeypatch.setattr(spark, "start_spark", lambda *_: "session")
    monkeypatch.setattr(spark, "is_alive", lambda _: True)
    clients = Clients(Settings(), Servers({}, {}, {"type": "glue"}, tmp_path))
    assert clients.host_spark() == "session"
    with pytest.raises(StackError, match="no network for aws"):
        clients.spark()
