"""The table that the tests of this folder share."""

from tests.table.samples import catalog, catalog_properties, owned, rig, table  # noqa: F401
