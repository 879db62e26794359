"""Inserts many rows with few statements."""

from __future__ import annotations

import re
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from milepost._db.postgres.wire import BoundStatement

_SIZES: Final = (64, 16, 4, 1)
"""Rows that one INSERT takes. Few sizes, so that each of them is soon prepared."""


class _Insert(NamedTuple):
    """An INSERT that can take several rows at once."""

    before: str
    row: str
    after: str
    key: Callable[[Sequence[Any]], Any] | None
    """What must not occur twice in one statement, if it replaces rows."""


_INSERT = re.compile(
    r"(\s*INSERT INTO \w+\s*\(([\w\s,]+)\)\s*VALUES\s*)(\((?:%s(?:,\s*)?)+\))(.*)", re.DOTALL
)
_REPLACES = re.compile(r"ON CONFLICT \(([\w\s,]+)\)\s*DO UPDATE")


@lru_cache(256)
def _insert(sql: str) -> _Insert | None:
    found = _INSERT.fullmatch(sql)
    if found is None:
        return None
    before, columns, row, after = found.groups()
    names = [name.strip() for name in columns.split(",")]
    replaces = _REPLACES.search(after)
    key = None
    if replaces is not None:
        key = itemgetter(*(names.index(name.strip()) for name in replaces[1].split(",")))
    return _Insert(before, row, after, key)


@lru_cache(256)
def repeated(sql: str, times: int) -> str:
    if times == 1:
        return sql
    insert = _insert(sql)
    assert insert is not None
    return f"{insert.before}{', '.join([insert.row] * times)}{insert.after}"


def portions(rows: Sequence[Sequence[Any]]) -> Iterator[Sequence[Sequence[Any]]]:
    """The rows, in portions of few different sizes: each has a prepared statement of its own."""
    at = 0
    for size in _SIZES:
        while len(rows) - at >= size:
            yield rows[at : at + size]
            at += size


def insert_statements(sql: str, rows: Sequence[Sequence[Any]]) -> Iterator[BoundStatement]:
    """As few statements as will do for all the rows."""
    insert = _insert(sql) if len(rows) > 1 else None
    key = insert.key if insert is not None else None
    if insert is None or (key is not None and len({key(row) for row in rows}) < len(rows)):
        for row in rows:
            yield sql, row
        return
    for some in portions(rows):
        yield repeated(sql, len(some)), [value for row in some for value in row]
