"""What a SQL projection costs: ``python -m tests.pipeline.measure_projection``.

CPU time of one process, the best of five runs, in µs per record, on a batch as tasks have it.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from tabletopic_kernel.formats.decoder import make_decoder
from tabletopic_kernel.formats.wire import WriterSchema
from tabletopic_kernel.pipeline.conform import conform, file_schema
from tabletopic_kernel.pipeline.transform.projection.projection import SqlProjection
from tests.formats.measuring import report
from tests.pipeline.test_sql_projection import EVERY_TYPE, record

ROWS = 65_536
CASES = {
    "SELECT * FROM batch": "everything, as it is",
    "SELECT l, upper(s) AS s, n / 2 AS n, a[1].id AS id, t::DATE AS day, m['k'] AS k FROM batch "
    "WHERE l % 2 = 0": "six expressions, half of the rows filtered",
    "SELECT l, CAST(CASE WHEN l % 1000 = 0 THEN 'x' ELSE '1' END AS INT) AS x FROM batch": "1 in 1,000 fails",
    "SELECT l, CAST(s AS INT) AS x FROM batch": "every row fails",
}


def main() -> None:
    """Print a line for each case."""
    decoder = make_decoder(1, WriterSchema(json.dumps(record(*(field for field, _, _ in EVERY_TYPE)))))
    columns: dict[str, pa.Array] = {}
    for field, (_, _, value) in zip(decoder.arrow_schema, EVERY_TYPE, strict=True):
        columns[field.name] = _array(field, value)
    target = file_schema(decoder.iceberg_schema)
    report("no projection: conform alone", ROWS, lambda: conform(columns, ROWS, target))
    for text, told in CASES.items():
        projection = SqlProjection(text, decoder.iceberg_schema)
        report(told, ROWS, lambda projection=projection: projection.rows(columns, ROWS))  # type: ignore[misc]


def _array(field: pa.Field, value: Any) -> pa.Array:
    if field.name == "l":
        return pa.array(range(ROWS), field.type)
    if isinstance(field.type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(
            field.type, pa.array([value.bytes] * ROWS, field.type.storage_type)
        )
    return pa.array([value] * ROWS, field.type)


if __name__ == "__main__":
    main()
