"""What AWS's catalogs do with columns that Iceberg allows (AWS's documentation of Glue and of S3 Tables)."""

from __future__ import annotations

from collections.abc import Mapping

from tabletopic_kernel.clients.catalog.engine_properties import catalog_type, maintains_itself


def limits_of_aws(properties: Mapping[str, str], columns: Mapping[str, str]) -> list[str]:
    """Warnings, if the catalog of these ``properties`` is AWS's; ``columns``: types as text by name.

    >>> limits_of_aws({"type": "glue"}, {"userId": "string"})[0].partition(":")[0]
    "AWS's catalog hides tables with capital letters in column names from Athena"
    >>> limits_of_aws({"type": "rest"}, {"userId": "string"})
    []
    """
    is_s3_tables = maintains_itself(properties)
    if not (is_s3_tables or "glue" in (catalog_type(properties), properties.get("rest.signing-name"))):
        return []
    warnings = []
    if capitals := [name for name, kind in columns.items() if not f"{name}{kind}".islower()]:
        warnings.append(
            f"AWS's catalog hides tables with capital letters in column names from Athena: "
            f"{', '.join(capitals)}; set column_names = lower before the table is created"
        )
    if is_s3_tables and (fixed := [name for name, kind in columns.items() if "fixed" in kind]):
        warnings.append(f"S3 Tables never compact tables with columns of type fixed: {', '.join(fixed)}")
    return warnings
