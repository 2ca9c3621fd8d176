"""The operations, from which all faces are derived.

To add one: a function in a module of this package, and a label in TypeScript if it gets a button.
"""

from typing import Any

from tabletopic_kernel.faces.operations import (
    catalog,
    erasing,
    inspection,
    maintenance,
    records,
    runs,
    topics,
    trial,
)
from tabletopic_kernel.faces.operations.operation import Operation

# In the order of the help.
OPERATIONS: tuple[Operation[..., Any], ...] = tuple(
    value
    for module in (topics, runs, inspection, records, catalog, maintenance, erasing, trial)
    for value in vars(module).values()
    if isinstance(value, Operation)
)
BY_NAME = {operation.name: operation for operation in OPERATIONS}

__all__ = ["BY_NAME", "OPERATIONS", "Operation"]
