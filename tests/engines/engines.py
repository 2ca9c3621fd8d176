"""Asks each engine through the product's own queries, several questions at a time: planning takes longest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tabletopic_kernel.clients.catalog.engine_properties import spark_catalog
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.query.duckdb import DuckLake
from tabletopic_kernel.query.spark import SparkLake
from tabletopic_kernel.workbench.clients import Clients
from tabletopic_kernel.workbench.config.servers import Servers
from tests.engines.dialects import DuckDb, Spark, dotted
from tests.engines.questions import Question, condition_filter, condition_sql, operand_sql
from tests.engines.tables import History, Version
from tests.engines.values import Place, canonical, text

# A row as text: the number of the question, the row's id, what is shown.
Answer = list[str]


def session_in(folder: Path) -> SparkSession:
    """Spark as the product starts it; catalogs are added later."""
    return Clients(Settings(), Servers({}, {}, {"name": "unused", "uri": "sqlite://"}, folder)).spark()


class Engine:
    """Answers questions about one table, of one version; None: it has no such question."""

    name = ""

    def ask(self, version: Version, questions: Sequence[Question]) -> list[Answer | str | None]:
        """An answer each: rows, or the text of an error."""
        raise NotImplementedError


class SqlEngine(Engine):
    """DuckDB or Spark."""

    def __init__(self, dialect: DuckDb, run: Callable[[str, Version, str], Any]) -> None:
        self.name, self.dialect, self._run = dialect.name, dialect, run

    def ask(self, version: Version, questions: Sequence[Question]) -> list[Answer | str | None]:
        """An answer each; if one fails, each half is asked again."""
        try:
            rows = self._run(self.sql(version, questions), version, questions[0].how)
        except Exception as error:  # whatever it is, it is the answer
            if len(questions) == 1:
                return [f"{type(error).__name__}: {error}"]
            half = len(questions) // 2
            return self.ask(version, questions[:half]) + self.ask(version, questions[half:])
        found: dict[int, Answer] = defaultdict(list)
        for number, *values in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            base = 1 + sum(len(question.shown) for question in questions[:number])
            shown = values[base : base + len(questions[number].shown)]
            found[number].append(_line(values[0], shown, questions[number]))
        return [sorted(found[at]) for at in range(len(questions))]

    def sql(self, version: Version, questions: Sequence[Question]) -> str:
        """One statement: each question has a number, and columns of its own."""
        dialect, schema, selects = self.dialect, version.schema, []
        source = "clicks"
        if dialect.name == "spark" and questions[0].how != "head":
            seconds = f"{datetime.fromtimestamp(version.at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S.%f}"
            by_time = questions[0].how == "time"
            source += f" TIMESTAMP AS OF '{seconds}'" if by_time else f" VERSION AS OF {version.snapshot_id}"
        for number, one in enumerate(questions):
            shown = [
                operand_sql(operand, dialect, schema) if other is one else "NULL"
                for other in questions
                for operand in other.shown
            ]
            where = condition_sql(one.condition, dialect, schema)
            columns = ", ".join(f"{text} AS c{at}" for at, text in enumerate([str(number), "id", *shown]))
            selects.append(f"SELECT {columns} FROM {source} t WHERE {where}")
        return " UNION ALL ".join(selects)


class PyIceberg(Engine):
    """PyIceberg's scans: filters on columns and on fields of structs."""

    name = "pyiceberg"

    def __init__(self, history: History) -> None:
        self._table = history.table

    def ask(self, version: Version, questions: Sequence[Question]) -> list[Answer | str | None]:
        """An answer each."""
        return [self._answer(version, question) for question in questions]

    def _answer(self, version: Version, question: Question) -> Answer | str | None:
        schema = version.schema
        row_filter = condition_filter(question.condition, schema)
        if row_filter is None or not all(
            isinstance(one, Place) and len(one.steps) == 1 for one in question.shown
        ):
            return None
        names = [str(dotted(one, schema)) for one in question.shown if isinstance(one, Place)]
        snapshot = None if question.how == "head" else version.snapshot_id
        try:
            scan = self._table.scan(row_filter, ("id", *dict.fromkeys(names)), snapshot_id=snapshot)
            rows = scan.to_arrow()
            columns: Iterable[list[Any]] = [rows[name].to_pylist() for name in ("id", *names)]
        except Exception as error:  # whatever it is, it is the answer
            return f"{type(error).__name__}: {error}"
        return sorted(_line(number, shown, question) for number, *shown in zip(*columns, strict=True))


def _line(number: int, shown: Sequence[Any], question: Question) -> str:
    kinds = (one.kind for one in question.shown)
    return text([number, *map(canonical, shown, kinds)])


def engines_of(history: History, session: SparkSession) -> tuple[list[Engine], DuckLake]:
    """All engines on a table, and what has to be closed."""
    lake, spark = DuckLake(history.catalog), spark_of(history.properties, session)

    def duckdb(sql: str, version: Version, how: str) -> Any:
        time = datetime.fromtimestamp(version.at_ms / 1000, UTC)
        return lake.sql(sql, at={"head": None, "snapshot": version.snapshot_id, "time": time}[how])

    sql_engines = SqlEngine(DuckDb(), duckdb), SqlEngine(Spark(), lambda sql, *_: spark.query(sql).rows)
    return [*sql_engines, PyIceberg(history)], lake


def spark_of(properties: dict[str, str], session: SparkSession) -> SparkLake:
    """Spark's queries of a catalog that the session need not know yet."""
    for key, value in spark_catalog(properties).items():
        if key.startswith("spark.sql.catalog."):
            session.conf.set(key, value)
    return SparkLake(session, properties["name"])
