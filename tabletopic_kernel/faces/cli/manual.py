"""How ``--help`` reads: a switch takes no value, so none is named behind it."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup


class Command(TyperCommand):
    """A command with such a help page."""

    def get_params(self, ctx: Any) -> Any:
        """Its parameters, as the help page takes them."""
        return _without_values(super().get_params(ctx))


class Group(TyperGroup):
    """The program itself, likewise."""

    def get_params(self, ctx: Any) -> Any:
        """Its parameters, as the help page takes them."""
        return _without_values(super().get_params(ctx))


def _without_values(parameters: Any) -> Any:
    for one in parameters:
        if getattr(one, "is_flag", False):
            one.metavar = ""  # typer's own would be <bool>
    return parameters
