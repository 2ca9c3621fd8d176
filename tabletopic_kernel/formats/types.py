"""Types that all formats share: an Iceberg schema as Arrow's, and the dates that tables can hold.

Which types the fields of a schema have, each format says: ``avro/types.py``, ``json/types.py``,
``protobuf/schema/types.py``.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

# 0001-01-01 to 9999-12-31, in days since 1970-01-01: the dates of Python (PyIceberg's column metrics go
# through it), Spark, Trino and Athena. A file with another one could be written by few and read by fewer.
MIN_DAY: Final = -719_162
MAX_DAY: Final = 2_932_896
MILLIS_PER_DAY: Final = 86_400_000


def arrow_schema_of(schema: Schema) -> pa.Schema:
    """The Arrow schema that PyIceberg's writer takes without a cast: its own canonical types."""
    return schema_to_pyarrow(schema, include_field_ids=False)
