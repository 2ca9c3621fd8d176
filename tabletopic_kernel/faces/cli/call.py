"""What all commands share: the global options, the workbench, errors and exit codes."""

# Imports are deferred: see the package's docstring.
# ruff: noqa: PLC0415

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.local.machine import remedy_of
from tabletopic_kernel.model.errors import (
    ActionNeededError,
    InternalError,
    RetryableError,
    StackError,
    TableTopicError,
    UsageError,
    error_of,
)
from tabletopic_kernel.model.settings.units import parse_duration_ms

if TYPE_CHECKING:
    from tabletopic_kernel.workbench.config import LoadedSettings
    from tabletopic_kernel.workbench.workbench import Workbench

DEBUG_VARIABLE = "TABLETOPIC_DEBUG"
FAILED, WRONG_USE = 1, 2
# How shells report a death by signal: 128 + SIGINT, 128 + SIGPIPE.
INTERRUPTED, BROKEN_PIPE = 130, 141

_HOSTS_WAIT_S = 3.0


@dataclass(frozen=True)
class Call:
    """One call of the program: its global options, and lazily created objects."""

    config: Path | None = None
    state_dir: Path | None = None
    debug: bool = False
    profile: str | None = None

    def under(self, other: Call) -> Call:
        """Add the options given after the command, which take precedence."""
        return Call(
            other.config or self.config,
            other.state_dir or self.state_dir,
            self.debug or other.debug,
            other.profile or self.profile,
        )

    @property
    def environ(self) -> dict[str, str]:
        """The environment, with the options that choose the settings file."""
        environ = dict(os.environ)
        if self.config is not None:
            environ["TABLETOPIC_CONFIG"] = str(self.config)
        if self.profile is not None:
            environ["TABLETOPIC_PROFILE"] = self.profile
        return environ

    @cached_property
    def loaded(self) -> LoadedSettings:
        """The current settings."""
        from tabletopic_kernel.workbench.config import load_settings

        state_dir = None if self.state_dir is None else str(self.state_dir)
        return load_settings({"state_dir": state_dir}, environ=self.environ)

    @cached_property
    def workbench(self) -> Workbench:
        """The workbench of these settings."""
        from tabletopic_kernel.workbench.config import check_kafka_properties
        from tabletopic_kernel.workbench.workbench import Workbench

        if self.loaded.settings.kafka:
            check_kafka_properties(self.loaded)
        return Workbench(self.loaded.settings)

    def hosts(self) -> list[str] | None:
        """Ids of the live hosts; None if the broker cannot tell at present."""
        deadline = time.monotonic() + _HOSTS_WAIT_S
        while True:
            try:
                return self.workbench.hosts()
            except StackError:  # the broker has ended and will not restart
                return None
            except RetryableError:  # a broker that has just started does not know its groups yet
                if time.monotonic() > deadline:
                    return None
                time.sleep(0.5)

    def note_missing_servers(self) -> None:
        """Print a note beside the data if a server of the local stack is not running."""
        if away := str(self.workbench.servers.away()):
            screen.note(away)

    def command(self, *words: str) -> str:
        """Another command for the same cluster, to copy."""
        options: list[str] = [] if self.profile is None else ["--profile", self.profile]
        if self.config is not None:
            options += ["--config", str(self.config)]
        if self.state_dir is not None:
            options += ["--state-dir", str(self.state_dir)]
        return shlex.join(["tabletopic", *words[:1], *options, *words[1:]])


@contextlib.contextmanager
def reporting_errors(*, debug: bool) -> Iterator[None]:
    """Turn an error inside into one message on stderr and the exit code of ``typer.Exit``."""
    debug = debug or os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")
    _quiet_libraries(debug)
    try:
        yield
        sys.stdout.flush()
    except (typer.Exit, typer.Abort):
        raise
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # flushing it at exit must not fail again
        raise typer.Exit(BROKEN_PIPE) from None
    except TableTopicError as error:
        if debug:
            screen.trace(error)
        screen.error(error)
        raise typer.Exit(WRONG_USE if isinstance(error, UsageError) else FAILED) from None
    except Exception as error:
        if debug:
            screen.trace(error)
        if (fixable := _fixable(error)) is not None:
            screen.error(ActionNeededError(fixable))
            raise typer.Exit(FAILED) from None
        first_line, *_ = str(error_of(error)).splitlines()
        screen.error(InternalError(f"unexpected {first_line}"))
        if not debug:
            screen.note(f"this is a bug; run it again with --debug (or {DEBUG_VARIABLE}=1) for the trace")
        raise typer.Exit(FAILED) from None


def _fixable(error: Exception) -> str | None:
    """The message of an operating system's error that the user can fix; None for any other error."""
    if not isinstance(error, OSError) or (remedy := remedy_of(error)) is None:
        return None
    return f"cannot use {error.filename}: {remedy}" if error.filename else f"cannot write: {remedy}"


def _quiet_libraries(debug: bool) -> None:
    from tabletopic_kernel.workbench.logs import without_secrets

    if debug:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        for handler in logging.getLogger().handlers:
            handler.addFilter(without_secrets)
        return
    logging.getLogger().addHandler(logging.NullHandler())
    warnings.simplefilter("ignore")


def duration_ms(option: str, text: str) -> int:
    """Milliseconds of an option's ``500ms``, ``5s``, ``2m``; a bare number is seconds. Raises UsageError."""
    try:
        return int(str(parse_duration_ms(text)))
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
