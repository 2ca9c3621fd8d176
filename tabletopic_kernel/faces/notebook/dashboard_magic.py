"""``%dashboard``: the live dashboard in a cell."""

from __future__ import annotations

import html
import os
from urllib.parse import urlencode

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_magic, magics_class

from tabletopic_kernel.faces.notebook.arguments import Parser, add_arguments, parse
from tabletopic_kernel.faces.notebook.display import report_errors
from tabletopic_kernel.faces.notebook.session import Session
from tabletopic_kernel.faces.operations import BY_NAME
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError, SettingsError

_PATH = "tabletopic/dashboard"


class DashboardFrame:
    """A frame on the dashboard of this Jupyter server; the notebook saves only the address."""

    def __init__(self, url: str, height: int) -> None:
        self.url = url
        self.height = height

    def __repr__(self) -> str:
        return f"the dashboard is at {self.url} on the Jupyter server"

    def _repr_html_(self) -> str:
        return (
            f'<iframe src="{html.escape(self.url, quote=True)}" width="100%" height="{self.height}" '
            'style="border:0" title="Table Topic dashboard"></iframe>'
        )


def base_url() -> str:
    """The base path of the Jupyter server's pages, with slashes around.

    Raises:
        ActionNeededError: there is no Jupyter server with our extension.
    """
    found = os.environ.get("JUPYTERHUB_SERVICE_PREFIX") or os.environ.get("TABLETOPIC_BASE_URL")
    if not found:
        raise ActionNeededError(
            "this kernel was not started by a Jupyter server with this extension; "
            "run `tabletopic dashboard` in a terminal instead"
        )
    return found if found.endswith("/") else f"{found}/"


def make_parser() -> Parser:
    """The parser of ``%dashboard``."""
    parser = Parser(
        "%dashboard", description="The live dashboard below the cell: lag, commits, schema versions."
    )
    add_arguments(parser, BY_NAME["dashboard"])
    return parser


_PARSER = make_parser()


@magics_class
class DashboardMagics(Magics):
    """See the docstring of ``dashboard``."""

    def __init__(self, shell: InteractiveShell, session: Session) -> None:
        super().__init__(shell)
        self._session = session

    @line_magic
    @report_errors
    def dashboard(self, line: str) -> DashboardFrame | None:
        """The live dashboard below the cell."""
        given = parse(_PARSER, line)
        if given is None:
            return None
        if given.topic:
            self._check_known(given.topic)
        query = {"theme": given.theme, **({"topic": given.topic} if given.topic else {})}
        return DashboardFrame(f"{base_url()}{_PATH}/?{urlencode(query)}", given.height)

    def _check_known(self, topic: str) -> None:
        """Raises UsageError if the topic is not enabled; the page reports an unavailable broker."""
        try:
            self._session.workbench.desired_topic(topic)
        except (SettingsError, RetryableError):
            return


DashboardMagics.dashboard.__doc__ = _PARSER.format_help()
