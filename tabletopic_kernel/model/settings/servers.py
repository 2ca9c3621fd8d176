"""Sections with other programs' properties: a catalog's name, and a registry's kind and place."""

from __future__ import annotations

import re
from collections.abc import Mapping

# It begins names in SQL, in Spark's properties and in variables, which have no case. DuckDB and Spark use the
# taken names for their own catalogs.
_CATALOG_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_TAKEN_CATALOG_NAMES = frozenset({"memory", "system", "temp", "spark_catalog"})
GLUE_REGISTRY = "default-registry"  # AWS's default, if the settings name none


def check_catalog_name(name: str) -> str:
    """The name of a section of ``[catalogs]``; raises ValueError."""
    if not _CATALOG_NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot name a catalog: use lowercase letters, digits and _, starting with a letter"
        )
    if name in _TAKEN_CATALOG_NAMES:
        raise ValueError(f"{name!r} cannot name a catalog: DuckDB or Spark uses that name")
    return name


def check_catalog(properties: dict[str, str]) -> dict[str, str]:
    """The properties of a section of ``[catalogs]``; raises ValueError."""
    if "name" in properties:
        raise ValueError("the section's name is the catalog's name: remove the property name")
    if not properties:
        raise ValueError("does not define a catalog: set type, uri, warehouse… as in [catalog]")
    return properties


def is_glue(registry: Mapping[str, str]) -> bool:
    """Whether a ``[registry]`` section means AWS Glue.

    >>> is_glue({"type": "glue"}), is_glue({"url": "http://r"})
    (True, False)
    """
    return registry.get("type", "").lower() == "glue"


def registry_place(registry: Mapping[str, str]) -> str:
    """The registry's URL as set, including a login; Glue has none, so its name and region.

    >>> registry_place({"type": "glue", "glue.registry-name": "prod", "glue.region": "eu-west-1"})
    'AWS Glue schema registry prod in eu-west-1'
    """
    if not is_glue(registry):
        return registry.get("url", "")
    region = f" in {registry['glue.region']}" if "glue.region" in registry else ""
    return f"AWS Glue schema registry {registry.get('glue.registry-name', GLUE_REGISTRY)}{region}"


def names_registry(registry: Mapping[str, str]) -> bool:
    """Whether a ``[registry]`` section names a registry, so the embedded one is not needed."""
    return "url" in registry or is_glue(registry)
