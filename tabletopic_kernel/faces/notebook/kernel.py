"""The kernel "Table Topic (PySpark)": the extension, and ``spark``, ``workbench``, ``lake`` when first used.

Its kernelspec starts IPython's kernel with ``--ext tabletopic_kernel.faces.notebook.kernel``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell

from tabletopic_kernel.faces.notebook.extension import load, unload
from tabletopic_kernel.faces.notebook.session import Session

if TYPE_CHECKING:
    from tabletopic_kernel.workbench.workbench import Workbench


class Lazy:
    """Stands for an object until it is used; then the variable holds the object itself."""

    def __init__(self, name: str, namespace: dict[str, Any], make: Callable[[], Any], hint: str) -> None:
        # Under names that no attribute of the object has.
        self.__dict__["_lazy"] = (name, namespace, make, hint)

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith(("_repr_", "_ipython_")):  # looked at, not used
            raise AttributeError(attribute)
        name, namespace, make, _ = self.__dict__["_lazy"]
        made = make()
        if namespace.get(name) is self:
            namespace[name] = made
        return getattr(made, attribute)

    def __repr__(self) -> str:
        return str(self.__dict__["_lazy"][3])


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Load the magics and put the objects into the namespace."""
    session = load(shell)
    for name, (make, hint) in _objects(session).items():
        shell.user_ns.setdefault(name, Lazy(name, shell.user_ns, make, hint))
        shell.user_ns_hidden[name] = shell.user_ns[name]  # no variables of the person's: %who leaves them out


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take the magics away; the objects stay."""
    unload(shell)


def _objects(session: Session) -> dict[str, tuple[Callable[[], Any], str]]:
    return {
        "spark": (
            lambda: _workbench(session).spark(),
            "<spark: a SparkSession with the catalog, started when first used (5 to 10 s)>",
        ),
        "workbench": (
            lambda: _workbench(session),
            "<workbench: every table topic, connected when first used; begin with %topic>",
        ),
        "lake": (
            lambda: _workbench(session).lake,
            '<lake: the tables for SQL, opened when first used: lake.sql("SELECT …")>',
        ),
    }


def _workbench(session: Session) -> Workbench:
    """Asked for when an object is used: settings and servers may come later than the kernel."""
    return session.workbench
