"""The table shared by this folder's tests."""

from tests.table.samples import catalog, catalog_properties, owned, rig, table  # noqa: F401
