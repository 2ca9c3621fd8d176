"""The command line: each command parses, calls one method of the workbench or the stack, and renders.

Nothing heavy is imported before a command needs it: ``tabletopic status`` must respond at once.
"""

from tabletopic_kernel.faces.cli.app import app, main

__all__ = ["app", "main"]
