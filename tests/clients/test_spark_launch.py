"""The JVM of a starting session never reports its port."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

from tabletopic_kernel.clients.spark import launch as launching
from tabletopic_kernel.clients.spark.java_errors import text_of
from tests.clients.samples import error_of_an_ended_jvm
from tests.environment import completed


@pytest.mark.integration
def test_a_process_that_ends_while_spark_starts_ends_it(tmp_path: Path) -> None:
    """Otherwise spark-submit misses the file with the properties, and prints its usage."""
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f"""#!/bin/bash
touch {tmp_path}/started
while ls {tmp_path}/spark-start-* >/dev/null 2>&1; do sleep 0.02; done
echo "Usage: spark-submit [options]" >&2
"""
    )
    java.chmod(0o755)
    host = f"""
import threading, time
from pathlib import Path
from tabletopic_kernel.clients.spark.launch import launch
threading.Thread(target=launch, args=({{}}, Path({str(tmp_path)!r})), daemon=True).start()
while not Path({str(tmp_path / "started")!r}).exists():
    time.sleep(0.02)
"""
    ended = completed([sys.executable, "-c", host], env={**os.environ, "JAVA_HOME": str(java.parents[1])})
    assert (ended.returncode, ended.stderr) == (0, "")


def test_an_error_of_a_jvm_that_has_ended_since(tmp_path: Path) -> None:
    """Py4J asks the JVM for the text: that must not take the place of the error, which somebody waits for."""
    error = error_of_an_ended_jvm()
    with pytest.raises(Py4JNetworkError):
        str(error)
    assert "Spark's JVM has ended" in text_of(error)
    told = launching.not_started(error, "local[*]", tmp_path / "spark.log", 0)
    assert "Spark's JVM has ended" in str(told)
