"""The base of a settings section, and the types of its values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from tabletopic_kernel.model.redact import mask_property
from tabletopic_kernel.model.settings import table_properties
from tabletopic_kernel.model.settings.servers import check_catalog, check_catalog_name
from tabletopic_kernel.model.settings.units import parse_duration_ms, parse_size_bytes, parse_start

ACTIONS: Final = ("warn", "dead_letter", "stop")
_RULE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,59}")
_ANSWER: Final = re.compile(r"(\d{1,10})=(\d{1,10}):([0-9a-f]{16}(?:[0-9a-f]{2})?)")


@dataclass(frozen=True)
class AcceptedText:
    """The text that records mean by ``id``: the registry has it as ``registry_id``; its fingerprint.

    >>> str(AcceptedText.of("7=12:1f2e3d4c5b6a7988"))
    '7=12:1f2e3d4c5b6a7988'
    """

    id: int
    registry_id: int
    text: str

    @classmethod
    def of(cls, spelled: str) -> AcceptedText:
        """An item of the setting ``accepted_texts``; raises ValueError for another form."""
        match = _ANSWER.fullmatch(spelled)
        if match is None:
            raise ValueError(
                f"{spelled!r} is not ID=ID:FINGERPRINT; `tabletopic schema TOPIC --accept` writes it"
            )
        return cls(int(match[1]), int(match[2]), match[3])

    def __str__(self) -> str:
        return f"{self.id}={self.registry_id}:{self.text}"


def _checked_texts(spelled: tuple[str, ...]) -> tuple[str, ...]:
    """``accepted_texts``, the last for each id; raises ValueError as ``AcceptedText.of``."""
    return tuple(map(str, accepted(spelled).values()))


def accepted(spelled: Iterable[str]) -> dict[int | str, AcceptedText]:
    """The accepted texts by the id in records."""
    return {answer.id: answer for answer in map(AcceptedText.of, spelled)}


@dataclass(frozen=True)
class Expectation:
    """A rule on rows: ``sql`` is false for those that fail it; NULL does not fail, as in SQL's CHECK.

    >>> Expectation.of("paid: amount::int >= 0: warn")
    Expectation(name='paid', sql='amount::int >= 0', action='warn')
    """

    name: str
    sql: str
    action: str

    @classmethod
    def of(cls, spelled: str) -> Expectation:
        """An item of the setting ``expectations``; raises ValueError for another form."""
        name, _, rest = (part.strip() for part in spelled.partition(":"))
        sql, _, action = (part.strip() for part in rest.rpartition(":"))
        if not _RULE.fullmatch(name) or not sql or action not in ACTIONS:
            raise ValueError(
                f"{spelled!r} is not NAME: CONDITION: {'|'.join(ACTIONS)}; a name is like a column's"
            )
        return cls(name, sql, action)

    def __str__(self) -> str:
        return f"{self.name}: {self.sql}: {self.action}"


def _checked_expectations(spelled: tuple[str, ...]) -> tuple[str, ...]:
    """``expectations``; raises ValueError as ``Expectation.of``, and if a name occurs twice."""
    rules = [Expectation.of(text) for text in spelled if text.strip()]
    names = [rule.name.lower() for rule in rules]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"two expectations have the name {twice[0]}")
    return tuple(map(str, rules))


NonEmpty = Annotated[str, Field(min_length=1)]
DurationMs = Annotated[int, BeforeValidator(parse_duration_ms)]
SizeBytes = Annotated[int, BeforeValidator(parse_size_bytes)]
Start = Annotated[Literal["earliest", "latest"] | int, BeforeValidator(parse_start)]
MetadataColumn = Literal["key", "header", "metadata"]
AcceptedTexts = Annotated[tuple[str, ...], AfterValidator(_checked_texts)]
Expectations = Annotated[
    tuple[str, ...],
    # A condition may have commas: text from the environment has a rule a line.
    BeforeValidator(lambda value: value.splitlines() if isinstance(value, str) else value),
    AfterValidator(_checked_expectations),
]
CatalogName = Annotated[str, AfterValidator(check_catalog_name)]
TableProperties = Annotated[dict[str, str], AfterValidator(table_properties.checked)]
CatalogProperties = Annotated[dict[str, str], AfterValidator(check_catalog)]


class Frozen(BaseModel):
    """A frozen section that takes no unknown key; its ``repr`` hides the secrets among its properties."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, _without_secrets(name or "", value)


def _without_secrets(key: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_secrets(name, inner) for name, inner in value.items()}
    return mask_property(key, value) if isinstance(value, str) else value
