"""What can be set: one model per section, with units in the names and limits with reasons."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

_DURATION = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d)?\s*$")
_DURATION_MS = {"ms": 1, "s": 1000, None: 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([kmgt]i?b?|b)?\s*$", re.IGNORECASE)
_SIZE_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_duration_ms(value: object) -> object:
    """Milliseconds of ``"500ms"``, ``"5s"``, ``"1.5 min"``; a bare number in text is seconds."""
    if not isinstance(value, str):
        return value
    match = _DURATION.match(value)
    if match is None:
        raise ValueError(f"{value!r} is no duration; write for example 500ms, 5s, 2m or 1h")
    return round(float(match[1]) * _DURATION_MS[match[2]])


def parse_size_bytes(value: object) -> object:
    """Bytes of ``"128MB"`` or ``"64 MiB"`` (both powers of 1024); a bare number is bytes."""
    if not isinstance(value, str):
        return value
    match = _SIZE.match(value)
    if match is None:
        raise ValueError(f"{value!r} is no size; write for example 64MB or 1GB")
    unit = (match[2] or "").lower().rstrip("b").rstrip("i")
    return round(float(match[1]) * 1024 ** _SIZE_POWER[unit])


def parse_start(value: object) -> object:
    """``earliest``, ``latest``, epoch milliseconds or an ISO 8601 time (UTC where it has no zone)."""
    if value in ("earliest", "latest") or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, str) and value.strip().isdigit():
        return int(value)
    if isinstance(value, str):
        from datetime import UTC, datetime  # noqa: PLC0415 - only here, and rarely

        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            pass
        else:
            return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    raise ValueError(f"{value!r} is no start; write earliest, latest, or a time such as 2026-01-31T12:00:00Z")


DurationMs = Annotated[int, BeforeValidator(parse_duration_ms)]
SizeBytes = Annotated[int, BeforeValidator(parse_size_bytes)]
Start = Annotated[Literal["earliest", "latest"] | int, BeforeValidator(parse_start)]
MetadataColumn = Literal["key", "header", "metadata"]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TopicSettings(_Model):
    """How one table topic runs. Durations in ms, sizes in bytes."""

    namespace: str = Field("default", min_length=1, description="Iceberg namespace; dots nest")
    table: str | None = Field(None, min_length=1, description="table name; without it, made from the topic's")
    # 100 ms: below, a commit takes longer than the interval. 1 h: above, lag is no longer a stream's.
    commit_interval_ms: DurationMs = Field(5_000, ge=100, le=3_600_000, description="time between commits")
    # 1 MiB: smaller commits only make small files. 16 GiB: a commit must fit on a disk.
    commit_bytes: SizeBytes = Field(
        256 * 1024**2, ge=1024**2, le=16 * 1024**3, description="commit earlier once this much is staged"
    )
    target_file_size_bytes: SizeBytes = Field(
        128 * 1024**2, ge=1024**2, le=4 * 1024**3, description="size at which a data file is closed"
    )
    partition_by: tuple[str, ...] = Field(
        (), description="Iceberg transforms, e.g. hour(event_time), bucket(16, user_id), country"
    )
    start: Start = Field("earliest", description="where to begin a new table: earliest, latest, or a time")
    value_format: Literal["by_schema_id"] = Field("by_schema_id", description="how values are encoded")
    key_format: Literal["raw", "string", "none"] = Field("raw", description="type of the _kafka_key column")
    transform: Literal["flatten", "none"] = Field(
        "flatten", description="flatten: value fields are columns; none: one _kafka_value column"
    )
    metadata_columns: tuple[MetadataColumn, ...] = Field(
        ("key", "header", "metadata"), description="which _kafka_* columns the table has"
    )
    errors: Literal["stop"] = Field("stop", description="what a record that cannot become a row does")
    on_incompatible: Literal["stop"] = Field("stop", description="what a refused schema change does")
    table_properties: dict[str, str] = Field(default_factory=dict, description="Iceberg table properties")

    @field_validator("partition_by", "metadata_columns", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value


class SparkSettings(_Model):
    """The Spark session that runs the workers."""

    master: str = Field("local[*]", description="spark.master")
    conf: dict[str, str] = Field(default_factory=dict, description="any Spark property")


class Settings(_Model):
    """Everything in force for one process. An absent server means the embedded one.

    ``kafka`` holds librdkafka properties, ``registry`` the Confluent registry client's (``url``,
    ``basic.auth.user.info``…), ``catalog`` PyIceberg's plus ``name``.
    """

    state_dir: str = Field(".tabletopic", description="folder of the embedded stack and of local state")
    kafka: dict[str, str] = Field(default_factory=dict)
    registry: dict[str, str] = Field(default_factory=dict)
    catalog: dict[str, str] = Field(default_factory=dict)
    spark: SparkSettings = Field(default_factory=SparkSettings)
    topics: dict[str, TopicSettings] = Field(default_factory=dict)


class TopicWish(_Model):
    """One message of the settings topic: what should run. Key = topic; a tombstone = disabled."""

    topic: str
    run: Literal["on", "paused"] = "on"
    settings: TopicSettings = Field(default_factory=TopicSettings)
    # Who wrote it and when, for people; no rule reads them.
    requested_by: str = ""
    requested_at_ms: int = 0

    def to_json(self) -> bytes:
        """The message's value."""
        return self.model_dump_json().encode()

    @classmethod
    def from_json(cls, raw: bytes) -> TopicWish:
        """Read a message's value; raises pydantic's ValidationError."""
        return cls.model_validate_json(raw)


def default_table_name(topic: str) -> str:
    """The table name of a topic: every run of characters other than letters, digits and _ is one _.

    >>> default_table_name("web.clicks-v2")
    'web_clicks_v2'
    """
    return re.sub(r"[^A-Za-z0-9_]+", "_", topic).strip("_") or "topic"


def table_identifier(topic: str, settings: TopicSettings) -> tuple[str, ...]:
    """Namespace parts and table name, as PyIceberg takes them."""
    return (*settings.namespace.split("."), settings.table or default_table_name(topic))


def flatten_properties(nested: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """TOML's ``bootstrap.servers = "x"`` is a nested table; properties want the dotted key back."""
    flat: dict[str, str] = {}
    for key, value in nested.items():
        if isinstance(value, dict):
            flat.update(flatten_properties(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = str(value).lower() if isinstance(value, bool) else str(value)
    return flat
