"""One table of operations, from which all faces are derived.

To add one: a method of the workbench, a line in this table, and a label in TypeScript if it gets a button.
"""

from tabletopic_kernel.faces.operations import compact, expire, inspection, servers, topics
from tabletopic_kernel.faces.operations.operation import Operation

# In the order of the help.
OPERATIONS: tuple[Operation, ...] = (
    *servers.SERVERS,
    *topics.OPERATIONS,
    servers.SERVE,
    *inspection.OPERATIONS,
    *topics.REPLAY,
    *compact.OPERATIONS,
    *expire.OPERATIONS,
    servers.DASHBOARD,
    inspection.QUERY,
    *servers.PROGRAMS,
    *servers.OTHERS,
)
BY_NAME = {operation.name: operation for operation in OPERATIONS}

__all__ = ["BY_NAME", "OPERATIONS", "Operation"]
