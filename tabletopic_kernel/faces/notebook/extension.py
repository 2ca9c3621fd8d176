"""``%load_ext tabletopic_kernel``: the magics and their completion, in one shell."""

from __future__ import annotations

from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from tabletopic_kernel.faces.notebook.completion import make_matcher
from tabletopic_kernel.faces.notebook.dashboard_magic import DashboardMagics
from tabletopic_kernel.faces.notebook.display.traces import hide_secrets, show_secrets
from tabletopic_kernel.faces.notebook.lake_magic import LakeMagics
from tabletopic_kernel.faces.notebook.session import Session
from tabletopic_kernel.faces.notebook.topic_magic import TopicMagics

_MAGICS = {"line": ("topic", "lake", "dashboard"), "cell": ("lake",)}
_loaded: dict[InteractiveShell, tuple[Session, Any]] = {}


def load(shell: InteractiveShell) -> Session:
    """Register the magics in a shell; a second time changes nothing."""
    if shell in _loaded:
        return _loaded[shell][0]
    session = Session(shell.user_ns)
    shell.register_magics(TopicMagics(shell, session))
    shell.register_magics(LakeMagics(shell, session))
    shell.register_magics(DashboardMagics(shell, session))
    matcher = make_matcher(session)
    if shell.Completer is not None:
        shell.Completer.custom_matchers.append(matcher)
    hide_secrets(shell)
    _loaded[shell] = (session, matcher)
    return session


def unload(shell: InteractiveShell) -> None:
    """Take the magics away and stop the host in this kernel; it commits what is staged."""
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
    shell.configurables[:] = [one for one in shell.configurables if not isinstance(one, LakeMagics)]
