"""What the requests carry, checked before anything is done."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tabletopic_kernel.model.errors import UsageError

_B = TypeVar("_B", bound=BaseModel)


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SettingsBody(_Body):
    """Settings of a topic that differ from those of ``tabletopic.toml``; the workbench judges them."""

    settings: dict[str, Any] = Field(default_factory=dict)


class ReplayBody(_Body):
    """Which dead letters to try again: those of which ``where`` is true, or all."""

    where: str | None = None


class SampleBody(_Body):
    """How many click events to send, and where to."""

    # More is a load test, for which the command line has more to offer.
    count: int = Field(5_000, ge=1, le=100_000)
    # Kafka's own rule for names.
    topic: str = Field("clicks", pattern=r"^[A-Za-z0-9._-]{1,249}$")


class Limit(_Body):
    """How many of the newest."""

    limit: int = Field(50, ge=1, le=1_000)


def read_body(kind: type[_B], raw: bytes) -> _B:
    """The body of a request; none counts as an empty object.

    Raises:
        UsageError: it is no JSON, or not of this kind; the message names the key.
    """
    try:
        given = json.loads(raw or b"{}")
    except ValueError as error:
        raise UsageError(f"the request's body is no JSON: {error}") from None
    return _checked(kind, given)


def read_limit(text: str | None) -> int:
    """The query argument ``limit``. Raises UsageError."""
    return _checked(Limit, {} if text is None else {"limit": text}).limit


def _checked(kind: type[_B], given: Any) -> _B:
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        told = [f"{'.'.join(map(str, one['loc'])) or 'body'}: {one['msg']}" for one in error.errors()]
        raise UsageError("; ".join(told)) from None
