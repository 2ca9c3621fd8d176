"""Kafka topics that are Iceberg tables, from a notebook.

Importing this package is instant; Spark, PyIceberg and the Kafka client load when first used.
"""

__version__ = "0.1.0"


def _jupyter_server_extension_points() -> list[dict[str, object]]:
    from tabletopic_kernel.jupyter.server.app import TableTopicApp  # noqa: PLC0415 - for the Jupyter server only

    return [{"module": "tabletopic_kernel", "app": TableTopicApp}]


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "labextension", "dest": "@tabletopic/lab"}]
