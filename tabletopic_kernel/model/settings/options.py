"""A table topic's settings as command-line options and magic options, and which of them may change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from shlex import quote
from typing import Any, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tabletopic_kernel.model.errors import SettingsError, UsageError
from tabletopic_kernel.model.settings.names import SettingPath
from tabletopic_kernel.model.settings.sections import TopicSettings

# The unit is part of the value here (5s, 64MB), so not of the name.
_OPTION_NAMES = {
    "commit_interval_ms": "--commit-interval",
    "time_travel_ms": "--time-travel",
    "keep_ms": "--keep",
    "target_file_size_bytes": "--target-file-size",
    "table_properties": "--table-property",
    "expectations": "--expect",
}
_UNITS = {
    "_ms": {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1},
    "_bytes": {"GB": 1024**3, "MB": 1024**2, "B": 1},
}
# Of settings without a default.
_EXAMPLES = {"time_travel_ms": 5 * 86_400_000, "max_snapshots": 500, "keep_ms": 90 * 86_400_000}
_METAVARS = {
    "commit_interval_ms": "DURATION",
    "time_travel_ms": "DURATION",
    "keep_ms": "DURATION",
    "keep_by": "COLUMN",
    "commit_bytes": "SIZE",
    "target_file_size_bytes": "SIZE",
    "start": "earliest|latest|TIME",
    "partition_by": "TRANSFORM",
    "sort_by": "COLUMN",
    "key": "COLUMN",
    "order_by": "COLUMN",
    "table_properties": "KEY=VALUE",
    "metadata_columns": "key,header,metadata",
    "accepted_texts": "ID=ID:FINGERPRINT",
    "expectations": "'NAME: CONDITION: ACTION'",
}


@dataclass(frozen=True)
class SettingOption:
    """One field of ``TopicSettings`` as an option; its value is text, which the model parses.

    ``help``: a sentence without its period. ``default``: as typed. ``several``: it may be repeated.
    ``offered``: there is something to choose.
    """

    field: str
    name: str
    metavar: str
    help: str
    default: str
    several: bool
    offered: bool


def setting_options() -> list[SettingOption]:
    """An option for every field of ``TopicSettings``."""
    return [_option(field) for field in TopicSettings.model_fields]


def _option(name: str) -> SettingOption:
    field = TopicSettings.model_fields[name]
    choices = "|".join(map(str, get_args(field.annotation))) if "Literal" in str(field.annotation) else ""
    return SettingOption(
        field=name,
        name=_option_name(name),
        metavar=_METAVARS.get(name) or choices or "TEXT",
        help=_help(name, field.description or ""),
        default=_default(name, field.get_default(call_default_factory=True)),
        several=get_origin(field.annotation) in (tuple, dict),
        offered="|" in choices or not choices,
    )


def _option_name(field: str) -> str:
    return _OPTION_NAMES.get(field, f"--{field.replace('_', '-')}")


def _help(name: str, description: str) -> str:
    text = description[:1].upper() + description[1:]
    repeatable = ("partition_by", "sort_by", "key", "expectations", "table_properties")
    return f"{text}; repeatable" if name in repeatable else text


def _default(name: str, default: object) -> str:
    if not default:
        return ""
    if isinstance(default, int | float):
        return as_typed(name, default)
    return ",".join(default) if isinstance(default, tuple) else str(default)


def as_typed(name: str, number: float) -> str:
    """A setting's number in the largest unit in which it is whole.

    >>> as_typed("commit_interval_ms", 100), as_typed("commit_bytes", 2**34), as_typed("keep_snapshots", 20)
    ('100ms', '16GB', '20')
    """
    units = next((units for ending, units in _UNITS.items() if name.endswith(ending)), {"": 1})
    unit, size = next((unit, size) for unit, size in units.items() if number % size == 0 or size == 1)
    return f"{number / size:.15g}{unit}"


def limits_of(name: str) -> str:
    """A number's limits, both included, with an example; empty if it has none."""
    field = TopicSettings.model_fields[name]
    least = next((limit.ge for limit in field.metadata if hasattr(limit, "ge")), None)
    most = next((limit.le for limit in field.metadata if hasattr(limit, "le")), None)
    if least is None or most is None:
        return ""
    example = field.default if field.default is not None else _EXAMPLES[name]
    return f"{as_typed(name, least)} to {as_typed(name, most)}, for example {as_typed(name, example)}"


