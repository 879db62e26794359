"""Creates and upgrades the tables: each migration is applied and recorded in one transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost.errors import SaverError
from milepost.sql.failures import ForeignDatabaseError
from milepost.sql.operations import Operation, Query, Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.sql.dialect import Dialect

_CREATE = "CREATE TABLE IF NOT EXISTS {table} (v INTEGER PRIMARY KEY)"
_APPLIED = "SELECT v FROM {table}"
_RECORD = "INSERT INTO {table} (v) VALUES (?)"

_COLUMNS = {
    "sqlite": "SELECT name FROM pragma_table_info(?)",
    "postgres": "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(?)"
    " AND attnum > 0 AND NOT attisdropped",
}


@dataclass(frozen=True, slots=True)
class Schema:
    """A set of tables with a history."""

    table: str
    """Where applied migrations are recorded."""
    migrations: Sequence[Sequence[str | tuple[str, str]]]
    """Statements in the common dialect, or the name of one and what only that one can do; oldest
    first. Entries are only ever appended."""
    landmark: tuple[str, str]
    """A table whose name others use too, and a column that only ours has."""
    foreign: str
    """What to say about such a table without that column."""


def migrate(dialect: Dialect, schema: Schema) -> Operation[None]:
    """Bring the tables up to date. A foreign database is refused before anything changes.

    Whoever runs this sees to it that nobody else does at the same time.
    """
    table, column = schema.landmark
    rows = yield Query(dialect.sql(_COLUMNS[dialect.name]), (table,))
    columns = {row[0] for row in rows}
    if columns and column not in columns:
        raise ForeignDatabaseError(schema.foreign)
    yield Run(_CREATE.format(table=schema.table))
    rows = yield Query(_APPLIED.format(table=schema.table))
    applied = {row[0] for row in rows}
    if max(applied, default=-1) >= len(schema.migrations):
        raise SaverError(
            f"The database was made by a newer version of milepost (its tables are at version "
            f"{max(applied)}, this one knows {len(schema.migrations) - 1}). Upgrade milepost."
        )
    for version, statements in enumerate(schema.migrations):
        if version in applied:
            continue
        for statement in statements:
            only, sql = (dialect.name, statement) if isinstance(statement, str) else statement
            if only == dialect.name:
                yield Run(dialect.sql(sql))
        yield Run(dialect.sql(_RECORD.format(table=schema.table)), (version,))
