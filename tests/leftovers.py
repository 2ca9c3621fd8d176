"""What a test must not leave behind: the next one would find it, in another order, on another day.

Threads, processes, files, environment, working folder, log handlers, class attributes of fakes. What a
fixture starts may live as long as the fixture: after a test with module fixtures, threads and processes are
checked when the module ends, and after one with session fixtures, at the very end.
"""

from __future__ import annotations

import gc
import glob
import logging
import operator
import os
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyiceberg.utils.concurrent import ExecutorFactory

_ROOT = Path(__file__).parents[1]
# Under load a thread that was told to end needs a moment.
_GRACE_S = 20.0
# In the environment of every process that the tests start, also of those that outlive their parents.
_MARK_VARIABLE = "RUN_OF_TESTS"
_MARK = uuid.uuid4().hex
# Threads and pools that a library or this program keeps for the process, and those of the test runner.
_PROCESS_WIDE_THREADS = (
    "idle brokers",  # ends with the last client of a broker
    "projection",  # runs a process's statements
    "replay_",  # the pool of the dashboard's buttons
    "asyncio_",  # the default executor of the thread's loop
    "execnet",
    "Dummy-",  # a thread of a client library, seen while it called Python
    "pytest_timeout",
    "tqdm_monitor",
)
_PROCESS_WIDE_PROGRAMS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
# Folders that tools keep, not tests.
_CACHES = {".pytest_cache", ".hypothesis", "__pycache__", ".mypy_cache", ".ruff_cache"}
_SESSION = 2
_WIDTH = {"function": 0, "class": 0, "module": 1, "package": _SESSION, "session": _SESSION}
# They start nothing.
_STATELESS = {
    "tmp_path_factory", "pytestconfig", "class_archive", "worker_id", "testrun_uid",
    "record_testsuite_property", "temporary_files_of_the_run", "catalogs_do_not_wait_for_the_disk",
    "commands_are_built_once", "extensions_are_verified_once", "nothing_stays", "nothing_stays_of_a_module",
    "nothing_stays_of_a_test",
}  # fmt: skip


# -- what there is


def _threads() -> set[threading.Thread]:
    pool: Any = ExecutorFactory._instance  # PyIceberg has one for the process
    ours = {threading.current_thread(), *getattr(pool, "_threads", ())}
    return {
        one
        for one in threading.enumerate()
        if one not in ours and not one.name.startswith(_PROCESS_WIDE_THREADS)
    }


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _children() -> set[psutil.Process]:
    if not _has_children():
        return set()
    return {descendant for descendant in _descendants(os.getpid()) if _is_worth_telling(descendant)}


def _descendants(pid: int) -> list[psutil.Process]:
    """Descendant processes.

    Linux lists a process's children. psutil would read all processes of the machine: milliseconds, twice per
    test, from the first test that started a permanent helper, such as multiprocessing's resource tracker.
    """
    if not os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children"):
        return psutil.Process(pid).children(recursive=True)
    pids, found = [], []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        with suppress(OSError):  # the thread has just ended
            pids += map(int, Path(path).read_text().split())
    for child in pids:
        with suppress(psutil.NoSuchProcess):
            found += [psutil.Process(child), *_descendants(child)]
    return found


def _marked() -> set[psutil.Process]:
    """Every process of this run, whoever its parent is by now."""
    found = set()
    for one in psutil.process_iter():
        try:
            if one.pid != os.getpid() and one.environ().get(_MARK_VARIABLE) == _MARK:
                found.add(one)
        except psutil.Error:
            continue
    return {one for one in found if _is_worth_telling(one)}


def _is_worth_telling(process: psutil.Process) -> bool:
    try:
        command = " ".join(process.cmdline())
        return process.status() != psutil.STATUS_ZOMBIE and not any(
            program in command for program in _PROCESS_WIDE_PROGRAMS
        )
    except psutil.Error:
        return False


def _told(found: str | threading.Thread | psutil.Process) -> str:
    if isinstance(found, str):
        return found
    if isinstance(found, threading.Thread):
        frame = sys._current_frames().get(found.ident or 0)
        where = f" at {frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""
        return f"thread {found.name!r}{where}"
    try:
        return f"process {found.pid}: {' '.join(found.cmdline())[:300]}"
    except psutil.Error:
        return f"process {found.pid}"


