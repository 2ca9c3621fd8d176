"""A projection in a child process: it cannot take the host's resources, and can be killed.

A host has other topics, and a statement's planning computes whatever does not depend on the records. So hosts
and commands plan projections here, and run them here when they need rows (a replay). Workers, which Spark
restarts when they exit, run them in-process: a round trip to another process costs more than the statement.

The process gets pickled requests on standard input, one after another, and responds on standard output.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import weakref
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
from pyiceberg.schema import Schema

from tabletopic_kernel.formats.rejection import is_trouble, last_line
from tabletopic_kernel.model.errors import ProjectionError, RetryableError
from tabletopic_kernel.pipeline.transform.columns import Rows

# What ends a process from outside: the system where memory is short, and a shutdown. No statement does.
_KILLED: Final = (-signal.SIGKILL, -signal.SIGTERM)


def planned_columns(text: str, batch: Schema) -> Schema:
    """The output columns of a projection of rows with the columns ``batch``.

    Raises ProjectionError if it is not allowed, does not work with these, or takes too much; RetryableError
    if its process could not start, was killed, or lacks memory or disk space.
    """
    return _planned(text, batch.model_dump_json())


@lru_cache(maxsize=64)
def _planned(text: str, batch: str) -> Schema:
    child = ChildProjection(text, Schema.model_validate_json(batch))
    child.close()
    return child.iceberg_schema


class ChildProjection:
    """Like ``SqlProjection``, in a child process; raises the same errors, and as ``planned_columns``."""

    def __init__(self, text: str, batch: Schema) -> None:
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tabletopic_kernel.pipeline.transform.projection.child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for the parent, which ends this process
            )
        except OSError as error:
            raise RetryableError(f"no process for the projection can be started: {error}") from error
        self.close = weakref.finalize(self, _end, self._process)
        try:
            self.iceberg_schema: Schema = self._ask((text, batch), "planned")
        except BaseException:
            self.close()
            raise

    def rows(self, columns: Mapping[str, pa.Array], count: int) -> Rows:
        rows: Rows = self._ask((dict(columns), count), "run")
        return rows

    def _ask(self, request: object, done: str) -> Any:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump(request, process.stdin, protocol=5)
            process.stdin.flush()
            usable, answer = pickle.load(process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            code = process.wait()
            if code in _KILLED:
                raise RetryableError(
                    f"the projection's process was killed by signal {-code} as it was {done}; is the machine "
                    "short of memory?"
                ) from error
            raise ProjectionError(f"it ended DuckDB (exit code {code}) as it was {done}") from error
        if usable is None:
            raise RetryableError(f"the projection could not be {done}: {answer}")
        if not usable:
            raise ProjectionError(answer)
        return answer


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a child: it may be executing a statement, and has no state to lose."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):  # about unsent data
                pipe.close()


def main() -> None:
    from tabletopic_kernel.pipeline.transform.projection.projection import SqlProjection  # noqa: PLC0415 - costs time

    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # for libraries that print
    projection: SqlProjection | None = None
    while True:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        try:
            if projection is None:
                projection = SqlProjection(*request)
                answer: tuple[bool | None, object] = True, projection.iceberg_schema
            else:
                answer = True, projection.rows(*request)
        except ProjectionError as error:
            answer = False, error.why
        except Exception as error:
            if not is_trouble(error):
                raise
            answer = None, last_line(error)
        pickle.dump(answer, answers, protocol=5)
        answers.flush()


if __name__ == "__main__":
    main()
