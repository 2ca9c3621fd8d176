"""The settings: one model per section, with units in names and reasons for limits.

Longer than other modules, as every setting is declared here once, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
)

from tabletopic_kernel.model.redact import mask_property
from tabletopic_kernel.model.settings import table_properties

DEFAULT_CATALOG_NAME = "lake"

# 15 digits: more exceed every limit, and 400 do not fit a float.
_DURATION = re.compile(r"^\s*(\d{1,15}(?:\.\d+)?)\s*(ms|s|m|min|h|d)?\s*$")
_DURATION_MS = {"ms": 1, "s": 1000, None: 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZE = re.compile(r"^\s*(\d{1,15}(?:\.\d+)?)\s*([kmgt]i?b?|b)?\s*$", re.IGNORECASE)
_SIZE_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
# A file system splits paths at slashes, SQL and catalogs split names at dots, and a file's name has at most
# 255 bytes; the dead-letter table's name is longer than its table's.
_NO_NAME = re.compile(r"[./\\\x00-\x1f\x7f]|^\s|\s$")
_NAME_BYTES = 200
_LAST_START_MS = 253_402_300_799_999  # the end of the year 9999
_TIME_TRAVEL_MS = 5 * 86_400_000
# With these a commit takes about one and a half times as long as to a new table (docs/performance.md).
_MAX_SNAPSHOTS = 500
# First parts of names in SQL, in Spark's properties and in variables, which have no case; and the names that
# DuckDB and Spark use for their own catalogs.
_CATALOG_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_TAKEN_CATALOG_NAMES = frozenset({"memory", "system", "temp", "spark_catalog"})
# Up to the comma between two items, not the one inside bucket(16, user_id).
_ITEM = re.compile(r"(?:\([^()]*\)|[^,])+")


def parse_duration_ms(value: object) -> object:
    """Milliseconds of ``"500ms"``, ``"5s"``, ``"1.5 min"``; a bare number in text is seconds."""
    if not isinstance(value, str):
        return value
    match = _DURATION.match(value)
    if match is None:
        raise ValueError(f"{value!r} is not a duration; use a value such as 500ms, 5s, 2m or 1h")
    return round(float(match[1]) * _DURATION_MS[match[2]])


def parse_size_bytes(value: object) -> object:
    """Bytes of ``"128MB"`` or ``"64 MiB"`` (both powers of 1024); a bare number is bytes."""
    if not isinstance(value, str):
        return value
    match = _SIZE.match(value)
    if match is None:
        raise ValueError(f"{value!r} is not a size; use a value such as 64MB or 1GB")
    unit = (match[2] or "").lower().rstrip("b").rstrip("i")
    return round(float(match[1]) * 1024 ** _SIZE_POWER[unit])


def parse_start(value: object) -> object:
    """``earliest``, ``latest``, epoch milliseconds or an ISO 8601 time (UTC if it has no zone)."""
    if isinstance(value, date):  # TOML has its own times; a datetime is a date
        value = value.isoformat()
    if isinstance(value, str):
        value = _start_of_text(value.strip())
    if value in ("earliest", "latest") or (type(value) is int and 0 <= value <= _LAST_START_MS):
        return value
    raise ValueError(
        f"{value!r} is not a start; use earliest, latest, or a time such as 2026-01-31T12:00:00Z"
    )


def _start_of_text(text: str) -> str | int:
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _check_catalog_name(name: str) -> str:
    if not _CATALOG_NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot name a catalog: use lowercase letters, digits and _, starting with a letter"
        )
    if name in _TAKEN_CATALOG_NAMES:
        raise ValueError(f"{name!r} cannot name a catalog: DuckDB or Spark uses that name")
    return name


def _check_catalog(properties: dict[str, str]) -> dict[str, str]:
    if "name" in properties:
        raise ValueError("the section's name is the catalog's name: remove the property name")
    if not properties:
        raise ValueError("does not define a catalog: set type, uri, warehouse… as in [catalog]")
    return properties


DurationMs = Annotated[int, BeforeValidator(parse_duration_ms)]
SizeBytes = Annotated[int, BeforeValidator(parse_size_bytes)]
Start = Annotated[Literal["earliest", "latest"] | int, BeforeValidator(parse_start)]
MetadataColumn = Literal["key", "header", "metadata"]
CatalogName = Annotated[str, AfterValidator(_check_catalog_name)]
TableProperties = Annotated[dict[str, str], AfterValidator(table_properties.checked)]
CatalogProperties = Annotated[dict[str, str], AfterValidator(_check_catalog)]


class _Model(BaseModel):
    """A frozen section that takes no unknown key; its ``repr`` hides the secrets among its properties."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, _without_secrets(value) if isinstance(value, dict) else value