def _live(look: Callable[[], set[Any]], before: set[Any]) -> list[str]:
    """What exists in addition to ``before``, after some time to end."""
    began = time.monotonic()
    waited_s, collected = 0.0, False
    while left := look() - before:
        if waited_s > _GRACE_S:
            return sorted(map(_told, left))
        if waited_s > 1 and not collected:
            gc.collect()  # an executor without an owner ends its threads
            collected = True
        # Before the pause: the last look comes after what was frozen with us.
        waited_s = time.monotonic() - began
        time.sleep(0.01)
    return []


def _temporary() -> set[str]:
    return {f"file {entry.path}" for entry in os.scandir(tempfile.gettempdir())}


def _files() -> set[str]:
    """Entries in the folders to which a careless program writes."""
    folders = {_ROOT, _ROOT / "tests", Path.cwd()}
    return {
        f"file {entry.path}"
        for folder in folders
        for entry in os.scandir(folder)
        if entry.name not in _CACHES
    }


def _untracked() -> set[str]:
    """Files of the checkout that git does not track, including ignored ones."""
    command = ["git", "status", "--porcelain", "--ignored", "--untracked-files=normal"]
    try:
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):  # no checkout
        return set()
    paths = {line[3:] for line in done.stdout.splitlines() if line[:2] in ("??", "!!")}
    return {path for path in paths if not _CACHES & set(Path(path.strip('"')).parts)}


def _state() -> dict[str, Any]:
    """What a process has one of."""
    variables = {
        f"variable {name}": value
        for name, value in os.environ.items()
        # With an underscore: notes that libraries leave when they are imported.
        if name != "PYTEST_CURRENT_TEST" and not name.startswith("_")
    }
    handlers = {
        f"log handlers of {name or 'root'}": list(logging.getLogger(name).handlers)
        for name in ("", "tabletopic_kernel")
    }
    # pytest has its own there while a test runs.
    handlers = {
        name: [one for one in found if not type(one).__module__.startswith("_pytest")]
        for name, found in handlers.items()
    }
    return {**variables, **handlers, "working folder": os.getcwd()}


@dataclass(frozen=True)
class _Attributes:
    """Class attributes of the test modules' own classes: fakes are classes.

    Checked before and after each test, so it must cost almost nothing: classes, and those of their attributes
    that may change in place, are searched only when there are new modules.
    """

    classes: list[type]
    containers: list[tuple[type, str]]

    def now(self) -> tuple[list[dict[str, Any]], list[Any]]:
        """All values by class, and the containers' contents."""
        values = [dict(vars(class_)) for class_ in self.classes]
        return values, [_frozen(vars(one).get(name)) for one, name in self.containers]

    def changed(self, before: tuple[list[dict[str, Any]], list[Any]]) -> list[str]:
        """What has changed."""
        values, contents = before
        found = []
        for one, old in zip(self.classes, values, strict=True):
            new = vars(one)
            if len(old) != len(new) or not all(map(operator.is_, old.values(), new.values())):
                frozen = [
                    {f"{_name_of(one, name)}": _frozen(value) for name, value in of.items() if _is_own(name)}
                    for of in (old, new)
                ]
                found += _changed(*frozen)
        for (one, name), content in zip(self.containers, contents, strict=True):
            found += _changed(
                {_name_of(one, name): content}, {_name_of(one, name): _frozen(vars(one).get(name))}
            )
        return found


def _name_of(kind: type, attribute: str) -> str:
    return f"{kind.__module__}.{kind.__qualname__}.{attribute}"


_KNOWN: dict[int, _Attributes] = {}


def _attributes() -> _Attributes:
    """The classes that there are now."""
    if len(sys.modules) not in _KNOWN:
        _KNOWN.clear()
        classes = [
            one
            for name, module in list(sys.modules.items())
            if name.startswith("tests.")
            for one in list(vars(module).values())  # a thread may import meanwhile
            if isinstance(one, type) and one.__module__ == name
        ]
        containers = [
            (class_, name)
            for class_ in classes
            for name, value in vars(class_).items()
            if _is_own(name) and isinstance(value, _CONTAINERS)
        ]
        _KNOWN[len(sys.modules)] = _Attributes(classes, containers)
    return _KNOWN[len(sys.modules)]


