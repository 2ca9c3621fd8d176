"""The settings whose values decide which code runs."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tabletopic_kernel.model.settings.names import SettingPath, dotted

# Libraries and commands of librdkafka; classes of PyIceberg and Iceberg, and those that log in for them.
_CODE = re.compile(r"plugin\.library\.paths|ssl\.engine\..*|ssl\.providers|^.*\.kinit\.cmd|^.*impl")

_URL = re.compile(r"https?://.*")

# Almost any property of Spark can name a class, a file or a command: these cannot. A cluster returns objects.
_HARMLESS = re.compile(
    r"spark\.(?:(?:driver|executor)\.(?:memory|memoryOverhead|cores|instances)|cores\.max|default\.parallelism"
    r"|sql\.shuffle\.partitions|ui\.(?:enabled|port|showConsoleProgress))=\w+|spark\.master=(?!.*://).*"
)


def code_properties(settings: Iterable[tuple[SettingPath, object]]) -> dict[str, str]:
    """The settings that decide which code runs, by their dotted names: all of Spark's, and some others.

    A file that lineage is added to is one of them: it may be one that a shell reads.

    >>> sorted(code_properties([(("catalog", "py-io-impl"), "x"), (("catalog", "uri"), "y")]))
    ['catalog.py-io-impl']
    """
    return {dotted(path): str(value) for path, value in settings if _runs_code(path, str(value))}


def _runs_code(path: SettingPath, value: str) -> bool:
    if path[0] == "spark":
        name = path[-1] if path[1] == "conf" else f"spark.{path[1]}"
        return path[1] in ("conf", "master") and not _HARMLESS.fullmatch(f"{name}={value}")
    if path == ("lineage", "to"):
        return bool(value) and not _URL.fullmatch(value)
    if path == ("notify", "command"):
        return True
    return path[0] in ("kafka", "registry", "catalog", "catalogs") and bool(_CODE.fullmatch(path[-1]))
