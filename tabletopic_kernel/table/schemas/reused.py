"""Ids that a registry gave a second time, after it was emptied or restored, in words."""

from __future__ import annotations

from tabletopic_kernel.clients.registry.registry import RegisteredSchema, Registry, UnknownSchemaError
from tabletopic_kernel.formats.wire import comparable
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.values import AcceptedText, accepted
from tabletopic_kernel.table.schemas.columns import REASONS
from tabletopic_kernel.table.schemas.covered import CoveredSchema, covered_schemas
from tabletopic_kernel.table.schemas.registered import find_registered, look_up, text_of
from tabletopic_kernel.table.schemas.sides import of_values
from tabletopic_kernel.table.topic_table import TopicTable

_MOST_IDS = 100  # that are asked for; each costs a request


def is_in_question(text: str, noted: CoveredSchema | None, answer: AcceptedText | None) -> bool:
    """Whether records of an id with this text in the registry may have been written with another one."""
    if answer is not None:
        return text != answer.text
    return noted is not None and len({text, *comparable(text, noted.texts)}) > 1


def why_reused(
    topic: str, registered: RegisteredSchema, noted: CoveredSchema | None, answer: AcceptedText | None
) -> str:
    """Why records of an id wait, and what a person can say."""
    return (
        f"{_two_texts(registered, noted, answer)}. Its records, and those after them, wait until you say "
        f"which text they were written with: `tabletopic schema {topic} --accept {registered.id}` takes the "
        f"registry's. With --as ID, it takes the text that the registry now has as ID"
    )


def _two_texts(registered: RegisteredSchema, noted: CoveredSchema | None, answer: AcceptedText | None) -> str:
    known = f"text {answer.text if answer else noted.texts[0] if noted else ''}"
    place = f"version {noted.version} of {noted.subject or 'no subject'}, " if noted else ""
    others = set(noted.texts[1:] if noted else ()) - {registered.fingerprint}
    between = f", and had {', '.join(sorted(others))} in between" if others else ""
    return (
        f"the registry gave schema id {registered.id} more than once: the table knows it as {place}{known}; "
        f"the registry has version {registered.version} of {registered.subject or 'no subject'}, "
        f"text {registered.fingerprint}{between}"
    )


def reused_ids(table: TopicTable, topic: str, registry: Registry, settings: TopicSettings) -> list[str]:
    """The covered ids of values whose text is in question, and what the registry's would change."""
    settings = table.adapted(settings)
    side, answers, lines = of_values(topic, settings), accepted(settings.accepted_texts), []
    noted = covered_schemas(table.table.properties)
    numbers = sorted(key for key in noted if isinstance(key, int))
    for key, schema in look_up(
        lambda key: text_of(registry, key, side.subject, settings), numbers[-_MOST_IDS:]
    ):
        known, answer = noted[key], answers.get(key)
        if isinstance(schema, UnknownSchemaError) or not is_in_question(schema.fingerprint, known, answer):
            continue
        registered = find_registered(registry, key, side.subject, settings)
        lines.append(_two_texts(registered, known, answer))
        try:
            change = side.columns(key, side.writer(registered)).evolution(table, settings, None)
        except tuple(REASONS) as error:
            lines.append(f"id {key} as in the registry: {error}")
            continue
        lines += [f"id {key} as in the registry: {sentence}" for sentence in change.changes]
        lines += [
            f"id {key} as in the registry: refused: {name} {why}" for name, why in change.refused.items()
        ]
    return lines
