"""``%load_ext tabletopic_kernel``: the magics, their completion, and ``spark``, ``workbench`` and ``lake``.

The objects are created on first use. The kernel "Table Topic (PySpark)" is IPython's with this extension.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from tabletopic_kernel.faces.notebook.completion import make_matcher
from tabletopic_kernel.faces.notebook.dashboard_magic import DashboardMagics
from tabletopic_kernel.faces.notebook.display import hide_secrets, show_secrets
from tabletopic_kernel.faces.notebook.lake_magic import LakeMagics
from tabletopic_kernel.faces.notebook.results.channel import listen, stop_listening
from tabletopic_kernel.faces.notebook.session import Session
from tabletopic_kernel.faces.notebook.topic_magic import BEGIN, TopicMagics

_MAGICS = {"line": ("topic", "lake", "dashboard"), "cell": ("lake",)}
_loaded: dict[InteractiveShell, tuple[Session, Any]] = {}


def load(shell: InteractiveShell) -> Session:
    """Register the magics in a shell; repeating it changes nothing."""
    if shell in _loaded:
        return _loaded[shell][0]
    session = Session(shell.user_ns)
    shell.register_magics(TopicMagics(shell, session))
    lake = LakeMagics(shell, session)
    shell.register_magics(lake)
    listen(shell, lake.results)
    shell.register_magics(DashboardMagics(shell, session))
    matcher = make_matcher(session)
    if shell.Completer is not None:
        shell.Completer.custom_matchers.append(matcher)
    hide_secrets(shell)
    _loaded[shell] = (session, matcher)
    return session


def unload(shell: InteractiveShell) -> None:
    """Remove the magics and stop the host in this kernel; it commits staged files."""
    loaded = _loaded.pop(shell, None)
    if loaded is None:
        return
    session, matcher = loaded
    session.kernel_host.stop()
    show_secrets(shell)
    if shell.Completer is not None and matcher in shell.Completer.custom_matchers:
        shell.Completer.custom_matchers.remove(matcher)
    for kind, names in _MAGICS.items():
        for name in names:
            shell.magics_manager.magics[kind].pop(name, None)
    stop_listening(shell)
    shell.configurables[:] = [item for item in shell.configurables if not isinstance(item, LakeMagics)]


class Lazy:
    """A placeholder until its first use; then the variable is the object itself."""

    def __init__(self, name: str, namespace: dict[str, Any], make: Callable[[], Any], hint: str) -> None:
        # Under names that no attribute of the object has.
        self.__dict__["_lazy"] = (name, namespace, make, hint)

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith(("_repr_", "_ipython_")):  # displayed, not used
            raise AttributeError(attribute)
        name, namespace, make, _ = self.__dict__["_lazy"]
        value = make()
        if namespace.get(name) is self:
            namespace[name] = value
        return getattr(value, attribute)

    def __repr__(self) -> str:
        return str(self.__dict__["_lazy"][3])


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Load the magics, add the objects to the namespace, and greet the user of a console."""
    session = load(shell)
    shell.banner2 = BEGIN

    def renew() -> None:
        for name, (make, hint) in _objects(session).items():
            shell.user_ns[name] = shell.user_ns_hidden[name] = Lazy(name, shell.user_ns, make, hint)

    session.renew_objects = renew
    for name, (make, hint) in _objects(session).items():
        shell.user_ns.setdefault(name, Lazy(name, shell.user_ns, make, hint))
        shell.user_ns_hidden[name] = shell.user_ns[name]  # not the user's variables: %who omits them


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Remove the magics; the objects stay."""
    unload(shell)


def _objects(session: Session) -> dict[str, tuple[Callable[[], Any], str]]:
    """Made when an object is used: settings and servers may come later than the kernel."""
    return {
        "spark": (
            lambda: session.workbench.spark(),  # noqa: PLW0108 - the workbench may change
            "<spark: a SparkSession with the catalog, started when first used (5 to 10 s)>",
        ),
        "workbench": (
            lambda: session.workbench,
            "<workbench: every table topic, connected when first used; begin with %topic>",
        ),
        "lake": (
            lambda: session.workbench.lake,
            '<lake: the tables for SQL, opened when first used: lake.sql("SELECT …")>',
        ),
    }
