"""Archives of programs' classes (the JDK's "class data sharing"), which halve the work of JVM startup.

There is one for Spark, one for the broker and one for the registry. Each is made once, in the background
(``jvm.make_later``), by a program that does a little of everything and, on exit, archives the classes it has
loaded. It lies beside the jars and fits one JDK and one class path; the JVM checks that itself, and starts
without the archive if it does not fit.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tabletopic_kernel.local.machine import file_lock
from tabletopic_kernel.local.processes import environment
from tabletopic_kernel.local.progress import Report, Step
from tabletopic_kernel.model.errors import StackError

_STEP = "class archive"
_WORK = ".archive-"
_NEW = "classes.jsa"
# Built at the lowest priority, with spare processor time.
_LIMIT_S = 1_200.0


@dataclass(frozen=True)
class ClassArchive:
    """The archive of ``program`` for a JDK, jars of ours and ``folders`` of others' jars, made or not."""

    program: str  # a configuration of the jars
    java: Path
    jars: Sequence[Path]
    folders: Sequence[Path] = ()

    def find(self) -> Path | None:
        """Its path; None if it does not exist yet, or cannot be made."""
        path = self._path()
        return path if path and path.exists() and path.stat().st_size else None

    def is_due(self) -> bool:
        """Whether making it has not been attempted yet."""
        path = self._path()
        return path is not None and not path.exists()

    def ensure(self, report: Report) -> Path | None:
        """Its path, made on first use (10 to 20 s); None: the program starts slower."""
        if (path := self._path()) is not None and not path.exists():
            try:
                with file_lock(path.with_name("archive.lock"), lambda: report(Step(_STEP, "started"))):
                    if not path.exists():
                        self._make(path, report)
            # Another user's cache, a full disk, a lock that is never released, an overloaded machine.
            except (OSError, StackError, subprocess.TimeoutExpired):
                return None
        return self.find()

    def _path(self) -> Path | None:
        """Where it lies, beside the jars; None without jars."""
        return self._beside(self.program, self.folders, self.jars) if self.jars else None

    def _beside(self, name: str, folders: Sequence[Path] = (), jars: Sequence[Path] = ()) -> Path:
        """Named for where it is used, and for what it was made of: what is installed there, our jars."""
        installed = [path.stat().st_mtime_ns for path in (self.java, *folders)]
        place, content = (
            hashlib.sha256("\n".join(map(str, words)).encode()).hexdigest()[:12]
            for words in ((self.java, *folders), (*installed, *jars))
        )
        return self.jars[0].parent.parent / f"{name}-{place}-{content}.jsa"

    def _make(self, path: Path, report: Report) -> None:
        """Make it; an empty file if that fails, so that it is not attempted at every start."""
        began = time.monotonic()
        report(Step(_STEP, "started", detail=f"once, for faster startup of {self.program}"))
        for leftover in path.parent.glob(f"{_WORK}*"):  # left by a killed process; we hold the lock
            shutil.rmtree(leftover, ignore_errors=True)
        work = Path(tempfile.mkdtemp(prefix=_WORK, dir=path.parent))
        try:
            if not self._train(work, base := self._beside("jdk")):
                shutil.copyfile(work / "log", path.with_suffix(".log"))
                path.touch()
                report(Step(_STEP, "failed", time.monotonic() - began, str(path.with_suffix(".log"))))
                return
            (work / _NEW).rename(path)
            _remove_older(path, base)
            report(Step(_STEP, "done", time.monotonic() - began, str(path)))
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _train(self, work: Path, base: Path) -> bool:
        """Whether the program wrote its archive into ``work``, on top of the JDK's ``base``, made first."""
        module = "tabletopic_kernel.local.java.class_training"
        training = (sys.executable, "-P", "-m", module, self.program, work, base, work / _NEW)
        with (work / "log").open("wb") as log:
            if not base.exists():
                fresh = work / base.name
                if not _run([self.java, "-Xshare:dump", f"-XX:SharedArchiveFile={fresh}"], log):
                    return False
                fresh.rename(base)
            return _run(training, log) and (work / _NEW).exists()


def options(archive: Path | None) -> list[str]:
    """The JVM options to use an archive, if any, without a warning if it does not fit.

    A damaged one would crash the JVM, so that adds up its checksums, in less than 0.1 s.
    """
    if archive is None:
        return []
    return [
        f"-XX:SharedArchiveFile={archive}",
        "-XX:+VerifySharedSpaces",
        "-Xlog:cds=off",
        "-Xlog:cds+dynamic=off",
    ]


def spark_home() -> Path:
    """The folder of the installed pyspark, found without importing it."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise StackError("pyspark is not installed: pip install pyspark")
    return Path(spec.origin).parent


def _remove_older(archive: Path, base: Path) -> None:
    """Remove older archives of the same place, 170 MB each; a JVM that uses one keeps it open."""
    for newest in (archive, base):
        kind, place, _ = newest.stem.split("-")
        for older in newest.parent.glob(f"{kind}-{place}-*.jsa"):
            if older != newest:
                older.unlink(missing_ok=True)


def _run(command: Sequence[str | Path], log: object) -> bool:
    own = {
        key: value
        for key, value in environment().items()
        if key not in ("SPARK_CONF_DIR", "JAVA_TOOL_OPTIONS")
    }
    # In our own process group: killing `jvm` kills everything.
    done = subprocess.run(
        list(map(str, command)),
        env=own,
        stdin=subprocess.DEVNULL,
        stdout=log,  # type: ignore[call-overload]
        stderr=subprocess.STDOUT,
        timeout=_LIMIT_S,
        check=False,
    )
    return bool(done.returncode == os.EX_OK)
