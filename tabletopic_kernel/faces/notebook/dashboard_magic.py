"""``%dashboard``: the live dashboard in a cell."""

from __future__ import annotations

import html
import os
from contextlib import suppress
from typing import Annotated, Literal
from urllib.parse import urlencode

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_magic, magics_class

from tabletopic_kernel.faces.notebook.arguments import Parser, add_arguments, parse, values_of
from tabletopic_kernel.faces.notebook.display import report_errors
from tabletopic_kernel.faces.notebook.session import Session
from tabletopic_kernel.faces.operations.operation import Option
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError, SettingsError
from tabletopic_kernel.workbench.config.profiles import PROFILE_VARIABLE

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
    """The base path of the Jupyter server's pages, with slashes around. Raises ActionNeededError."""
    path = os.environ.get("JUPYTERHUB_SERVICE_PREFIX") or os.environ.get("TABLETOPIC_BASE_URL")
    if not path:
        raise ActionNeededError(
            "this kernel was not started by a Jupyter server with this extension; "
            "run `tabletopic dashboard` in a terminal instead"
        )
    return path if path.endswith("/") else f"{path}/"


def frame(
    session: Session,
    topic: Annotated[
        str | None,
        Option("The topic to show; without it, all topics", metavar="TOPIC", positional=True, names="topics"),
    ] = None,
    theme: Annotated[Literal["default", "dark"], Option("Colour theme")] = "default",
    height: Annotated[int, Option("Height of the frame", metavar="PIXELS", least=1)] = 800,
) -> DashboardFrame:
    """The live dashboard below the cell. Raises UsageError if there is no such topic."""
    if topic:
        with suppress(SettingsError, RetryableError):  # the page reports an unavailable broker
            session.workbench.check_known(topic)
    query = {"theme": theme, **({"topic": topic} if topic else {})}
    if profile := os.environ.get(PROFILE_VARIABLE):  # the Jupyter server may use another one
        query["profile"] = profile
    return DashboardFrame(f"{base_url()}{_PATH}/?{urlencode(query)}", height)


def make_parser() -> Parser:
    """The parser of ``%dashboard``."""
    parser = Parser(
        "%dashboard", description="The live dashboard below the cell: lag, commits, schema versions."
    )
    add_arguments(parser, frame)
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
        parsed = parse(_PARSER, line)
        return None if parsed is None else frame(self._session, **values_of(frame, parsed))


DashboardMagics.dashboard.__doc__ = _PARSER.format_help()
