"""Sends statements to PostgreSQL in one round trip.

These functions do without psycopg's cursors and use its wrapper of libpq (`psycopg.pq`): a cursor
takes about 50 µs of the client's time for each statement, these functions about 7. They are
generators of calls (`_db/calls.py`): a call waits for the socket, or cancels on the server what is
broken off.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import re
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import psycopg
from psycopg.adapt import PyFormat
from psycopg.pq import (
    ConnStatus,
    DiagnosticField,
    ExecStatus,
    Format,
    PipelineStatus,
    TransactionStatus,
)

from milepost._db.operations import Raw

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from psycopg.pq.abc import PGconn, PGresult

    from milepost._db.calls import Steps

__all__ = [
    "Ask",
    "PipelineStatus",
    "Rows",
    "SocketWait",
    "TransactionStatus",
    "asks_of",
    "exchange",
    "forget_prepared",
    "portions",
    "psycopg",
    "rows_of",
]
"""With what the files above need of psycopg: only here is it said how to install it."""

Rows: TypeAlias = list[tuple[Any, ...]]
Ask: TypeAlias = "tuple[str, Sequence[Any]]"
"""A statement with `%s` in it, and its parameters."""
SocketWait: TypeAlias = Callable[[int, bool], Any]
"""Waits until a socket can be read from or, if the second argument is true, written to; for
`WAIT_INTERVAL` seconds at most. Awaited on an event loop."""
_Key: TypeAlias = "tuple[str, tuple[int, ...]]"
_Sent: TypeAlias = "tuple[_Key, list[bytes | None], list[int]]"
"""An ask in the form in which it is sent: what it is prepared as, values, formats."""

_BOOL, _BYTES, _INT8, _INT4, _FLOAT8 = 16, 17, 20, 23, 701
_BY_CONTEXT: Final = 0
"""Text and NULL take the type that the statement has in their place."""
_MOST: Final = 128
"""Statements that are prepared on one connection; others are parsed each time."""
WAIT_INTERVAL: Final = 0.1
"""Seconds after which a wait sees that its connection was closed by another thread or task."""
_CANCEL_TIMEOUT: Final = 5.0
"""Seconds for the server to end what is cancelled, before its connection is given up."""
_INTERRUPTED: Final = (KeyboardInterrupt, SystemExit, asyncio.CancelledError)
_SIZES: Final = (64, 16, 4, 1)
"""Rows that one INSERT takes. Few sizes, so that each of them is soon prepared."""

# An attribute of an enum takes three times as long.
_OFF, _BINARY = PipelineStatus.OFF, Format.BINARY
_UNFINISHED: Final = (TransactionStatus.ACTIVE, TransactionStatus.UNKNOWN)

_prepared: WeakKeyDictionary[Any, dict[_Key, bytes]] = WeakKeyDictionary()
_numbers = itertools.count()


def exchange(
    connection: Any, asks: Sequence[Ask], *, prepare: bool, wait: SocketWait
) -> Steps[list[PGresult]]:
    """Send all, then wait for all. The first that failed is raised, and none has had an effect.

    A pipeline without BEGIN is a transaction by itself, up to where it is synchronised.
    """
    pgconn: PGconn = connection.pgconn
    known: dict[_Key, bytes] | None = None
    if prepare and connection.prepare_threshold is not None:
        known = _prepared.get(connection)
        if known is None:
            known = _prepared[connection] = {}
    encoding: str = connection.info.encoding
    # Before anything is sent: what cannot be encoded must not leave half a pipeline behind.
    ready = [_encoded(connection, encoding, ask) for ask in asks]
    within = pgconn.pipeline_status != _OFF
    if not within:
        pgconn.enter_pipeline_mode()
    new: dict[int, tuple[_Key, bytes]] = {}
    place = 0
    for key, values, formats in ready:
        name = None if known is None else known.get(key)
        if name is None and known is not None and len(known) + len(new) < _MOST:
            name = next((n for k, n in new.values() if k == key), None)
            if name is None:
                name = b"milepost_%d" % next(_numbers)
                pgconn.send_prepare(name, _numbered(key[0]), key[1])
                new[place] = key, name
                place += 1
        if name is None:
            text = _numbered(key[0])
            pgconn.send_query_params(text, values, key[1], formats, _BINARY)
        else:
            pgconn.send_query_prepared(name, values, formats, _BINARY)
        place += 1
    pgconn.pipeline_sync()
    try:
        results = yield from _results(pgconn, wait)
    except OSError as error:
        raise psycopg.OperationalError("connection socket closed") from error
    except _INTERRUPTED:
        yield from _cancel(connection, wait)
        raise
    finally:
        if not within and pgconn.transaction_status not in _UNFINISHED:
            pgconn.exit_pipeline_mode()
    found: list[PGresult] = []
    failed: PGresult | None = None
    for at, result in enumerate(results):
        if result.status == ExecStatus.FATAL_ERROR:
            failed = failed or result
        elif at not in new:
            found.append(result)
        elif known is not None and result.status == ExecStatus.COMMAND_OK:
            key, name = new[at]
            known[key] = name
    if failed is not None:
        raise _error(pgconn, failed, encoding)
    return found


def _results(pgconn: PGconn, wait: SocketWait, until: float = math.inf) -> Steps[list[PGresult]]:
    """Send what is still to be sent, and read everything up to the synchronisation."""
    while pgconn.flush():
        # Also for reading: the server may read no more until its answers are read.
        yield from _ready(pgconn, wait, True, until)
    found: list[PGresult] = []
    while True:
        while pgconn.is_busy():
            yield from _ready(pgconn, wait, False, until)
        result = pgconn.get_result()
        if result is None:  # ends the results of one statement
            if pgconn.status == ConnStatus.BAD:
                if any(one.status == ExecStatus.FATAL_ERROR for one in found):
                    return found
                raise psycopg.OperationalError("the server closed the connection")
        elif result.status == ExecStatus.PIPELINE_SYNC:
            _pass_on_notifies(pgconn)
            return found
        else:
            found.append(result)


def _ready(pgconn: PGconn, wait: SocketWait, writing: bool, until: float) -> Steps[None]:
    if time.monotonic() > until:
        raise TimeoutError
    yield partial(wait, pgconn.socket, writing)
    pgconn.consume_input()


def _pass_on_notifies(pgconn: PGconn) -> None:
    """Give the program the notifications that came with the results."""
    while notify := pgconn.notifies():
        if pgconn.notify_handler:
            pgconn.notify_handler(notify)


def _cancel(connection: Any, wait: SocketWait) -> Steps[None]:
    """Cancel on the server what was sent, and read its results."""
    with suppress(Exception):  # a connection with results that were not read is closed
        yield partial(connection.cancel_safe, timeout=_CANCEL_TIMEOUT)
        yield from _results(connection.pgconn, wait, time.monotonic() + _CANCEL_TIMEOUT)


def _error(pgconn: PGconn, result: PGresult, encoding: str) -> psycopg.Error:
    """What a failed statement raises."""
    state = (result.error_field(DiagnosticField.SQLSTATE) or b"").decode()
    text = result.get_error_message(encoding)
    try:
        return psycopg.errors.lookup(state)(text)
    except KeyError:  # a class that psycopg does not know
        is_lost = pgconn.status == ConnStatus.BAD
        return psycopg.OperationalError(text) if is_lost else psycopg.DatabaseError(text)


def rows_of(connection: Any, result: PGresult) -> Rows:
    """The rows of a result, in Python's types."""
    count = result.ntuples
    if not count:
        return []
    oids = [result.ftype(column) for column in range(result.nfields)]
    loaders = {oid: _loader(connection, oid) for oid in set(oids)}
    columns = [(column, loaders[oid]) for column, oid in enumerate(oids)]
    value = result.get_value
    return [
        tuple(
            [
                None if (data := value(row, column)) is None else load(data)
                for column, load in columns
            ]
        )
        for row in range(count)
    ]