def _is_own(name: str) -> bool:
    """Whether an attribute was set by a test, not by Python."""
    return not (name.startswith("__") or name.startswith("_abc_"))


_CONTAINERS = (threading.Event, list, dict, set)


def _frozen(value: Any) -> Any:
    """A value that differs when the object has changed: a fake may collect its calls in a list."""
    if isinstance(value, threading.Event):
        return (id(value), value.is_set())
    if isinstance(value, list | dict | set):
        return (id(value), repr(value))
    return id(value)


def _changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    absent = object()
    names = before.keys() | after.keys()
    return [
        f"{name}: {before.get(name, 'nothing')!s:.200} is now {after.get(name, 'nothing')!s:.200}"
        for name in sorted(names)
        if before.get(name, absent) != after.get(name, absent)
    ]


# -- when it is looked at


def _width(item: pytest.Item) -> int:
    """0 if everything that the test uses ends with it, 1 with its module, 2 with a package or the session."""
    info = getattr(item, "_fixtureinfo", None)
    if info is None:
        return 0
    scopes = [
        definitions[-1].scope for name, definitions in info.name2fixturedefs.items() if name not in _STATELESS
    ]
    return max((_WIDTH[scope] for scope in scopes), default=0)


def _has_servers(items: list[pytest.Item]) -> bool:
    """Tests with servers share them, including Spark's threads: they are not checked here."""
    return any(item.get_closest_marker("integration") for item in items)


def _check(left: list[str], whose: str) -> None:
    if left:
        pytest.fail(f"{whose} left behind: " + "; ".join(left), pytrace=False)


@pytest.fixture(scope="session", autouse=True)
def temporary_files_of_the_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A folder for ``tempfile`` in this process alone: what stays there was left by a test."""
    folder = tmp_path_factory.mktemp("t")
    patch = pytest.MonkeyPatch()
    patch.setenv("TMPDIR", str(folder))
    patch.setenv(_MARK_VARIABLE, _MARK)
    patch.setattr(tempfile, "tempdir", None)
    yield
    patch.undo()


@dataclass(frozen=True)
class _Running:
    """What may live as long as the fixture that made it."""

    threads: set[threading.Thread]
    children: set[psutil.Process]
    temporary: set[str]

    @classmethod
    def now(cls) -> _Running:
        return cls(_threads(), _children(), _temporary())

    def left(self) -> list[str]:
        """What exists in addition, after some time to end."""
        return [
            *_live(_threads, self.threads),
            *_live(_children, self.children),
            *_live(_temporary, self.temporary),
        ]


@pytest.fixture(scope="session", autouse=True)
def nothing_stays(temporary_files_of_the_run: None, request: pytest.FixtureRequest) -> Iterator[None]:
    """At the very end no thread, no process, whoever its parent is now, and no file is left."""
    before, untracked = _Running.now(), _untracked()
    yield
    if _has_servers(request.session.items):
        return
    left = before.left() + _live(_marked, set())
    _check([*left, *(f"file {path}" for path in sorted(_untracked() - untracked))], "the run")


@pytest.fixture(scope="module", autouse=True)
def nothing_stays_of_a_module(nothing_stays: None, request: pytest.FixtureRequest) -> Iterator[None]:
    """Fixtures of a module end what they started."""
    before = _Running.now()
    yield
    prefix = f"{request.node.nodeid}::"
    items = [one for one in request.session.items if one.nodeid.startswith(prefix)]
    if all(_width(one) < _SESSION for one in items) and not _has_servers(items):
        _check(before.left(), "the module")


@pytest.fixture(autouse=True)
def nothing_stays_of_a_test(
    nothing_stays_of_a_module: None, request: pytest.FixtureRequest
) -> Iterator[None]:
    """A test ends what it started, and puts back what it changed."""
    if _has_servers([request.node]):
        yield
        return
    before = _Running.now() if _width(request.node) == 0 else None
    files, state, attributes = _files(), _state(), _attributes()
    values = attributes.now()
    yield
    left = [*(before.left() if before else []), *sorted(_files() - files)]
    _check([*left, *_changed(state, _state()), *attributes.changed(values)], "the test")
