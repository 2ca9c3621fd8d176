"""The Spark session of a process, mostly without Spark."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tabletopic_kernel.clients.spark import session as spark
from tabletopic_kernel.clients.spark.session import SparkPlace, start_spark
from tabletopic_kernel.model.errors import SettingsError
from tabletopic_kernel.model.settings.cluster import SparkSettings
from tests.environment import completed


class Builder:
    """A fake of pyspark's builder: records its arguments, and finds no Spark."""

    def __init__(self) -> None:
        self.conf: dict[str, str] = {}
        self.gateways: list[Any] = []
        self.starts: Callable[[], object] = bool  # as the session would

    def config(self, key: str, value: str) -> Builder:
        """Record one property."""
        self.conf[key] = value
        return self

    def appName(self, name: str) -> Builder:  # noqa: N802 - pyspark's name
        """Like pyspark's."""
        return self.config("spark.app.name", name)

    def master(self, master: str) -> Builder:
        """Like pyspark's."""
        return self.config("spark.master", master)

    def getOrCreate(self) -> SparkSession:  # noqa: N802 - pyspark's name
        """Records which JVM pyspark would use."""
        self.gateways.append(SparkContext._gateway)
        self.starts()
        raise RuntimeError("no Spark here")


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Builder:
    """Install the fake."""
    made = Builder()
    monkeypatch.setattr(SparkSession, "builder", made)
    monkeypatch.setattr(spark, "launch", lambda *_: None)
    monkeypatch.setattr(spark, "accept_calls", lambda *_: None)
    return made


def test_what_the_session_is_told(builder: Builder, tmp_path: Path) -> None:
    """Folders of any name; workers keep their memory unless a person wants otherwise; early failures."""
    folder = tmp_path / 'räum "1" \\ 東京'
    with pytest.raises(SettingsError):
        start_spark(SparkSettings(), SparkPlace("/java", (), folder), {})
    told = str(folder).replace("\\", "\\\\").replace('"', '\\"')
    options = builder.conf["spark.driver.extraJavaOptions"]
    assert options.startswith(f'"-Dlog4j2.configurationFile={told}/spark-log4j2.properties" ')
    written = (folder / "spark-log4j2.properties").read_text("ascii")
    assert 'r\\u00e4um "1" \\\\ \\u6771\\u4eac/spark.log' in written
    purge, trim = (f"spark.executorEnv.{name}" for name in ("MIMALLOC_PURGE_DELAY", "MALLOC_TRIM_THRESHOLD_"))
    with pytest.raises(SettingsError):
        start_spark(SparkSettings(conf={purge: "10"}), SparkPlace("/java", (), tmp_path), {})
    assert builder.conf[purge] == "10"
    assert int(builder.conf[trim]) > 0
    conf = {"spark.pyspark.python": "a\0b"}
    with pytest.raises(SettingsError, match=r"Spark did not start \(embedded null byte\)"):
        start_spark(SparkSettings(conf=conf), SparkPlace("/java", (), tmp_path), {})


@pytest.mark.parametrize(
    ("own", "is_host", "collectors"),
    [
        ("", False, ["-XX:+UseParallelGC"]),
        ("", True, ["-XX:+UseSerialGC"]),
        ("-Xss4m", False, ["-XX:+UseParallelGC"]),
        ("-XX:+UseZGC -XX:+ZGenerational", False, ["-XX:+UseZGC"]),
        ("-XX:+UseZGC -XX:TieredStopAtLevel=4", True, ["-XX:+UseZGC"]),
    ],
)
def test_another_collector_wins(
    builder: Builder, tmp_path: Path, own: str, is_host: bool, collectors: list[str]
) -> None:
    """A JVM that is told of two does not start; of other options it takes the last."""
    conf = {"spark.driver.extraJavaOptions": own} if own else {}
    with pytest.raises(SettingsError):
        start_spark(SparkSettings(conf=conf), SparkPlace("/java", (), tmp_path, is_host), {})
    options = builder.conf["spark.driver.extraJavaOptions"].split()
    assert [option for option in options if option.endswith("GC")] == collectors
    assert options[len(options) - len(own.split()) :] == own.split()


@pytest.mark.parametrize(
    ("wanted", "used"), [("{0}/one,{0}/two", "one"), ("{0}/a,b/spark-local", "a,b/spark-local")]
)
def test_checkpoints_are_in_the_first_of_several_folders(tmp_path: Path, wanted: str, used: str) -> None:
    """Spark takes a list of disks; our own folder may have a comma in its name."""
    (tmp_path / "a,b").mkdir()
    conf = {"spark.local.dir": wanted.format(tmp_path)}
    checkpoint = spark.new_checkpoint(cast(Any, SimpleNamespace(conf=conf)))
    assert checkpoint.parent == tmp_path / used


@pytest.mark.parametrize("is_there", [True, False])
def test_a_session_without_its_folder_is_not_used_again(tmp_path: Path, is_there: bool) -> None:
    """Who removes temporary files removes Spark's, too: then each of its jobs would fail, for ever."""
    folder = tmp_path / "pyspark-1"
    if is_there:
        folder.mkdir()
    jsc = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False))
    context = SimpleNamespace(_gateway=SimpleNamespace(), _jsc=jsc, _temp_dir=str(folder))
    assert spark.is_alive(cast(Any, SimpleNamespace(sparkContext=context))) is is_there


LOGGED = """
import sys
import subprocess
import sys
from pathlib import Path
from tabletopic_kernel.clients.spark.session import SparkPlace, start_spark
from tabletopic_kernel.local.java import jvm
from tabletopic_kernel.model.settings.cluster import SparkSettings

folder = Path(sys.argv[1])
home = str(jvm.spark_java_home(folder, jvm.archive_of("spark").find()))
place = SparkPlace(home, tuple(map(str, jvm.spark_jars())), folder)
session = start_spark(SparkSettings(master="local[1]"), place, {})
log = session.sparkContext._jvm.org.slf4j.LoggerFactory.getLogger("tests")
for line in sys.argv[2:]:
    log.warn(line)
session.stop()
"""


@pytest.mark.integration
def test_the_log_of_spark_has_no_logins(tmp_path: Path) -> None:
    """Whoever quotes them: in URLs, in pairs, in headers. An s is a letter, not a space."""
    lines = [
        "one http://me:glass-s3cret@host/path",
        "two password=ssecret, and s3.secret-access-key=ss/5secret; sasl.password.s=ssecret",
        "three {Authorization=Basic bWU6aHVudGVyMk1hcmtlZA==}",
        "four authorization: bearer eyJ0.secret1.x_y-z",
        "five basic types, and a bearer of news",
    ]
    done = completed([sys.executable, "-c", LOGGED, str(tmp_path), *lines])
    assert done.returncode == 0, done.stderr[-3000:]
    told = [line.partition("tests: ")[2] for line in (tmp_path / "spark.log").read_text().splitlines()]
    assert [line for line in told if line] == [
        "one http://***@host/path",
        "two password=***, and s3.secret-access-key=***; sasl.password.s=***",
        "three {Authorization=Basic ***}",
        "four authorization: bearer ***",
        "five basic types, and a bearer of news",
    ]