def _loader(connection: Any, oid: int) -> Callable[[bytes], Any]:
    """Decodes values of a type of the server. One that psycopg does not know stays bytes."""
    adapters = connection.adapters
    loader = adapters.get_loader(oid, _BINARY) or adapters.get_loader(_BY_CONTEXT, _BINARY)
    load: Callable[[bytes], Any] = loader(oid, connection).load
    return load


def forget_prepared(connection: Any) -> bool:
    """Forget the prepared statements of this connection. False if there were none."""
    return _prepared.pop(connection, None) is not None


# -- parameters


def _encoded(connection: Any, encoding: str, ask: Ask) -> _Sent:
    sql, parameters = ask
    texts, numbers, others, formats, types = _shape(tuple([type(value) for value in parameters]))
    values: list[Any] = [*parameters]
    try:
        for at in texts:
            text = values[at]
            if "\0" in text:  # libpq would take what is before it for the whole
                raise psycopg.DataError("text cannot contain a NUL character")
            values[at] = text.encode(encoding)
    except UnicodeEncodeError as error:
        raise psycopg.DataError(
            f"text cannot be sent over a connection whose client_encoding is {encoding}: {error}"
        ) from error
    if numbers:
        types = [*types]
        for at in numbers:
            number = values[at]
            if -(2**63) <= number < 2**63:
                values[at] = b"%d" % number
                if not -(2**31) <= number < 2**31:
                    types[at] = _INT8
            else:
                others = [*others, at]
    if others:
        formats, types = [*formats], [*types]
        for at in others:
            values[at], formats[at], types[at] = _dumped(connection, values[at])
    return (sql, tuple(types)), values, formats


