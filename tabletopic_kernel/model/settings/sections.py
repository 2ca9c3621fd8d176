"""The settings: one model per section, with units in names and reasons for limits."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from tabletopic_kernel.model.settings.cluster import SparkSettings
from tabletopic_kernel.model.settings.values import (
    AcceptedTexts,
    CatalogName,
    CatalogProperties,
    DurationMs,
    Expectations,
    Frozen,
    MetadataColumn,
    NonEmpty,
    SizeBytes,
    Start,
    TableProperties,
)
from tabletopic_kernel.model.topic_names import kafka_topic

DEFAULT_CATALOG_NAME = "lake"

# A file system splits paths at slashes, SQL and catalogs split names at dots, and a file's name has at most
# 255 bytes; the dead-letter table's name is longer than its table's.
_NO_NAME = re.compile(r"[./\\\x00-\x1f\x7f]|^\s|\s$")
NAME_BYTES = 200
_TIME_TRAVEL_MS = 5 * 86_400_000
# With these a commit takes some 1.5 times as long as to a new table (docs/evidence/performance.md).
_MAX_SNAPSHOTS = 500
# Up to the comma between two items, not the one inside bucket(16, user_id).
_ITEM = re.compile(r"(?:\([^()]*\)|[^,])+")


class TopicSettings(Frozen):
    """How one table topic runs. Durations in ms, sizes in bytes."""

    catalog: NonEmpty | None = Field(
        None, description="catalog of the table, one of [catalogs.<name>]; default: [catalog]"
    )
    namespace: NonEmpty = Field("default", description="Iceberg namespace; dots nest")
    table: NonEmpty | None = Field(None, description="table name; default: derived from the topic's")
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
    mode: Literal["append", "upsert"] = Field(
        "append", description="keep a row for each record, or only the newest row of each key"
    )
    key: tuple[str, ...] = Field(
        (), description="with upsert: columns of a row's key; default: the Kafka key"
    )
    order_by: NonEmpty | None = Field(None, description="with upsert: a column; the larger value is newer")
    deleted_keys: Literal["needed", "forever"] = Field(
        "needed",
        description="with upsert: remember a deleted key until no older change of it can arrive, or forever",
    )
    start: Start = Field("earliest", description="where to begin a new table: earliest, latest, or a time")
    value_format: Literal["by_schema_id", "by_latest_schema", "json", "string", "raw"] = Field(
        "by_schema_id",
        description="how values are encoded: each with a schema id, all by the newest schema of a subject, "
        "JSON without a schema, text, or bytes",
    )
    value_subject: NonEmpty | None = Field(
        None,
        description="subject of the newest schema: with RecordNameStrategy the record's full name, with "
        "TopicRecordNameStrategy topic-name; default: topic-value",
    )
    subjects: Literal["own", "any", "value_subject"] = Field(
        "own",
        description="which schemas records may use: own ones, any in the registry, or those of value_subject "
        "while records of other subjects are ignored. Own subjects are topic-value, topic-key, value_subject "
        "and those with the record's name",
    )
    accepted_texts: AcceptedTexts = Field(
        (), description="the text that records mean by a reused schema id: see schema --accept"
    )
    value_message: NonEmpty | None = Field(
        None, description="the records' message type in a Protobuf file; default: the first"
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
    debezium_types: Literal["native", "as_sent"] = Field(
        "native",
        description="values with a type name of Debezium or Kafka Connect: become dates, times, decimals and "
        "UUIDs, or stay numbers and text; an existing table keeps its own",
    )
    projection: NonEmpty | None = Field(
        None,
        description="SELECT … FROM batch, with or without a WHERE, over the columns of the transform",
        json_schema_extra={"format": "sql"},  # forms give it several lines
    )
    column_names: Literal["as_written", "lower"] = Field(
        "as_written",
        description="names of new columns: as in the schema, or in lowercase, which Athena, Glue and "
        "Snowflake need; a projection names its columns itself",
    )
    metadata_columns: tuple[MetadataColumn, ...] = Field(
        ("key", "header", "metadata"), description="which _kafka_* columns the table has"
    )
    errors: Literal["dead_letter", "skip", "stop"] = Field(
        "dead_letter",
        description="a record that cannot become a row: keep it in the dead-letter table, skip and count it, "
        "or stop the topic",
    )
    expectations: Expectations = Field(
        (),
        description="rules on rows, each NAME: CONDITION: ACTION with a condition in SQL. A row for which it "
        "is false is counted (warn), refused (dead_letter), or stops the topic (stop)",
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
    rename: Literal["by_alias", "by_number"] = Field(
        "by_alias",
        description="new fields that rename a column: those with its name as an alias (Avro), or also those "
        "with its number (Protobuf)",
    )
    on_gap: Literal["stop", "go_on"] = Field(
        "stop",
        description="records that retention deleted before they were read: stop the topic, or record their "
        "offsets and continue after them",
    )
    on_truncation: Literal["stop", "mark", "rewind"] = Field(
        "stop", description="rows whose records the topic's log lost: stop the topic, mark or delete them"
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
    # 1 h: rows are looked for once in that time. 100 years: more means forever.
    keep_ms: DurationMs | None = Field(
        None,
        ge=3_600_000,
        le=36_500 * 86_400_000,
        description="how long rows are kept by their time in keep_by; then the topic's owner deletes them; "
        "unset: forever",
    )
    keep_by: NonEmpty | None = Field(
        None,
        description="with keep_ms: a column of timestamps or dates; default: the first that partitions by "
        "time, else the record's timestamp. Rows without a time stay",
    )
    table_properties: TableProperties = Field(default_factory=dict, description="Iceberg table properties")

    @property
    def snapshot_limit(self) -> int | None:
        """The maximum number of snapshots that ``time_travel_ms`` keeps; None for no limit."""
        if self.max_snapshots is not None:
            return self.max_snapshots or None
        return _MAX_SNAPSHOTS if self.time_travel_ms is None else None

    @property
    def snapshots_kept_ms(self) -> int:
        """How long snapshots are kept, default included."""
        return _TIME_TRAVEL_MS if self.time_travel_ms is None else self.time_travel_ms

    def subject_of(self, topic: str) -> str:
        """The registry's subject for the newest schema of the topic's values."""
        return self.value_subject or f"{kafka_topic(topic)}-value"

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
            if not part or _NO_NAME.search(part) or len(part.encode()) > NAME_BYTES:
                raise ValueError(
                    f"{part!r} is not a valid name: use 1 to {NAME_BYTES} bytes without dots, slashes, "
                    "control characters, or spaces at either end"
                )
        return value

    @field_validator("partition_by", "sort_by", "key", "metadata_columns", "accepted_texts", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        """Text from the environment or command line is a comma-separated list; empty means none."""
        if not isinstance(value, str):
            return value
        return tuple(item.strip() for item in _ITEM.findall(value) if item.strip())


class AthenaSettings(Frozen):
    """Queries by Amazon Athena. Region and credentials are those of ``[catalog]``, or AWS's defaults."""

    workgroup: NonEmpty | None = Field(None, description="unset: AWS_ATHENA_WORK_GROUP, else `primary`")
    output_location: NonEmpty | None = Field(
        None,
        description="S3 folder for results, if the workgroup neither sets one nor manages results itself",
    )
    catalog: NonEmpty | None = Field(
        None,
        description="Athena's name for the catalog, if [catalog] does not determine it: AwsDataCatalog for "
        "Glue, s3tablescatalog/BUCKET for S3 Tables",
    )


