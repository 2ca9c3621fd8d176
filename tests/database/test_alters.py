"""ALTERs and TRUNCATE while the connectors run: the newest state is the database's, in Avro and in JSON."""

from __future__ import annotations

import pytest

from tests.database.rig import AVRO, JSON, Rig

pytestmark = [pytest.mark.integration, pytest.mark.servers]


def test_the_newest_state_follows_alters_and_truncates(rig: Rig) -> None:
    """Columns and types change between changes, and a table is emptied, with three partitions."""
    rig.sql(
        "CREATE TABLE ddl (id int PRIMARY KEY, n int, price numeric(10,2), at timestamp(3), old text)",
        "INSERT INTO ddl SELECT g, g, g + 0.25, timestamp '2026-03-01 12:00:00.123', 'o' || g "
        "FROM generate_series(1, 20) g",
        "CREATE TABLE emptied (id int PRIMARY KEY, t text)",
        "INSERT INTO emptied SELECT g, 'before' FROM generate_series(1, 300) g",
    )
    rig.start_host()
    rig.connected("public.ddl,public.emptied")
    topics = [f"{prefix}.public.{name}" for name in ("ddl", "emptied") for prefix in (AVRO, JSON)]
    for topic in topics:
        rig.enable(topic, {})
    rig.sql(
        "TRUNCATE emptied",
        "INSERT INTO emptied SELECT g, 'after' FROM generate_series(100, 130) g",
        "UPDATE emptied SET t = 'later' WHERE id = 101",
    )
    for statement in (
        "ALTER TABLE ddl ADD more text DEFAULT 'd'",
        "ALTER TABLE ddl DROP old",
        "ALTER TABLE ddl ALTER n TYPE bigint",
        "ALTER TABLE ddl ALTER price TYPE numeric(14,2)",
        "ALTER TABLE ddl ALTER at TYPE timestamp(6)",
        "ALTER TABLE ddl RENAME more TO extra",
    ):
        rig.sql(statement, "UPDATE ddl SET n = n + 1 WHERE id % 3 = 0", "DELETE FROM ddl WHERE id = n")
    rig.sql("UPDATE ddl SET n = 5000000000, at = at + interval '1 microsecond'")
    for topic in topics:
        rig.wait_until_equal(topic)
        (status,) = rig.bench.status(topic)
        assert (topic, status.refused) == (topic, {})
