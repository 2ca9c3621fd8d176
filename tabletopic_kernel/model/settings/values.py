"""The base of a settings section, and the types of its values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from tabletopic_kernel.model import accepted_texts
from tabletopic_kernel.model.redact import mask_property
from tabletopic_kernel.model.settings import table_properties
from tabletopic_kernel.model.settings.servers import check_catalog, check_catalog_name
from tabletopic_kernel.model.settings.units import parse_duration_ms, parse_size_bytes, parse_start

NonEmpty = Annotated[str, Field(min_length=1)]
DurationMs = Annotated[int, BeforeValidator(parse_duration_ms)]
SizeBytes = Annotated[int, BeforeValidator(parse_size_bytes)]
Start = Annotated[Literal["earliest", "latest"] | int, BeforeValidator(parse_start)]
MetadataColumn = Literal["key", "header", "metadata"]
AcceptedTexts = Annotated[tuple[str, ...], AfterValidator(accepted_texts.checked)]
CatalogName = Annotated[str, AfterValidator(check_catalog_name)]
TableProperties = Annotated[dict[str, str], AfterValidator(table_properties.checked)]
CatalogProperties = Annotated[dict[str, str], AfterValidator(check_catalog)]


class Frozen(BaseModel):
    """A frozen section that takes no unknown key; its ``repr`` hides the secrets among its properties."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, _without_secrets("", value) if isinstance(value, dict) else value


def _without_secrets(key: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_secrets(name, inner) for name, inner in value.items()}
    return mask_property(key, value) if isinstance(value, str) else value
