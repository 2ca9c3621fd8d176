"""Types that all formats share: an Iceberg schema as Arrow's, and the dates that tables can hold.

For the types of a schema's fields, see each format: ``avro/types.py``, ``json/types.py``,
``protobuf/schema/types.py``.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

# 0001-01-01 to 9999-12-31, in days since 1970-01-01: the dates of Python (which PyIceberg's column metrics
# use), Spark, Trino and Athena. Few programs could write a file with other dates, and fewer read it.
MIN_DAY: Final = -719_162
MAX_DAY: Final = 2_932_896
MILLIS_PER_DAY: Final = 86_400_000
MICROS_PER_DAY: Final = 1000 * MILLIS_PER_DAY


def arrow_schema_of(schema: Schema) -> pa.Schema:
    """The Arrow schema that PyIceberg's writer accepts without a cast: its own canonical types."""
    return schema_to_pyarrow(schema, include_field_ids=False)
