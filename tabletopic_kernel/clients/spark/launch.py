"""Passes properties to Spark's JVM through files that only their owner can read.

pyspark puts each property on the JVM's command line, which every user of the machine can read. So the JVM is
started without any, and reads them from a file, which is then removed. ``session`` chooses the properties.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shlex
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pyspark
from pyspark import SparkContext

from tabletopic_kernel.clients.spark.java_errors import text_of
from tabletopic_kernel.model.errors import RetryableError, SettingsError, TableTopicError
from tabletopic_kernel.model.redact import mask

_NO_SECRET = "A secret key must be specified"
# In Spark's log, when a cluster manager ends an application.
_ENDED = re.compile(r"Application has been killed\. Reason: (.+)")

# A starting JVM uses the CPU. One that has used no more than this in this time hangs for good.
_STILL_S, _STILL_CPU_S = 30.0, 0.05
_LOOK_EVERY_S = 0.5

_OPTIONS = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")


def launch(conf: Mapping[str, str], folder: Path) -> None:
    """Start pyspark's JVM with these properties, unless this process has one; RetryableError if it hangs.

    The JVM reads them from files in ``folder``, only for their owner. pyspark's errors pass through.
    """
    if SparkContext._gateway is not None:
        return
    with tempfile.TemporaryDirectory(prefix="spark-start-", dir=folder) as private:
        file = Path(private) / "spark.properties"
        safe = _without_secret_options(conf, Path(private) / "jvm.options")
        file.write_text("".join(f"{_escaped(key)}={_escaped(text)}\n" for key, text in safe.items()), "ascii")
        own = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
        # With a properties file, Spark skips spark-defaults.conf unless told to load it.
        options = f"--properties-file {shlex.quote(str(file))} --load-spark-defaults"
        with environment(PYSPARK_SUBMIT_ARGS=f"{options} {own}"), _watched(str(file)):
            SparkContext._ensure_initialized()


@contextlib.contextmanager
def _watched(argument: str) -> Iterator[None]:
    """Kill the JVM with this argument if it makes no progress before pyspark connects.

    On a full disk, a JVM that cannot write its port file does not exit, and pyspark waits for the file
    forever. Once the JVM is killed, pyspark raises.
    """
    reached, ended = threading.Event(), threading.Event()

    def starting() -> list[psutil.Process]:
        return [p for p in psutil.Process().children(recursive=True) if argument in _arguments(p)]

    def kill() -> None:
        for process in starting():
            with contextlib.suppress(psutil.Error):
                process.kill()

    def watch() -> None:
        spent_s, since = 0.0, time.monotonic()
        while not reached.wait(_LOOK_EVERY_S):
            processes = starting()
            now_s = sum(map(_cpu_s, processes))
            if abs(now_s - spent_s) > _STILL_CPU_S:
                spent_s, since = now_s, time.monotonic()
            elif processes and time.monotonic() - since > _STILL_S:
                ended.set()
                kill()

    # If this process ends now, the file with the properties goes, and spark-submit would print its usage.
    atexit.register(kill)
    watcher = threading.Thread(target=watch, name="spark start watch", daemon=True)
    watcher.start()
    try:
        yield
    except Exception as error:
        if not ended.is_set():
            raise
        raise RetryableError(
            f"Spark's JVM made no progress for {_STILL_S:.0f} s at startup and was stopped; is there disk "
            f"space at {tempfile.gettempdir()}?"
        ) from error
    finally:
        atexit.unregister(kill)
        reached.set()
        watcher.join()


def _arguments(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _cpu_s(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def not_started(error: Exception, master: str, log: Path, log_bytes: int) -> TableTopicError:
    """Why Spark did not start, from the part of its log after the first ``log_bytes``."""
    if isinstance(error, TableTopicError):
        return error
    message = text_of(error)
    if _NO_SECRET in message:
        return SettingsError(
            f"Spark's cluster {master} has no secret, so its network could read the storage's keys. Set "
            '"spark.authenticate" = "true" and a "spark.authenticate.secret" on its master and workers, and '
            'the secret in [spark.conf]. If its network is private, "spark.authenticate" = "false" there is '
            "enough"
        )
    if "stopped SparkContext" not in message:
        lines = [
            line for line in message.splitlines() if not line.startswith("An error occurred while calling")
        ]
        why = next((line.removeprefix(": ").strip() for line in lines if line.strip(": ")), message)
        return SettingsError(f"Spark did not start ({why}); see {log}")
    new = log.read_bytes()[log_bytes:].decode("utf-8", "replace") if log.exists() else ""
    reasons = _ENDED.findall(new)
    why = f" ({reasons[-1].strip()})" if reasons else ""
    return RetryableError(
        f"Spark's cluster {master} does not respond, or has ended this application{why}. Check that its "
        f"master runs, has Spark {pyspark.__version__} and the spark.authenticate.secret of this host, and "
        f"can start executors; see {log}"
    )


def _without_secret_options(conf: Mapping[str, str], file: Path) -> dict[str, str]:
    """The properties, with JVM options that contain secrets moved to ``file``, off the command line."""
    safe, hidden = dict(conf), list[str]()
    for key in _OPTIONS:
        if mask(text := conf.get(key, "")) == text:
            continue
        words = shlex.split(text)
        hidden += [word for word in words if mask(word) != word]
        safe[key] = " ".join(java_option(word) for word in words if mask(word) == word)
        safe[key] += f" {java_option(f'-XX:VMOptionsFile={file}')}"
    if hidden:
        file.write_text("\n".join(map(_vm_option, hidden)), "utf-8")
    return safe


def java_option(option: str) -> str:
    """An option in the form that Spark accepts among others in one text, where a space would end it.

    >>> print(java_option('-Dx=/my folder/"y"'))
    "-Dx=/my folder/\\"y\\""
    """
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _vm_option(option: str) -> str:
    """An option in the form that the JVM reads from a file: no escapes, but either kind of quotes."""
    return '"\'"'.join(f"'{part}'" for part in option.split("'"))


def java_escaped(text: str) -> str:
    """Text as the value of a Java property in a file."""
    utf16 = text.replace("\\", "\\\\").encode("utf-16-be")
    units = (int.from_bytes(utf16[start : start + 2]) for start in range(0, len(utf16), 2))
    return "".join(chr(unit) if unit < 128 else f"\\u{unit:04x}" for unit in units)


def _escaped(text: str) -> str:
    """Like ``java_escaped``, also for keys and for leading spaces."""
    escaped = java_escaped(text)
    for plain, escape in (("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"), ("\f", "\\f"), (" ", "\\ ")):
        escaped = escaped.replace(plain, escape)
    for mark in "=:#!":
        escaped = escaped.replace(mark, f"\\{mark}")
    return escaped


@contextlib.contextmanager
def environment(**values: str) -> Iterator[None]:
    """Set variables while a child process is started, then restore the old ones."""
    before = {name: os.environ.get(name) for name in values}
    try:
        os.environ.update(values)
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
