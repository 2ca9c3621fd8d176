"""Live reads of a table that is kept by key: as the table is once its records are committed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.model.settings.sections import LiveSettings, TopicSettings
from tabletopic_kernel.pipeline.plan import StageResult
from tabletopic_kernel.table.changes.upsert.staged import Upsert
from tabletopic_kernel.table.changes.upsert.upserted import remembering, upserted
from tabletopic_kernel.table.topic_table import TopicTable
from tests.pipeline.test_unavailable import TEXT
from tests.pipeline.whole_path import avro_values
from tests.workbench.live_histories import Life, LifeRegistry, Sent


def _schema(kind: str, *more: str) -> dict[str, Any]:
    """Flattened change events; a column has the name that DuckDB gives to the file of a row."""
    optional = [("filename", "string"), *((name, "long") for name in more), ("__deleted", "string")]
    fields: list[dict[str, Any]] = [{"name": "id", "type": kind}, {"name": "lsn", "type": "long"}]
    fields += [{"name": name, "type": ["null", of], "default": None} for name, of in optional]
    return {"type": "record", "name": "Row", "fields": fields}


_SCHEMAS = {1: _schema("int"), 2: _schema("long", "extra")}


class KeyedLife(Life):
    """A topic of changes, whose table is kept by ``id`` and ordered by ``lsn``, and its rows."""

    def __init__(self, folder: Path, seed: int = 0, limits: LiveSettings | None = None) -> None:
        settings = TopicSettings(mode="upsert", key=("id",), order_by="lsn")
        texts = {key: json.dumps(schema) for key, schema in _SCHEMAS.items()}
        super().__init__(folder, seed, limits, LifeRegistry(texts), settings)

    def keep(self, table: TopicTable, after: Ledger, result: StageResult) -> None:
        """Commit what was staged: rows, and keys to delete."""
        after = remembering(table.table, after, result.deletes)
        lacking = frozenset(result.unavailable)
        upsert = Upsert(self.settings, tuple(result.files), tuple(result.deletes), lacking)
        change = upserted(after, upsert)
        table.commit(self.ledger, change)
        self.ledger = change.ledger

    def change(self, key: int, lsn: int, text: str | None, schema_id: int = 1, **more: Any) -> None:
        """A producer sends a change."""
        fields = {"id": key, "lsn": lsn, "filename": text, **more}
        self.log[key % 2].append(
            Sent(avro_values(schema_id, _SCHEMAS[schema_id], fields)[0], 10**12 + lsn, fields)
        )

    def changes(self) -> None:
        """Some changes, of which some are older, sent again, deletes, or leave a value out."""
        for _ in range(self.random.randint(1, 12)):
            self.n += 1
            key, kind = self.random.randrange(9), self.random.random()
            if kind < 0.2:
                self.change(key, self.n, None, __deleted="true")
            elif kind < 0.3 and self.log[key % 2]:
                self.log[key % 2].append(self.random.choice(self.log[key % 2]))
            else:
                text = self.random.choice([TEXT, f"text {self.n}"])
                self.change(key, self.n, text, self.random.choice([1, self.newest_schema]))

    def expected(self) -> dict[int, tuple[int, str | None]]:
        """The rows: by key the newest order, and the newest text since its last delete."""
        events = {
            event.fields["lsn"]: event.fields for log in self.log.values() for event in log if event.fields
        }
        rows: dict[int, tuple[int, str | None]] = {}
        for lsn, event in sorted(events.items()):
            key, text = event["id"], event["filename"]
            if event.get("__deleted"):
                rows.pop(key, None)
            else:
                rows[key] = lsn, rows[key][1] if text == TEXT and key in rows else text
        return rows

    def rows(self, sql: str = "FROM clicks$live") -> dict[int, tuple[int, str | None]]:
        """What a query answers."""
        rows = self.lake.sql(sql).to_pylist()
        assert len(rows) == len({row["id"] for row in rows})
        return {row["id"]: (row["lsn"], row["filename"]) for row in rows}


@pytest.mark.parametrize("seed", range(2))
def test_a_live_answer_is_the_table_of_soon(tmp_path: Path, seed: int) -> None:
    """Of each key the newest row by the order, whatever is committed, claimed or evolves meanwhile."""
    life = KeyedLife(tmp_path, seed)
    for _ in range(8):
        life.changes()
        wanted = life.expected()
        life.meanwhile = life.random.choices(["commit", "commit_all", "claim"], k=life.random.randrange(2))
        assert life.rows() == wanted
        if life.random.random() < 0.6:
            life.commit()
        life.newest_schema = 2 if life.random.random() < 0.2 else life.newest_schema
    life.commit_all()
    assert life.rows("FROM clicks") == life.rows() == life.expected()
    life.lake.close()


def test_a_key_that_only_a_wider_type_holds(tmp_path: Path) -> None:
    """The table's column is still an int; its own rows are found all the same."""
    life = KeyedLife(tmp_path)
    life.change(1, 1, "a")
    life.commit_all()
    life.change(2**40, 2, "b", 2)
    life.change(1, 3, "c", 2)
    life.change(1, 2, "older", 2)
    assert life.rows() == {1: (3, "c"), 2**40: (2, "b")}
    life.lake.close()


def test_settings_of_another_kind(tmp_path: Path) -> None:
    """A disabled topic's settings at hand may say that the table is kept otherwise."""
    life = KeyedLife(tmp_path)
    life.change(1, 1, "a")
    life.commit_all()
    life.settings = TopicSettings()
    with pytest.raises(UsageError, match="was created in mode upsert"):
        life.rows()
    life.lake.close()
