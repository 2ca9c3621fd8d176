"""The settings in force, and the one workbench made of them."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tabletopic_kernel.model.errors import RetryableError, SettingsError
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.config import SECTIONS, LoadedSettings, load_settings, own_servers

if TYPE_CHECKING:
    from tabletopic_kernel.workbench.workbench import Workbench


class NoServersError(RetryableError):
    """No servers: none is named and no local stack runs, or the settings are wrong."""


@dataclass
class SettingsInForce:
    """The settings of this Jupyter server; read again each time, as users may edit them.

    ``settings_file`` and ``state_dir`` are empty where the usual rules hold: the nearest ``tabletopic.toml``
    upwards of the folder in which the server was started, and the folder that it names.
    """

    settings_file: str = ""
    state_dir: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _workbench: Workbench | None = field(default=None, repr=False)

    def settings(self) -> Settings:
        """The settings in force.

        Raises:
            SettingsError: a line for everything that is wrong.
        """
        return self._load().settings

    def _load(self) -> LoadedSettings:
        overrides = {"state_dir": self.state_dir or None}
        return load_settings(overrides, environ={**os.environ, **self.environment()})

    def kernel_environment(self) -> dict[str, str]:
        """Variables by which a kernel in any folder finds what is in force here, as it is now.

        Without them it would look upwards of its notebook's folder, and find other settings and servers.
        """
        try:
            loaded = self._load()
        except SettingsError:  # the kernel says so itself
            return self.environment()
        found = {"TABLETOPIC_STATE_DIR": str(Path(loaded.settings.state_dir).absolute())}
        if loaded.file is not None:
            found["TABLETOPIC_CONFIG"] = str(Path(loaded.file).absolute())
        return found

    def environment(self) -> dict[str, str]:
        """Variables by which a child finds the same settings."""
        given: dict[str, str] = {}
        if self.settings_file:
            given["TABLETOPIC_CONFIG"] = str(Path(self.settings_file).expanduser().absolute())
        if self.state_dir:
            given["TABLETOPIC_STATE_DIR"] = str(Path(self.state_dir).expanduser().absolute())
        return given

    def workbench(self) -> Workbench:
        """The workbench: the same object until settings or servers change. Takes some ms; any thread.

        Raises:
            NoServersError: there is none.
        """
        from tabletopic_kernel.workbench.workbench import Workbench, find_servers  # noqa: PLC0415

        try:
            settings = self.settings()
            servers = find_servers(settings)
        except SettingsError as error:
            with self._lock:
                self._workbench = None  # its clients would go on looking for a broker that was stopped
            raise NoServersError(str(error)) from error
        with self._lock:
            held = self._workbench
            if held is None or (held.settings, held.servers) != (settings, servers):
                try:
                    held = self._workbench = Workbench(settings)
                except SettingsError as error:  # the stack was stopped at this moment
                    raise NoServersError(str(error)) from error
            return held


def names_all_servers(settings: Settings) -> bool:
    """Whether the settings name broker, registry and catalog, so that no local stack is wanted."""
    return len(own_servers(settings)) == len(SECTIONS)
