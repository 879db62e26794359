"""Reads what PostgreSQL answers."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import psycopg
from psycopg.adapt import Transformer
from psycopg.generators import fetch
from psycopg.pq import ConnStatus, ExecStatus

if TYPE_CHECKING:
    from collections.abc import Collection

    from psycopg.abc import PQGen
    from psycopg.pq.abc import PGconn, PGresult

Rows: TypeAlias = list[tuple[Any, ...]]
Answer: TypeAlias = "PGresult | Rows"

CLOSED: Final = "the server closed the connection"
_SOME: Final = 4
"""Rows that are taken over at a time, if they may be large."""
_BY_PORTIONS: Final = bool(psycopg.capabilities.has_stream_chunked())


def answers(connection: Any, large: Collection[int]) -> PQGen[list[Answer]]:
    """Everything up to the synchronisation: one answer for each statement.

    The rows of some statements, named by their places, are `large`. Those are taken over while
    others are still on their way, and so in memory that is used again: all at once they would be
    there twice, in memory that the system has to provide page by page.
    """
    pgconn: PGconn = connection.pgconn
    found: list[Answer] = []
    rows: Rows | None = None
    reader: Any = None
    begins = True
    while True:
        if begins and _BY_PORTIONS and len(found) in large:
            with suppress(psycopg.Error):  # after a failure there will be none
                pgconn.set_chunked_rows_mode(_SOME)
        begins = False
        result = yield from fetch(pgconn)
        if result is None:  # ends the results of one statement
            if pgconn.status == ConnStatus.BAD:
                if any(failure(answer) for answer in found):
                    return found
                raise psycopg.OperationalError(CLOSED)
            begins = True
        elif result.status == ExecStatus.PIPELINE_SYNC:
            return found
        elif result.status == ExecStatus.TUPLES_CHUNK:
            if rows is None:
                rows, reader = [], Transformer(connection)
                reader.set_pgresult(result)
            else:
                reader.set_pgresult(result, set_loaders=False)
            rows += reader.load_rows(0, result.ntuples, tuple)
        else:
            ends_well = result.status == ExecStatus.TUPLES_OK
            found.append(result if rows is None or not ends_well else rows)
            rows = None


def failure(answer: Answer) -> PGresult | None:
    """What a statement failed with."""
    if isinstance(answer, list) or answer.status != ExecStatus.FATAL_ERROR:
        return None
    return answer


def rows_of(connection: Any, answer: Answer) -> Rows:
    """The rows of an answer, in Python's types."""
    if isinstance(answer, list):
        return answer
    if not answer.ntuples:
        return []
    reader = Transformer(connection)
    reader.set_pgresult(answer)
    return reader.load_rows(0, answer.ntuples, tuple)


def changed_by(answer: Answer) -> int:
    """How many rows a statement has changed."""
    return 0 if isinstance(answer, list) else answer.command_tuples or 0
