"""A PostgreSQL server as a catalog's: the demo's, with a password that tests know."""

from __future__ import annotations

from tabletopic_kernel.demo.change_data import postgres

USER, PASSWORD = postgres.USER, "pg-secret"


class Postgres(postgres.Postgres):
    """Listens on a free port from ``with`` on, in a temporary folder of its own."""

    def __init__(self) -> None:
        super().__init__(PASSWORD)

    def uri(self, database: str = "postgres", port: int | None = None) -> str:
        """The URL for SQLAlchemy; ``port``: of a server in front of it."""
        return f"postgresql+psycopg2://{USER}:{PASSWORD}@127.0.0.1:{port or self.port}/{database}"

    def create_database(self, name: str) -> str:
        """Create a database; returns its name."""
        connection = self.connect()
        with connection.cursor() as cursor:
            cursor.execute(f'CREATE DATABASE "{name}"')
        connection.close()
        return name
