"""The archives of classes: made once, used by Spark's and the servers' JVMs, and never in the way."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tabletopic_kernel.local.java import class_archive, jvm
from tabletopic_kernel.local.java.class_archive import ClassArchive
from tabletopic_kernel.local.progress import Step
from tabletopic_kernel.local.state import StackInfo

# Making it takes for ever here.
_MAKER = """
import sys, time
from tabletopic_kernel.local.java import jvm
jvm.make_archives = lambda **_: time.sleep(50)
jvm.main(int(sys.argv[1]))
"""


def _no_java(folder: Path) -> Path:
    program = folder / "java"
    program.write_text("#!/bin/sh\necho no archives here\nexit 1\n")
    program.chmod(0o755)
    return program


def test_where_none_can_be_made_spark_starts_without(tmp_path: Path) -> None:
    """A JDK that cannot is asked once and its reason kept; a closed cache or no jars cost only time."""
    jars = [tmp_path / "jars" / "spark" / "a.jar"]
    jars[0].parent.mkdir(parents=True)
    told: list[Step] = []
    java = _no_java(tmp_path)
    archive = ClassArchive("spark", java, jars)
    assert archive.is_due()
    assert archive.ensure(told.append) is None
    assert [step.state for step in told] == ["started", "failed"]
    assert not archive.is_due()
    assert "no archives here" in Path(told[-1].detail).read_text()
    assert archive.ensure(told.append) is None
    assert len(told) == 2
    assert not list((tmp_path / "jars").glob(".archive-*"))
    assert ClassArchive("spark", java, [tmp_path / "gone" / "spark" / "a.jar"]).ensure(print) is None
    assert ClassArchive("spark", java, []).find() is None
    assert not ClassArchive("spark", java, []).is_due()


def test_an_archive_fits_one_jdk_jars_and_place(tmp_path: Path) -> None:
    """What it was not made of has another; what fits no more, or was begun and killed, goes."""
    java, jars = _no_java(tmp_path), [tmp_path / "jars" / "spark" / "a.jar"]
    jars[0].parent.mkdir(parents=True)
    paths = {ClassArchive("spark", java, each)._path() for each in (jars, [*jars, tmp_path / "b.jar"])}
    paths.add(ClassArchive("kafka", java, jars)._path())
    java.write_text(java.read_text() + "# newer\n")
    archive = ClassArchive("spark", java, jars)
    assert len(paths | {archive._path()}) == 4
    names = ["spark-a-1.jsa", "spark-a-2.jsa", "spark-b-1.jsa", "jdk-a-1.jsa", "jdk-a-2.jsa", "jdk-b-1.jsa"]
    for name in names:
        (tmp_path / name).touch()
    class_archive._remove_older(tmp_path / "spark-a-2.jsa", tmp_path / "jdk-a-2.jsa")
    assert {path.name for path in tmp_path.glob("*.jsa")} == set(names) - {"spark-a-1.jsa", "jdk-a-1.jsa"}
    begun = tmp_path / "jars" / ".archive-killed"
    begun.mkdir()
    archive.ensure(lambda _: None)
    assert not begun.exists()


def test_who_makes_it_ends_with_its_host() -> None:
    """The process that makes it beside a host is gone when the host is, with all that it started."""
    nobody = 2**22 + 1  # no process has this number
    command = [sys.executable, "-c", _MAKER, str(nobody)]
    done = subprocess.run(command, start_new_session=True, capture_output=True, timeout=240, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.integration
def test_sparks_jvm_takes_its_classes_from_the_archive(tmp_path: Path) -> None:
    """With the class path exactly as Spark's own launcher writes it."""
    told: list[Step] = []
    jvm.make_archives(told.append, ["spark"])
    archive = jvm.archive_of("spark").find()
    assert archive is not None, told
    wrapper = jvm.spark_java_home(tmp_path, archive) / "bin" / "java"
    log, why = tmp_path / "classes.log", tmp_path / "cds.log"
    spark = class_archive.spark_home()
    slf4j = next((spark / "jars").glob("slf4j-api-*.jar"))
    path = [*jvm.spark_jars(), "hive-jackson/*", spark / "conf", slf4j, spark / "jars" / "*"]
    words = [
        "-cp", ":".join(map(str, path)), f"-Xlog:class+load:file={log}", f"-Xlog:cds*,class+path:file={why}",
        "org.apache.spark.deploy.SparkSubmit",
    ]  # fmt: skip
    subprocess.run([wrapper, *words, "--version"], capture_output=True, timeout=120, check=True)
    lines = log.read_text().splitlines()
    ours = [line for line in lines if " org.apache.spark." in line or " scala." in line]
    assert ours
    shared = [line for line in ours if "shared objects file (top)" in line]
    assert len(shared) > 0.5 * len(ours), why.read_text()[-5_000:]  # others differ by what the session did


@pytest.mark.integration
def test_the_servers_take_their_classes_from_archives(stack: StackInfo) -> None:
    """Each JVM of the stack has mapped its own, and says nothing about it."""
    for name, pid in stack.pids.items():
        assert f" {jvm.archive_of(name).find()}\n" in Path(f"/proc/{pid}/maps").read_text()
        assert not (stack.state_dir / "logs" / f"{name}.out").read_text()