class _Shape(NamedTuple):
    """What is known of parameters from their Python types."""

    texts: list[int]
    """The places of text."""
    numbers: list[int]
    """The places of integers."""
    others: list[int]
    """The places of what psycopg has to look at."""
    formats: list[int]
    types: list[int]


@lru_cache(1024)
def _shape(kinds: tuple[type, ...]) -> _Shape:
    return _Shape(
        [at for at, kind in enumerate(kinds) if kind is str],
        [at for at, kind in enumerate(kinds) if kind is int],
        [at for at, kind in enumerate(kinds) if kind not in (str, int, bytes, Raw, type(None))],
        [1 if kind in (bytes, Raw) else 0 for kind in kinds],
        [_BYTES if kind is bytes else _INT4 if kind is int else _BY_CONTEXT for kind in kinds],
    )


def _dumped(connection: Any, value: Any) -> tuple[bytes | None, int, int]:
    """A parameter as it is sent, its format and its type."""
    kind = type(value)
    if kind is float:
        return repr(value).encode(), 0, _FLOAT8
    if kind is bool:
        return b"t" if value else b"f", 0, _BOOL
    dumper = connection.adapters.get_dumper(kind, PyFormat.AUTO)(kind, connection)
    if dumper.get_key(value, PyFormat.AUTO) is not kind:  # as a list, by its elements
        dumper = dumper.upgrade(value, PyFormat.AUTO)
    dumped = dumper.dump(value)
    return None if dumped is None else bytes(dumped), dumper.format, dumper.oid


@lru_cache(1024)
def _numbered(sql: str) -> bytes:
    """The statement as the server wants it: `$1` for the first `%s`."""
    parts = re.split("(%s|%%)", sql)
    number = 0
    for at in range(1, len(parts), 2):
        if parts[at] == "%s":
            number += 1
            parts[at] = f"${number}"
        else:
            parts[at] = "%"
    return "".join(parts).encode()


# -- many rows


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


def asks_of(sql: str, rows: Sequence[Sequence[Any]]) -> Iterator[Ask]:
    """As few statements as will do for all the rows."""
    insert = _insert(sql) if len(rows) > 1 else None
    key = insert.key if insert is not None else None
    if insert is None or (key is not None and len({key(row) for row in rows}) < len(rows)):
        for row in rows:
            yield sql, row
        return
    for some in portions(rows):
        yield repeated(sql, len(some)), [value for row in some for value in row]
