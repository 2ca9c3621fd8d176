"""Logs of this machine's hosts: files in the state folder, and the last lines about a topic."""

from __future__ import annotations

import json
import logging
import logging.handlers
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from tabletopic_kernel.local.machine import logs_folder
from tabletopic_kernel.model.redact import redact

_LOG_BYTES = 10 * 1024**2
_READ_BYTES = 2 * 1024**2  # from the end of each file
_FILES = ("serve.log", "kernel.log")
COORDINATOR_THREAD = "coordinator "  # prefix of the names of coordinators' threads, before the topic
_FORMAT = "%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"
_BEGINS = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


def log_to(state_dir: Path, file: str, level: int = logging.WARNING) -> logging.Handler:
    """Log to ``logs/<file>`` in the state folder."""
    handler = logging.handlers.RotatingFileHandler(
        logs_folder(state_dir) / file, maxBytes=_LOG_BYTES, backupCount=2
    )
    handler.setLevel(level)
    handler.addFilter(without_secrets)
    handler.setFormatter(logging.Formatter(_FORMAT))
    logging.getLogger().addHandler(handler)
    return handler


def log_json_to(stream: TextIO) -> logging.Handler:
    """Log to ``stream``, each record as a line of JSON without secrets."""
    handler = logging.StreamHandler(stream)
    handler.addFilter(without_secrets)
    handler.setFormatter(_JsonLines())
    logging.getLogger().addHandler(handler)
    return handler


class _JsonLines(logging.Formatter):
    """``time`` (ISO 8601, UTC), ``level``, ``logger``, ``message``; ``topic``, ``event``, ``trace`` if known.

    A record's topic is its own ``topic``, else the topic of the coordinator that logs.
    """

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, str] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        of_thread = str(record.threadName).removeprefix(COORDINATOR_THREAD)
        topic = getattr(record, "topic", of_thread if of_thread != record.threadName else "")
        optional = {"topic": topic, "event": getattr(record, "event", ""), "trace": record.exc_text}
        fields |= {name: text for name, text in optional.items() if text}
        return json.dumps(fields, ensure_ascii=False)


def without_secrets(record: logging.LogRecord) -> bool:
    """A filter that masks secrets in messages and traces."""
    try:
        message = record.getMessage()
    except (TypeError, ValueError, KeyError):  # the message does not fit its arguments
        message = f"{record.msg} {record.args}"
    record.msg, record.args = redact(message), ()
    if record.exc_info and not record.exc_text:
        record.exc_text = logging.Formatter().formatException(record.exc_info)
    if record.exc_text:  # formatters use it instead of the exception
        record.exc_text = redact(record.exc_text)
    return True


def read_logs(state_dir: Path, lines: int, topic: str | None = None) -> list[str]:
    """The last lines of all hosts' logs, oldest first; with ``topic`` only records that name it."""
    records = sorted(
        (record for file in _FILES for record in _records(state_dir / "logs" / file)),
        key=lambda record: record[0][:23],  # the time; records of the same time keep their order
    )
    name = None if topic is None else re.compile(rf"(?<![\w.-]){re.escape(topic)}(?![\w-])")
    named = [line for record in records if name is None or any(map(name.search, record)) for line in record]
    return named[-lines:]


def _records(file: Path) -> Iterator[list[str]]:
    """Log records from the end of a file: the line with the time, plus its traceback."""
    record: list[str] = []
    for line in _tail(file):
        if _BEGINS.match(line):
            if record:
                yield record
            record = [line]
        elif record:
            record.append(line)
    if record:
        yield record


def _tail(file: Path) -> Iterable[str]:
    try:
        with file.open("rb") as log:
            log.seek(max(0, file.stat().st_size - _READ_BYTES))
            return log.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []
