"""The texts of errors of Spark's JVM, also after that has ended."""

from __future__ import annotations


def text_of(error: BaseException) -> str:
    """The error's text. Py4J's error asks the JVM for it, and raises another one if the JVM is gone.

    >>> text_of(OSError("no space"))
    'no space'
    """
    try:
        return str(error)
    except Exception as another:
        return f"{getattr(error, 'errmsg', type(error).__name__)}: Spark's JVM has ended: {another}"
