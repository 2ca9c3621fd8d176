"""Kafka topics that are Iceberg tables, from a notebook.

Importing this package is instant; Spark, PyIceberg and the Kafka client load when first used.
"""

__version__ = "0.1.0"


def _jupyter_server_extension_points() -> list[dict[str, object]]:
    from tabletopic_kernel.jupyter.server.app import TableTopicApp  # noqa: PLC0415 - for the Jupyter server only

    return [{"module": "tabletopic_kernel", "app": TableTopicApp}]


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "labextension", "dest": "@tabletopic/lab"}]


def load_ipython_extension(shell: object) -> None:
    """``%load_ext tabletopic_kernel``: ``%topic``, ``%%lake`` and ``%dashboard``."""
    from tabletopic_kernel.jupyter import extension  # noqa: PLC0415 - for notebooks only

    extension.load(shell)  # type: ignore[arg-type]


def unload_ipython_extension(shell: object) -> None:
    """``%unload_ext tabletopic_kernel``; a host in this kernel commits what is staged and stops."""
    from tabletopic_kernel.jupyter import extension  # noqa: PLC0415

    extension.unload(shell)  # type: ignore[arg-type]
