"""What people read beside the scenes."""

TITLE = "Table Topic demo: {events} click events become an Iceberg table while they arrive"

INTRODUCTION = """
Everything runs on this machine, in a folder of its own that is removed at the end: a Kafka broker, a
schema registry, Spark, a catalog. On the way the events' schema changes, and the process that writes the
table is killed. At the end DuckDB counts what is in the table.
"""

SERVERS = "A Kafka broker and a schema registry; the Iceberg catalog is a SQLite file."

ENABLE = """
Enabling is one message. A host (`tabletopic serve`) sees it, creates the table from the registered
schema, and owns the table under an epoch: whoever has an older epoch can never write again.
"""

STREAM = """
Spark stages the events as Parquet files; a coordinator commits them every two seconds, each time as one
Iceberg snapshot with the ledger: the next offset to read of every partition. The commit lag is what the
topic has and the table does not have yet.
"""

COMMITS = """
From the snapshots' own summaries. Rows and ledger (here the sum of its offsets) arrive together, so the
table alone says where to go on after the kill. Highlighted: a host takes the table under a new epoch. The
last column is how long rows took from being sent to being in the table, the quickest and the slowest.
"""

SCHEMAS = """
A new schema version in the registry changes the table when its first record arrives. Older records stay
as they are; what they lack is null.
"""

ANSWERS = """
The generator counted its events while it made them. A tick means that DuckDB finds the same in the table,
row by row.
"""

PROOF = """
Counted by DuckDB over the Iceberg table, against what the broker acknowledged. Remember that a host was
killed without warning in between.
"""

KEPT = "Topic and table are kept in {folder}."
