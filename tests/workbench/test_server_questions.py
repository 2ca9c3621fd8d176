"""The questions of `tabletopic init`, and the file that it writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tabletopic_kernel.clients.catalog import engine_properties
from tabletopic_kernel.clients.kafka.java_properties import java_properties
from tabletopic_kernel.model.errors import SettingsError
from tabletopic_kernel.workbench.config import load_settings
from tabletopic_kernel.workbench.server_questions import (
    CATALOG,
    KAFKA,
    SERVERS,
    Answers,
    Question,
    Server,
    Way,
    answer_way,
    secrets_of,
    settings_text,
)


def _leaves(way: Way) -> Iterator[tuple[Way, ...]]:
    """Each path of choices below a way."""
    for inner in way.then:
        yield from ((way, *rest) for rest in _leaves(inner))
    if not way.then:
        yield (way,)


def answers_of(path: tuple[Way, ...]) -> Answers:
    """A user who takes this path, and answers everything."""
    ways = iter(path)
    return answer_way(next(ways), _invent, lambda _, __: next(ways))


def _invent(question: Question) -> str:
    if question.choices:
        return question.choices[0]
    example = question.text.rpartition(" such as ")[2]
    return question.default or (example if " " not in example else f'a {question.key} with "quotes" and ü')


PATHS = [(server, path) for server in SERVERS for way in server.ways[1:] for path in _leaves(way)]
_NAMES = [" / ".join([server.section, *(way.text for way in path)]) for server, path in PATHS]


@pytest.mark.parametrize(("server", "path"), PATHS, ids=_NAMES)
def test_the_file_gives_back_theanswers_of(server: Server, path: tuple[Way, ...], tmp_path: Path) -> None:
    """Every way to every server becomes a settings file that loads with the same properties."""
    answers = answers_of(path)
    (tmp_path / "tabletopic.toml").write_text(
        settings_text({server.section: answers}, secrets_too=True), "utf-8"
    )
    loaded = load_settings(environ={}, cwd=tmp_path).settings
    assert getattr(loaded, server.section) == answers


@pytest.mark.parametrize(("server", "path"), PATHS, ids=_NAMES)
def test_secrets_come_by_named_variables(server: Server, path: tuple[Way, ...], tmp_path: Path) -> None:
    """A file without secrets, and the variables that it names in their place, are the same settings."""
    answers = answers_of(path)
    text = settings_text({server.section: answers}, secrets_too=False)
    (tmp_path / "tabletopic.toml").write_text(text, "utf-8")
    named = [line.rpartition(" ")[2] for line in text.splitlines() if ": set TABLETOPIC_" in line]
    secrets = [answers[name] for name in secrets_of(answers)]
    assert not [secret for secret in secrets if secret in text]
    environ = dict(zip(named, secrets, strict=True))
    assert getattr(load_settings(environ=environ, cwd=tmp_path).settings, server.section) == answers


def test_spark_and_duckdb_understand_theanswers_of() -> None:
    """Each way to Kafka and to a catalog can be passed on to Spark; Azure's storage is refused."""
    for way in KAFKA.ways[1:]:
        # Files that are not there are another error, and the broker's alone to tell.
        answers = {key: value for key, value in answers_of((way,)).items() if ".location" not in key}
        if "keystore" not in way.text.lower():
            assert java_properties(answers)
    for way in CATALOG.ways[1:]:
        for path in _leaves(way):
            answers = answers_of(path)
            if any(name.startswith("adls.") for name in answers):
                with pytest.raises(SettingsError, match="client for Azure storage"):
                    engine_properties.spark_catalog(answers)
            else:
                assert engine_properties.spark_catalog(answers)


def test_what_is_left_out_is_embedded() -> None:
    """A file of no answers sets nothing; what is asked hidden is a secret."""
    for _, path in PATHS:
        hidden = {question.key for way in path for question in way.questions if question.secret} - {"uri"}
        assert hidden <= set(secrets_of(answers_of(path)))
    text = settings_text({}, secrets_too=True)
    assert text.count("the one that `tabletopic up` starts") == len(SERVERS)
    assert not [line for line in text.splitlines() if line and not line.startswith("#")]
