"""Kafka topics as Iceberg tables, from a notebook.

The names of this module are the public interface; everything below may change. Importing this package is
instant; Spark, PyIceberg and the Kafka client load when first used.
"""

from importlib import import_module

__version__ = "0.1.0"

# Where each public name is defined; loaded on first access.
_ERRORS = ("ActionNeededError", "RetryableError", "SettingsError", "TableTopicError", "UsageError")
_PUBLIC = {
    **{name: ("model.errors", name) for name in _ERRORS},
    "Shop": ("demo.change_data.shop", "Shop"),
    "TableTopic": ("workbench.topics.topic", "TableTopic"),
    "Workbench": ("workbench.workbench", "Workbench"),
    "bars": ("render.picture", "bars"),
    "lines": ("render.picture", "lines"),
    "produce_clickstream": ("_datasets.clickstream.produce", "produce"),
}
__all__ = ["__version__", *_PUBLIC]  # noqa: PLE0604 - names, all of them


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _PUBLIC[name]
    made: object = getattr(import_module(f"{__name__}.{module}"), attribute)
    globals()[name] = made  # the next time it is just there
    return made


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _jupyter_server_extension_points() -> list[dict[str, object]]:
    from tabletopic_kernel.faces.jupyter_server.app import TableTopicApp  # noqa: PLC0415 - for the Jupyter server only

    return [{"module": "tabletopic_kernel", "app": TableTopicApp}]


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "labextension", "dest": "@tabletopic/lab"}]


def load_ipython_extension(shell: object) -> None:
    """``%load_ext tabletopic_kernel``: ``%topic``, ``%%lake``, ``%dashboard``, and ``workbench``."""
    from tabletopic_kernel.faces.notebook import kernel  # noqa: PLC0415 - for notebooks only

    kernel.load_ipython_extension(shell)  # type: ignore[arg-type]


def unload_ipython_extension(shell: object) -> None:
    """``%unload_ext tabletopic_kernel``; a host in this kernel commits what is staged and stops."""
    from tabletopic_kernel.faces.notebook import kernel  # noqa: PLC0415

    kernel.unload(shell)  # type: ignore[arg-type]