def reason(path: SettingPath, detail: Mapping[str, Any]) -> str:
    """Why the value at a path is refused, and what is allowed, from an error of pydantic."""
    if path[0] == "topics" and path[-1] in TopicSettings.model_fields and (limits := limits_of(path[-1])):
        return f"allowed: {limits}"
    match detail["type"]:
        case "literal_error":
            return f"allowed: {detail['ctx']['expected']}"
        case "value_error":
            return str(detail["ctx"]["error"])
        case "string_too_short":
            return "must not be empty"
        case "extra_forbidden":
            return "unknown setting"
    return str(detail["msg"]).replace("Input should be", "must be")


def given_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of ``TopicSettings`` from the given options; raises UsageError, which names the option."""
    given = {name: value for name, value in options.items() if value not in (None, [], ())}
    for name in ("partition_by", "sort_by", "key", "metadata_columns", "accepted_texts"):
        if name in given:
            given[name] = ",".join(given[name])
    if properties := given.get("table_properties"):
        given["table_properties"] = dict(_pair(text) for text in properties)
    try:
        TopicSettings.model_validate(_with_unset(given))
    except ValidationError as error:
        wrong = {str(problem["loc"][0]): _reason(problem) for problem in error.errors()}
        raise UsageError(
            "; ".join(f"{_option_name(name)} {_typed(options[name])}: {why}" for name, why in wrong.items())
        ) from None
    return given


def _typed(value: object) -> str:
    return quote(",".join(value) if isinstance(value, list | tuple) else str(value))


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"--table-property {text!r} is not KEY=VALUE")
    return key.strip(), value.strip()


# They define the table, or where it began: another value means another table.
FIXED_SETTINGS = (
    "catalog",
    "namespace",
    "table",
    "mode",
    "key",
    "order_by",
    "start",
    "value_format",
    "key_format",
    "transform",
    "metadata_columns",
)


# Empty text unsets these; for the others it is a value.
_OPTIONAL = frozenset(name for name, field in TopicSettings.model_fields.items() if field.default is None)


def _with_unset(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: None if value == "" and name in _OPTIONAL else value for name, value in settings.items()}


def validated(settings: Mapping[str, Any]) -> TopicSettings:
    """The settings; raises SettingsError, which names the invalid keys."""
    try:
        topic_settings = TopicSettings.model_validate(_with_unset(settings))
    except ValidationError as error:
        raise SettingsError(explained(error)) from None
    # Not a limit of the model: a host must still read the settings of a topic that already has another one.
    if topic_settings.table_properties.get("format-version", "2") not in ("1", "2"):
        raise SettingsError(
            "table_properties.format-version: this program cannot write versions other than 1 and 2; "
            "leave it out, or set it to 2"
        )
    if topic_settings.mode == "append" and (topic_settings.key or topic_settings.order_by):
        raise SettingsError("key and order_by are for mode = upsert; set it, or leave them out")
    return topic_settings


def explained(error: ValidationError) -> str:
    """The wrong keys, each with what is wrong."""
    return "; ".join(
        f"{'.'.join(map(str, problem['loc']))}: {_reason(problem)}" for problem in error.errors()
    )


def _reason(problem: ErrorDetails) -> str:
    return reason(("topics", "", *map(str, problem["loc"])), dict(problem))


def altered(topic: str, now: TopicSettings, given: Mapping[str, Any]) -> TopicSettings:
    """The current settings, overridden by the given ones; raises UsageError for one that cannot change."""
    merged = {**now.model_dump(exclude_unset=True), **given}
    new_properties = given.get("table_properties", {})
    if isinstance(new_properties, Mapping) and (properties := {**now.table_properties, **new_properties}):
        merged["table_properties"] = properties
    settings = validated(merged)
    fixed = [name for name in FIXED_SETTINGS if getattr(settings, name) != getattr(now, name)]
    if fixed:
        moves = "catalog" in fixed and settings.catalog is not None
        option = f"--catalog {settings.catalog}" if moves else "--table OTHER"
        raise UsageError(
            f"{', '.join(fixed)} cannot be changed for an existing table. Fill another table with "
            f"`tabletopic enable {topic} {option}` and the new settings"
        )
    return settings