class LiveSettings(Frozen):
    """Live reads: how much a query reads of what is behind a table; the answer says what was left out."""

    # Ten million: their rows are in the memory of the program that asks.
    records: int = Field(
        1_000_000, ge=1, le=10_000_000, description="records that a query reads behind a table at most"
    )
    bytes: SizeBytes = Field(
        512 * 1024**2, ge=1024**2, le=16 * 1024**3, description="bytes of them, as the broker has them"
    )
    timeout_ms: DurationMs = Field(30_000, ge=1_000, le=600_000, description="how long a query reads them")


class NotifySettings(Frozen):
    """Whom a host tells that something needs a person."""

    webhook_url: NonEmpty | None = Field(None, description="gets a POST of JSON; `text` is Slack's")
    command: NonEmpty | None = Field(None, description="a program with arguments; gets the JSON on stdin")
    repeat_ms: DurationMs = Field(3_600_000, ge=1_000, description="how long a cause is not sent again")
    timeout_ms: DurationMs = Field(10_000, ge=100, le=60_000, description="how long each may take")


class LineageSettings(Frozen):
    """Where a host sends OpenLineage events."""

    to: NonEmpty | None = Field(None, description="an http or https URL, or a file that they are added to")
    api_key: NonEmpty | None = Field(None, description="sent to the URL as a bearer token")
    namespace: NonEmpty = Field("tabletopic", description="of the jobs")
    every_ms: DurationMs = Field(10_000, ge=0, description="commits of a topic within it are one event")


class LocalSettings(Frozen):
    """The embedded servers."""

    login: Literal["auto", "on", "off"] = Field(
        "auto", description="of broker and registry; auto: where others have accounts, and behind a Hub"
    )


class Settings(Frozen):
    """All settings in force for one process. An absent server means the embedded one.

    ``kafka`` holds librdkafka properties, ``registry`` the Confluent registry client's (``url``,
    ``basic.auth.user.info``…), ``catalog`` PyIceberg's plus ``name``, ``catalogs`` PyIceberg's of further
    ones by name.
    """

    state_dir: NonEmpty = Field(".tabletopic", description="folder of the local stack and of local state")
    kafka: dict[str, str] = Field(default_factory=dict, description="librdkafka properties")
    registry: dict[str, str] = Field(default_factory=dict, description="registry client properties")
    catalog: dict[str, str] = Field(default_factory=dict, description="PyIceberg catalog properties")
    catalogs: dict[CatalogName, CatalogProperties] = Field(
        default_factory=dict, description="PyIceberg catalog properties of a further catalog"
    )
    spark: SparkSettings = Field(default_factory=SparkSettings, description="the Spark session")
    athena: AthenaSettings = Field(default_factory=AthenaSettings, description="queries by Amazon Athena")
    live: LiveSettings = Field(default_factory=LiveSettings, description="live reads")
    notify: NotifySettings = Field(default_factory=NotifySettings, description="webhook and command")
    lineage: LineageSettings = Field(default_factory=LineageSettings, description="OpenLineage events")
    local: LocalSettings = Field(default_factory=LocalSettings, description="the local stack")
    topics: dict[str, TopicSettings] = Field(default_factory=dict, description="one section per topic")
