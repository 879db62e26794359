"""Creates and upgrades the tables: each migration is applied and recorded in one transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost._db.operations import Execute, Operation, Query, Work
from milepost.errors import ForeignDatabaseError, SaverError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost._db.dialect import Dialect

_CREATE = "CREATE TABLE IF NOT EXISTS {table} (v INTEGER PRIMARY KEY)"
_APPLIED = "SELECT v FROM {table}"
_RECORD = "INSERT INTO {table} (v) VALUES (?)"


@dataclass(frozen=True, slots=True)
class Schema:
    """A set of tables with a history."""

    table: str
    """Where applied migrations are recorded."""
    migrations: Sequence[Sequence[str | tuple[str, str]]]
    """Oldest first; entries are only ever appended. A statement is SQL for all databases, or a
    pair: the name of a dialect, and SQL for that database alone."""
    landmark: tuple[str, str]
    """A table whose name other programs use too, and a column that only our table has."""
    foreign: str
    """The error message for a landmark table without that column."""


@dataclass(frozen=True, slots=True)
class TableSetup:
    """How an engine creates tables. It looks first, since most starts find the tables complete.

    The look takes no lock, so that a start waits for no other process and needs no right to write.
    """

    is_done: Work[bool]
    make: Work[None]


def table_setup(dialect: Dialect, schema: Schema) -> TableSetup:
    """The setup of tables that need nothing but their migrations."""
    return TableSetup(lambda: is_migrated(dialect, schema), lambda: migrate(dialect, schema))


def is_migrated(dialect: Dialect, schema: Schema) -> Operation[bool]:
    """Whether the tables exist and are up to date. `migrate` tells apart why they are not."""
    for table, column in (schema.landmark, (schema.table, "v")):
        if column not in (yield from _columns(dialect, table)):
            return False
    rows = yield Query(_APPLIED.format(table=schema.table))
    return {row[0] for row in rows} == set(range(len(schema.migrations)))


def migrate(dialect: Dialect, schema: Schema) -> Operation[None]:
    """Bring the tables up to date. A foreign database is refused before anything changes.

    The caller makes sure that only one process migrates at a time.
    """
    table, column = schema.landmark
    columns = yield from _columns(dialect, table)
    if columns and column not in columns:
        raise ForeignDatabaseError(schema.foreign)
    yield Execute(_CREATE.format(table=schema.table))
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
                yield Execute(dialect.sql(sql))
        yield Execute(dialect.sql(_RECORD.format(table=schema.table)), (version,))


def _columns(dialect: Dialect, table: str) -> Operation[set[str]]:
    rows = yield Query(dialect.placed(dialect.columns), (table,))
    return {row[0] for row in rows}
