"""Events of the control topic as JSON, with secrets masked."""

from __future__ import annotations

from typing import Any

from pydantic_core import PydanticSerializationError

from tabletopic_kernel.model.progress.events import EVENT_ADAPTER, HEARTBEATS, ControlEvent
from tabletopic_kernel.model.redact import redact

_MARKS = tuple(f'"type":"{kind}"'.encode() for kind in sorted(HEARTBEATS))

# Fields with text from any program; the others contain names and figures.
_TEXTS = frozenset({"reason", "error", "message", "changes", "refused"})


def event_json(event: ControlEvent) -> str:
    """The JSON of an event, with secrets masked."""
    try:
        text = event.model_dump_json()
    except PydanticSerializationError:  # another program's text cannot be encoded as UTF-8
        event = EVENT_ADAPTER.validate_python(_encodable(event.model_dump()))
        text = event.model_dump_json()
    return redacted(event, text).model_dump_json()


def _encodable(value: Any) -> Any:
    if isinstance(value, dict):
        return {_encodable(key): _encodable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_encodable(inner) for inner in value]
    return value.encode(errors="replace").decode() if type(value) is str else value


def is_heartbeat(raw: bytes) -> bool:
    """Whether JSON is a heartbeat's: most are, and parsing is slow. Quotes in text are escaped."""
    return any(mark in raw for mark in _MARKS)


def event_of_json(text: str) -> ControlEvent:
    """The event in a JSON text, masked (its writer may not have). Raises pydantic's ValidationError."""
    return redacted(EVENT_ADAPTER.validate_json(text), text)


def redacted(event: ControlEvent, text: str) -> ControlEvent:
    """The event with JSON ``text``, masked; most have nothing to mask."""
    if redact(text) == text:
        return event
    return EVENT_ADAPTER.validate_python(_redacted(event.model_dump(), is_text=False))


def _redacted(value: Any, *, is_text: bool) -> Any:
    if isinstance(value, dict):
        return {key: _redacted(inner, is_text=is_text or key in _TEXTS) for key, inner in value.items()}
    if isinstance(value, list):
        return [_redacted(inner, is_text=is_text) for inner in value]
    return redact(value) if is_text and isinstance(value, str) else value
