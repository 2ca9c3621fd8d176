"""The current settings, and the one workbench made from them."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tabletopic_kernel.model.errors import RetryableError, SettingsError
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.config import LoadedSettings, load_settings
from tabletopic_kernel.workbench.config.profiles import (
    DEFAULT_PROFILE,
    PROFILE_VARIABLE,
    base_of,
    profiles_beside,
)
from tabletopic_kernel.workbench.config.trust import FILE_NAME, FOUND_VARIABLE, working_folder

if TYPE_CHECKING:
    from tabletopic_kernel.workbench.workbench import Workbench


class NoServersError(RetryableError):
    """No servers: none is named and no local stack runs, or the settings are wrong."""


@dataclass
class SettingsInForce:
    """The settings of this Jupyter server, read again each time: users may edit them.

    Empty ``settings_file`` and ``state_dir``: the nearest ``tabletopic.toml`` upwards, and its folder. Empty
    ``profile``: the environment's. A ``state_dir`` is the default profile's; others have their own.
    """

    settings_file: str = ""
    state_dir: str = ""
    profile: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _workbench: Workbench | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.profile = self.profile or os.environ.get(PROFILE_VARIABLE) or DEFAULT_PROFILE

    def of(self, profile: str) -> SettingsInForce:
        """The settings of another profile of this Jupyter server."""
        return SettingsInForce(self.settings_file, self.state_dir, profile)

    def profiles(self) -> list[str]:
        """The profiles beside the settings file, or in this folder, and the one in use; never raises."""
        try:
            names = profiles_beside(self.base())
        except SettingsError:  # this folder was deleted
            names = []
        return list(dict.fromkeys([*names, self.profile]))

    def base(self) -> Path:
        """The file of the default profile, which may not exist."""
        try:
            file = self.load().file
        except SettingsError:
            file = None
        if file is None and self.settings_file:
            return Path(self.environment()["TABLETOPIC_CONFIG"])
        return working_folder() / FILE_NAME if file is None else base_of(file.absolute(), self.profile)

    def settings(self) -> Settings:
        """The current settings; raises SettingsError with a line for each mistake."""
        return self.load().settings

    def load(self, file_text: str | None = None) -> LoadedSettings:
        """The current settings with their sources; with another text of the file, if one is given."""
        overrides = {"state_dir": self.state_dir or None} if self.profile == DEFAULT_PROFILE else {}
        return load_settings(overrides, environ={**os.environ, **self.environment()}, file_text=file_text)

    def kernel_environment(self) -> dict[str, str]:
        """Variables by which a kernel finds these settings, instead of those above its notebook."""
        variables = self.environment()
        is_named = "TABLETOPIC_CONFIG" in os.environ | variables
        for profile in (self.profile, DEFAULT_PROFILE):  # a notebook may choose the default one
            try:
                loaded = self.of(profile).load()
            except SettingsError:  # the kernel reports it itself
                continue
            if profile == DEFAULT_PROFILE:
                variables["TABLETOPIC_STATE_DIR"] = str(Path(loaded.settings.state_dir).absolute())
            if loaded.file is not None:
                base = str(base_of(Path(loaded.file).absolute(), profile))
                variables["TABLETOPIC_CONFIG" if is_named else FOUND_VARIABLE] = base
        return variables

    def environment(self) -> dict[str, str]:
        """Variables by which a child process finds the same settings."""
        variables = {PROFILE_VARIABLE: self.profile}
        if self.settings_file:
            variables["TABLETOPIC_CONFIG"] = str(Path(self.settings_file).expanduser().absolute())
        if self.state_dir:
            variables["TABLETOPIC_STATE_DIR"] = str(Path(self.state_dir).expanduser().absolute())
        return variables

    def workbench(self) -> Workbench:
        """The workbench: the same object until settings or servers change. Raises NoServersError."""
        from tabletopic_kernel.workbench.workbench import Workbench, find_servers  # noqa: PLC0415

        try:
            settings = self.settings()
            servers = find_servers(settings)
        except SettingsError as error:
            with self._lock:
                self._workbench = None  # its clients would keep looking for a stopped broker
            raise NoServersError(str(error)) from error
        with self._lock:
            workbench = self._workbench
            if workbench is None or (workbench.settings, workbench.servers) != (settings, servers):
                try:
                    workbench = self._workbench = Workbench(settings)
                except SettingsError as error:  # the stack was stopped at this moment
                    raise NoServersError(str(error)) from error
            return workbench