def _without_secrets(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        key: mask_property(key, value)
        if isinstance(value, str)
        else _without_secrets(value)
        if isinstance(value, dict)
        else value
        for key, value in properties.items()
    }


class TopicSettings(_Model):
    """How one table topic runs. Durations in ms, sizes in bytes."""

    catalog: str | None = Field(
        None,
        min_length=1,
        description="catalog of the table, one of [catalogs.<name>]; default: [catalog]",
    )
    namespace: str = Field("default", min_length=1, description="Iceberg namespace; dots nest")
    table: str | None = Field(None, min_length=1, description="table name; default: derived from the topic's")
    # 100 ms: below, a commit takes longer than the interval. 1 h: above, lag is no longer a stream's.
    commit_interval_ms: DurationMs = Field(5_000, ge=100, le=3_600_000, description="time between commits")
    # 1 MiB: smaller commits only create small files. 16 GiB: a commit must fit on a disk.
    commit_bytes: SizeBytes = Field(
        256 * 1024**2, ge=1024**2, le=16 * 1024**3, description="commit earlier once this much is staged"
    )
    target_file_size_bytes: SizeBytes = Field(
        128 * 1024**2, ge=1024**2, le=4 * 1024**3, description="size at which a data file is closed"
    )
    partition_by: tuple[str, ...] = Field(
        (),
        description="Iceberg transforms, e.g. hour(event_time), bucket(16, user_id), country; or none. "
        "Unset: an existing table keeps its own",
    )
    sort_by: tuple[str, ...] = Field(
        (),
        description="order of the rows in each new data file, e.g. user_id, event_time desc nulls first, "
        "bucket(16, id); or none. Unset: an existing table keeps its own",
    )
    start: Start = Field("earliest", description="where to begin a new table: earliest, latest, or a time")
    value_format: Literal["by_schema_id", "by_latest_schema", "json", "string", "raw"] = Field(
        "by_schema_id",
        description="how values are encoded: each with a schema id, all by the newest schema of a subject, "
        "JSON without a schema, text, or bytes",
    )
    value_subject: str | None = Field(
        None,
        min_length=1,
        description="subject of the newest schema: with RecordNameStrategy the record's full name, with "
        "TopicRecordNameStrategy topic-name; default: topic-value",
    )
    subjects: Literal["own", "any"] = Field(
        "own",
        description="which schemas records may use: those of the topic's own subjects (topic-value, "
        "topic-key, value_subject, and by the record's name), or any in the registry",
    )
    value_message: str | None = Field(
        None,
        min_length=1,
        description="the records' message type in a Protobuf file; default: the first",
    )
    value_nanos: Literal["refuse", "floor"] = Field(
        "refuse",
        description="a Protobuf Timestamp or Duration, or a JSON Schema time, finer than microseconds: "
        "refuse the record, or round down to the microsecond",
    )
    key_format: Literal["raw", "string", "by_schema_id", "none"] = Field(
        "raw",
        description="type of the _kafka_key column: bytes, text, the type of the schema named by each key's "
        "id, or no such column",
    )
    transform: Literal["flatten", "none", "flatten_debezium"] = Field(
        "flatten",
        description="which columns a value becomes: one per field (flatten), _kafka_value alone (none), or "
        "the row in a change event, with _cdc (flatten_debezium)",
    )
    projection: str | None = Field(
        None,
        min_length=1,
        description="SELECT … FROM batch, with or without a WHERE, over the columns of the transform",
        json_schema_extra={"format": "sql"},  # forms give it several lines
    )
    metadata_columns: tuple[MetadataColumn, ...] = Field(
        ("key", "header", "metadata"), description="which _kafka_* columns the table has"
    )
    errors: Literal["dead_letter", "skip", "stop"] = Field(
        "dead_letter",
        description="a record that cannot become a row: keep it in the dead-letter table, skip and count it, "
        "or stop the topic",
    )
    # 0: the first rejected record in 1,000 stops the topic. 1: the share never exceeds all.
    max_refused_share: float = Field(
        0.5,
        ge=0,
        le=1,
        description="stop when more than this share of the newest 1,000 records, or all of the first 100, "
        "are refused",
    )
    on_incompatible: Literal["dead_letter", "new_column", "stop"] = Field(
        "dead_letter",
        description="a schema that does not fit the table: refuse its records, give the field its own column "
        "(price_string), or stop the topic",
    )
    on_gap: Literal["stop", "go_on"] = Field(
        "stop",
        description="records that retention deleted before they were read: stop the topic, or record their "
        "offsets and continue after them",
    )
    maintenance: Literal["auto", "on", "off"] = Field(
        "auto",
        description="whether the topic's owner compacts small files and expires old snapshots; auto: unless "
        "the catalog does so itself, as S3 Tables do",
    )
    # 1 min: below, a running query may lose its files. 10 years: more means forever.
    time_travel_ms: DurationMs | None = Field(
        None,
        ge=60_000,
        le=3_650 * 86_400_000,
        description="how long snapshots are kept for time travel; unset: 5 days, the newest 500",
    )
    keep_snapshots: int = Field(
        20, ge=1, le=100_000, description="number of newest snapshots kept regardless of their age"
    )
    # 0: no limit besides time_travel_ms. A million: such metadata is a GB.
    max_snapshots: int | None = Field(
        None,
        ge=0,
        le=1_000_000,
        description="maximum number of snapshots that time_travel_ms keeps, the newest ones, because each "
        "slows down commits; 0: no limit; unset: no limit if time_travel_ms is set, else 500",
    )
    table_properties: TableProperties = Field(default_factory=dict, description="Iceberg table properties")

    @property
    def snapshot_limit(self) -> int | None:
        """The maximum number of snapshots that ``time_travel_ms`` keeps; None for no limit.

        An explicit setting counts: the limit, else the time.
        """
        if self.max_snapshots is not None:
            return self.max_snapshots or None
        return _MAX_SNAPSHOTS if self.time_travel_ms is None else None

    @property
    def snapshots_kept_ms(self) -> int:
        """How long snapshots are kept, default included."""
        return _TIME_TRAVEL_MS if self.time_travel_ms is None else self.time_travel_ms

    def subject_of(self, topic: str) -> str:
        """The registry's subject for the newest schema of the topic's values."""
        return self.value_subject or f"{topic}-value"

    @property
    def has_typed_keys(self) -> bool:
        """Whether the ``_kafka_key`` column has the type of the keys' schemas."""
        return self.key_format == "by_schema_id" and "key" in self.metadata_columns

    @field_validator("namespace", "table")
    @classmethod
    def _can_be_a_name(cls, value: str | None, info: ValidationInfo) -> str | None:
        """Folders are named like tables and namespaces."""
        parts = [] if value is None else [value] if info.field_name == "table" else value.split(".")
        for part in parts:
            if not part or _NO_NAME.search(part) or len(part.encode()) > _NAME_BYTES:
                raise ValueError(
                    f"{part!r} is not a valid name: use 1 to {_NAME_BYTES} bytes without dots, slashes, "
                    "control characters, or spaces at either end"
                )
        return value

    @field_validator("partition_by", "sort_by", "metadata_columns", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        """Text from the environment or command line is a comma-separated list; empty means none."""
        if not isinstance(value, str):
            return value
        return tuple(item.strip() for item in _ITEM.findall(value) if item.strip())


class SparkSettings(_Model):
    """The Spark session that runs the workers."""

    master: str = Field("local[*]", min_length=1, description="spark.master")
    conf: dict[str, str] = Field(default_factory=dict, description="any Spark property")
    # Settings cannot reveal this: whoever runs the cluster sets it. A host still tests the files.
    shared_files: bool = Field(
        False, description="executors of a cluster see this machine's folders, at the same paths"
    )
    shared_network: bool = Field(
        False, description="executors of a cluster run where 127.0.0.1 leads to the same servers as here"
    )

    @property
    def effective_master(self) -> str:
        """The effective master: a property of ``conf`` takes precedence over ``master``."""
        return self.conf.get("spark.master", self.master)

    @property
    def is_local(self) -> bool:
        """Whether the executors run on this machine."""
        return self.effective_master.startswith("local")

    @property
    def is_in_process(self) -> bool:
        """Whether the executors are threads of the driver."""
        return self.is_local and not self.effective_master.startswith("local-")


class AthenaSettings(_Model):
    """Queries by Amazon Athena. Region and credentials are those of ``[catalog]``, or AWS's defaults."""

    workgroup: str | None = Field(
        None, min_length=1, description="unset: AWS_ATHENA_WORK_GROUP, else `primary`"
    )
    output_location: str | None = Field(
        None,
        min_length=1,
        description="S3 folder for results, if the workgroup neither sets one nor manages results itself",
    )
    catalog: str | None = Field(
        None,
        min_length=1,
        description="Athena's name for the catalog, if [catalog] does not determine it: AwsDataCatalog for "
        "Glue, s3tablescatalog/BUCKET for S3 Tables",
    )


class LocalSettings(_Model):
    """The embedded servers."""

    login: Literal["auto", "on", "off"] = Field(
        "auto",
        description="whether the embedded broker and registry require a login; auto: where other people "
        "have accounts, and behind a JupyterHub",
    )


class Settings(_Model):
    """All settings in force for one process. An absent server means the embedded one.

    ``kafka`` holds librdkafka properties, ``registry`` the Confluent registry client's (``url``,
    ``basic.auth.user.info``…), ``catalog`` PyIceberg's plus ``name``, ``catalogs`` PyIceberg's of further
    ones by name.
    """

    state_dir: str = Field(
        ".tabletopic", min_length=1, description="folder of the embedded stack and of local state"
    )
    kafka: dict[str, str] = Field(default_factory=dict, description="librdkafka properties")
    registry: dict[str, str] = Field(default_factory=dict, description="registry client properties")
    catalog: dict[str, str] = Field(default_factory=dict, description="PyIceberg catalog properties")
    catalogs: dict[CatalogName, CatalogProperties] = Field(
        default_factory=dict, description="PyIceberg catalog properties of a further catalog"
    )
    spark: SparkSettings = Field(default_factory=SparkSettings, description="the Spark session")
    athena: AthenaSettings = Field(default_factory=AthenaSettings, description="queries by Amazon Athena")
    local: LocalSettings = Field(default_factory=LocalSettings, description="the embedded servers")
    topics: dict[str, TopicSettings] = Field(default_factory=dict, description="one section per topic")


GLUE_REGISTRY = "default-registry"  # AWS's default, if the settings name none


def is_glue(registry: Mapping[str, str]) -> bool:
    """Whether a ``[registry]`` section means AWS Glue.

    >>> is_glue({"type": "glue"}), is_glue({"url": "http://r"})
    (True, False)
    """
    return registry.get("type", "").lower() == "glue"


def registry_place(registry: Mapping[str, str]) -> str:
    """The registry's URL as set, including a login; Glue has none, so its name and region.

    >>> registry_place({"type": "glue", "glue.registry-name": "prod", "glue.region": "eu-west-1"})
    'AWS Glue schema registry prod in eu-west-1'
    """
    if not is_glue(registry):
        return registry.get("url", "")
    region = f" in {registry['glue.region']}" if "glue.region" in registry else ""
    return f"AWS Glue schema registry {registry.get('glue.registry-name', GLUE_REGISTRY)}{region}"


def names_registry(registry: Mapping[str, str]) -> bool:
    """Whether a ``[registry]`` section names a registry, so the embedded one is not needed."""
    return "url" in registry or is_glue(registry)


class _Request(_Model):
    """``asked_ms``: by the clock of whoever asks, for people; no rule reads it."""

    id: str
    asked_ms: int

    @property
    def events_from(self) -> int | None:
        """The control topic's end offset before the request; None if an older command made it.

        It is a part of the id, as older hosts reject messages with unknown fields.
        """
        offset = re.search(r"@([0-9]{1,18})$", self.id)
        return int(offset[1]) if offset else None


class ReplayRequest(_Request):
    """A requested replay of the dead letters that match ``where``."""

    where: str | None = None


class MaintenanceRequest(_Request):
    """A requested maintenance of a table, before it is due.

    ``where`` limits a compaction to the files that may have such rows; ``orphans``: an expiry removes files
    that no snapshot needs as well.
    """

    work: Literal["compact", "expire"]
    where: str | None = None
    orphans: bool = False


Request = ReplayRequest | MaintenanceRequest


class DesiredTopic(_Model):
    """One message of the settings topic: what should run. Key = topic; a tombstone = disabled."""

    topic: str
    run: Literal["on", "paused"] = "on"
    settings: TopicSettings = Field(default_factory=TopicSettings)
    # Who wrote it and when, for people; no rule reads them.
    requested_by: str = ""
    requested_at_ms: int = 0
    # When a commit was last requested before it was due; a host acts on each other time once.
    commit_asked_ms: int = 0
    # Hosts remember it until a later message replaces this one; each acts on it once.
    replay: ReplayRequest | None = None
    maintenance: MaintenanceRequest | None = None  # the same
    # Why a later message does not count; its readers note it, no message has it.
    refused: str | None = Field(None, exclude=True)

    @property
    def requests(self) -> list[Request]:
        """What the message asks for, besides a commit."""
        return [request for request in (self.replay, self.maintenance) if request is not None]

    def to_json(self) -> bytes:
        """The message's value.

        Only what was set: an older host refuses a setting that it does not know.
        """
        return self.model_dump_json(exclude_none=True, exclude_unset=True).encode()

    @classmethod
    def from_json(cls, raw: bytes) -> DesiredTopic:
        """Read a message's value; raises pydantic's ValidationError."""
        return cls.model_validate_json(raw).model_copy(update={"refused": None})


def default_table_name(topic: str) -> str:
    """The table name of a topic: every run of characters other than letters, digits and _ becomes one _.

    A name is cut off at 200 characters, as it names a folder.

    >>> default_table_name("web.clicks-v2")
    'web_clicks_v2'
    """
    return re.sub(r"[^A-Za-z0-9_]+", "_", topic).strip("_")[:_NAME_BYTES] or "topic"


def table_identifier(topic: str, settings: TopicSettings) -> tuple[str, ...]:
    """Namespace parts and table name, in PyIceberg's form."""
    return (*settings.namespace.split("."), settings.table or default_table_name(topic))


def in_sql(identifier: Sequence[str], catalog: str | None) -> str:
    """The dotted name of a table, prefixed with its catalog unless that is ``[catalog]``.

    >>> in_sql(("sales", "orders"), None), in_sql(("sales", "orders"), "prod")
    ('sales.orders', 'prod.sales.orders')
    """
    return ".".join(identifier if catalog is None else (catalog, *identifier))


def table_name(topic: str, settings: TopicSettings) -> str:
    """The dotted name of a topic's table, as in a query."""
    return in_sql(table_identifier(topic, settings), settings.catalog)


def flatten_properties(nested: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Turn nested tables back into dotted keys: TOML nests ``bootstrap.servers = "x"``.

    Raises ValueError for a value that has no text form.

    >>> flatten_properties({"bootstrap": {"servers": ["a:9092", "b:9092"]}, "enable.idempotence": True})
    {'bootstrap.servers': 'a:9092,b:9092', 'enable.idempotence': 'true'}
    """
    flat: dict[str, str] = {}
    for key, value in nested.items():
        if isinstance(value, Mapping):
            flat.update(flatten_properties(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = _property_text(f"{prefix}{key}", value)
    return flat


def _property_text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list | tuple):
        return ",".join(_property_text(name, item) for item in value)
    raise ValueError(f"{name} must be text, a number, true, false or a list of these")
