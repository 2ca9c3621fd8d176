"""What an assistant may do: operations that read, with some of their arguments, and queries of tables.

Names, descriptions and limits of arguments come from the operations.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from tabletopic_kernel.faces.operations import BY_NAME
from tabletopic_kernel.faces.operations.operation import (
    REQUIRED,
    Argument,
    JsonText,
    Option,
    details_of,
    plain,
    signature_of,
    summary_of,
)
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.redact import redact
from tabletopic_kernel.model.topic_names import kafka_topic

if TYPE_CHECKING:
    from tabletopic_kernel.workbench.workbench import Workbench

_MOST_ROWS: Final = 1_000
_MOST_CHARACTERS: Final = 100_000  # of an answer; assistants take no more
_MOST_BYTES: Final = 16 * 1024**2  # of rows in memory
# It also matches what has no end, which JSON does not contain: so its time is linear in any text.
_JSON_STRING: Final = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)


def topics(workbench: Workbench) -> list[dict[str, Any]]:
    """List the topics of Kafka: partitions, and the table of each that is a table topic."""
    enabled, counts = workbench.desired_topics(), workbench.kafka_topics()
    return [
        {
            "topic": name,
            "partitions": counts.get(kafka_topic(name)),
            "table": workbench.table_of(name) if name in enabled else None,
        }
        for name in sorted(enabled.keys() | counts.keys())
    ]


def query(
    workbench: Workbench,
    sql: Annotated[str, Option("One SELECT in DuckDB's SQL; SHOW TABLES lists the tables")],
    limit: Annotated[int, Option("How many rows", least=1)] = 100,
    at: Annotated[str | None, Option("Read the tables as of a snapshot or time")] = None,
) -> JsonText:
    """Query the tables in SQL.

    Name a table as table, namespace.table or catalog.namespace.table. A query
    sees tables and nothing else: no file, setting or other server. Answers hold
    at most 1,000 rows and 100,000 characters, and say if there are more.
    """
    from tabletopic_kernel.render.values import json_text, rows_of, unique_names  # noqa: PLC0415 - loads Arrow

    answer = workbench.sealed_lake.query(sql, at, limit=limit, most_bytes=_MOST_BYTES)
    names, rows, left = unique_names(answer.rows.column_names), list[str](), _MOST_CHARACTERS // 2
    for row in rows_of(answer.rows):
        text = json_text(dict(zip(names, row, strict=True)))
        left -= len(text)
        if left < 0:
            break
        rows.append(text)
    if answer.rows.num_rows and not rows:
        raise UsageError(
            f"the first row has more than {_MOST_CHARACTERS // 2:,} characters: select less of it"
        )
    is_cut = answer.truncated or len(rows) < answer.rows.num_rows
    tables = json.dumps([asdict(read) for read in answer.tables])
    body = ",\n ".join(rows)
    return JsonText(f'{{"tables": {tables}, "truncated": {json.dumps(is_cut)}, "rows": [\n {body}]}}')


@dataclass(frozen=True)
class Tool:
    """A tool: what it runs, and which of the function's arguments an assistant may give."""

    name: str
    run: Callable[..., Any]
    arguments: tuple[str, ...]
    json: Callable[[Any], Any] = plain

    @property
    def description(self) -> str:
        """The docstring, without the example of the command line."""
        paragraphs = [f"{summary_of(self.run)}.", *details_of(self.run).split("\n\n")]
        return "\n\n".join(text for text in paragraphs if not text.startswith("Example:")).strip()

    @cached_property
    def model(self) -> type[BaseModel]:
        """The arguments; others are refused."""
        signature = signature_of(self.run)
        fields: dict[str, Any] = {
            argument.name: _field(argument)
            for argument in signature.arguments
            if argument.name in self.arguments
        }
        if signature.settings is not None:
            fields["settings"] = dict[str, Any], Field({}, description="Settings as in tabletopic.toml")
        return create_model(self.name, __config__=ConfigDict(extra="forbid"), **fields)

    def answer(self, workbench: Workbench, given: Mapping[str, Any]) -> str:
        """The result as JSON, secrets masked; UsageError: it is too long, or an argument is wrong."""
        try:
            arguments = self.model.model_validate(dict(given))
        except ValidationError as error:
            wrong = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
            raise UsageError(f"{self.name}: {'; '.join(wrong)}") from None
        values = {name: getattr(arguments, name) for name in type(arguments).model_fields}
        result = self.json(self.run(workbench, **values))
        text = result.text if isinstance(result, JsonText) else json.dumps(result, ensure_ascii=False)
        text = _JSON_STRING.sub(_masked, text)
        if len(text) > _MOST_CHARACTERS:
            raise UsageError(
                f"the answer of {self.name} has more than {_MOST_CHARACTERS:,} characters: ask for less"
            )
        return text


def _field(argument: Argument) -> tuple[Any, Any]:
    option, is_required = argument.option, argument.default is REQUIRED
    kind = argument.kind if is_required or argument.default is not None else argument.kind | None
    most = _MOST_ROWS if argument.name == "limit" else option.most
    return kind, Field(
        ... if is_required else argument.default, description=option.help, ge=option.least, le=most
    )


def _masked(string: re.Match[str]) -> str:
    return json.dumps(redact(json.loads(string[0])), ensure_ascii=False)


def _operation(name: str, *arguments: str) -> Tool:
    operation = BY_NAME[name]
    return Tool(name, operation.run, arguments, operation.json)


# Arguments that name files, follow a topic or change anything are left out.
TOOLS: Final = {
    tool.name: tool
    for tool in (
        Tool("topics", topics, ()),
        _operation("status", "topic"),
        _operation("plan", "topic"),
        _operation("schema", "topic", "version", "diff"),
        _operation("peek", "topic", "limit", "start", "at", "before", "partition", "key", "where", "raw"),
        Tool("query", query, ("sql", "limit", "at"), lambda answer: answer),
    )
}
