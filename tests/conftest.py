"""Fixtures for all tests."""

import os
import random
import signal
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from tabletopic_kernel.local.java import jvm
from tabletopic_kernel.local.stack import LocalStack, StackInfo
from tabletopic_kernel.model import redact

# Fixtures and hooks for every test: importing them is what puts them to work.
from tests import server_logs, skips
from tests.environment import without_settings
from tests.leftovers import (  # noqa: F401
    nothing_stays,
    nothing_stays_of_a_module,
    nothing_stays_of_a_test,
    temporary_files_of_the_run,
)
from tests.savings import (  # noqa: F401
    catalogs_do_not_wait_for_the_disk,
    commands_are_built_once,
    extensions_are_verified_once,
    pytest_collection_finish,
)
from tests.skips import pytest_make_collect_report, pytest_runtest_makereport  # noqa: F401

# In this process, too: a developer's own settings may name servers that are not for tests.
for _setting in os.environ.keys() - without_settings().keys() - {"TABLETOPIC_FUZZ"}:
    del os.environ[_setting]

# How long an example takes says more of the machine than of the code. A run says the same of the same code:
# new examples are for those who look for faults, `--hypothesis-profile=explore`.
# Examples that a property gives up are not among these: a property that mostly does fails.
_OF_THE_MACHINE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
settings.register_profile(
    "tabletopic",
    deadline=None,
    suppress_health_check=_OF_THE_MACHINE,
    derandomize="TABLETOPIC_FUZZ" not in os.environ,
)
settings.register_profile("explore", settings.get_profile("tabletopic"), derandomize=False)
settings.load_profile("tabletopic")

# A shell ignores Ctrl-C for what it starts in the background, and children inherit that: the tests of
# Ctrl-C would wait for ever there.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Tests with servers run in two processes, each with servers of its own. More would not end sooner: starting
# servers takes the processors. What shares servers, a host or a browser stays together, and the longest is
# begun first, so that both processes end at about the same time.
_LONGEST_FIRST = (
    "recovery", "integration", "clients", "cluster", "browser", "local", "drill", "notebooks", "demo", "cli",
    "jupyter_server",
)  # fmt: skip
_WITH_OTHERS = {
    # Kernels become hosts: they share the servers where nobody else is one.
    "notebook/test_kernel.py": "notebooks",
    "test_notebooks.py": "notebooks",
    "live_dashboard/test_live.py": "browser",
    "recovery/test_cluster.py": "cluster",
    "recovery/test_other_disks.py": "cluster",
    "clients/test_cluster_probe.py": "cluster",
    # A host in this process: one Spark serves all of them.
    "clients/test_secured_kafka.py": "integration",
    "recovery/test_reused_ids.py": "integration",
}
_WITH_NOBODY = ("test_named_steps.py", "test_old_state.py")
# Most need a minute, and ten times that where the machine is busy with other things.
_WITH_SERVERS_S = 900


def _share(nodeid: str) -> str:
    """The group of a test: a folder of ``tests/``, or the servers it shares with other folders."""
    _, _, below = nodeid.partition("tests/")
    path = below.partition("::")[0].removeprefix("faces/").split("/")
    if path[0] == "simulation" or path[-1] in _WITH_NOBODY:  # fills up whichever process has time
        return nodeid
    return _WITH_OTHERS.get("/".join(path[-2:]), path[0])


class _ByShare(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return _share(nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Do not collect doctests here: they are in the package, and looking takes seconds."""
    found = yield
    return [one for one in found if not isinstance(one, DoctestModule)]


def pytest_itemcollected(item: pytest.Item) -> None:
    """What is true of tests with servers is true of the stories; before ``-m`` chooses."""
    if item.get_closest_marker("story"):
        item.add_marker("integration")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling | None:
    """Group by ``--dist loadscope``; quick tests are distributed one by one."""
    return _ByShare(config, log) if config.getvalue("dist") == "loadscope" else None  # type: ignore[arg-type]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Make the quick tests' order reproducible."""
    parser.addoption("--order", type=int, help="seed of the quick tests' order; 0: as in the files")
    parser.addoption(
        "--changes", type=int, default=1_200, help="how many tests/database/test_upsert.py makes"
    )
    skips.pytest_addoption(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Let all processes of a run use one order: the first chooses it."""
    config.pluginmanager.register(server_logs)
    given = getattr(config, "workerinput", {}).get("order")
    if config.option.order is None:
        config.option.order = given if given is not None else random.SystemRandom().randrange(1, 10_000)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass the order to an xdist process."""
    node.workerinput["order"] = node.config.option.order


def pytest_report_header(config: pytest.Config) -> str:
    """Print how to run them in this order again."""
    return f"quick tests are shuffled; the same order: --order={config.option.order}"


def _shuffle(items: list[pytest.Item], seed: int) -> None:
    """Shuffle the quick tests, so that none relies on another; those of a module stay together."""
    modules: dict[str, list[pytest.Item]] = {}
    for item in items:
        modules.setdefault(item.nodeid.partition("::")[0], []).append(item)
    groups, chance = list(modules.values()), random.Random(seed)
    chance.shuffle(groups)
    for group in groups:
        chance.shuffle(group)
    items[:] = [item for group in groups for item in group]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort by the order of distribution; with longer timeouts if servers are slow."""
    quick = [item for item in items if not item.get_closest_marker("integration")]
    if config.option.order:
        _shuffle(quick, config.option.order)
    # Tests with servers tell stories: those stay in their order.
    items[:] = [*(item for item in items if item.get_closest_marker("integration")), *quick]
    for item in items:
        if item.get_closest_marker("integration") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(_WITH_SERVERS_S))
    rank = {name: place for place, name in enumerate(_LONGEST_FIRST)}
    items.sort(key=lambda item: rank.get(_share(item.nodeid), len(rank)))


@pytest.fixture(autouse=True)
def signals_stay() -> Iterator[None]:
    """Fail a test that leaves a Ctrl-C handler behind, rather than let another test hang."""
    before = signal.getsignal(signal.SIGINT)
    yield
    left = signal.getsignal(signal.SIGINT)
    if left is not before:
        signal.signal(signal.SIGINT, before)
        pytest.fail(f"left a handler of SIGINT: {left}")


@pytest.fixture(autouse=True)
def no_secrets_are_known() -> Iterator[None]:
    """Secrets learned in one test are not masked in the next."""
    yield
    redact.forget()


@pytest.fixture(scope="session")
def class_archive() -> None:
    """Create them before everything else: every JVM of the run then starts with half the work."""
    jvm.make_archives()


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory, class_archive: None) -> Iterator[StackInfo]:
    """Broker, registry and catalog, one set for the whole run: use your own topic and table names."""
    local = LocalStack(tmp_path_factory.mktemp("stack"))
    # A test run that is killed must not leave servers behind.
    yield local.up(die_with_parent=True)
    local.down()


@pytest.fixture(scope="session")
def quiet_stack(tmp_path_factory: pytest.TempPathFactory, class_archive: None) -> Iterator[StackInfo]:
    """Like ``stack``, with no other test process as a host: kernels become hosts, as for users."""
    local = LocalStack(tmp_path_factory.mktemp("quiet"))
    yield local.up(die_with_parent=True)
    local.down()


@pytest.fixture(scope="session")
def trino(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The stand-in for Athena's engine, one for the whole run: use your own catalog names."""
    from tests.athena.trino import Trino

    with Trino(tmp_path_factory.mktemp("trino")) as started:
        yield started
