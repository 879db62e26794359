"""Sends statements to PostgreSQL in one round trip.

These functions do without psycopg's cursors and use its wrapper of libpq (`psycopg.pq`): a cursor
takes about 50 µs of the client's time for each statement, these functions about 7. They are
generators of calls (`_db/calls.py`): a call waits for the socket, or cancels on the server what is
broken off.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import math
import re
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import psycopg
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import (
    ConnStatus,
    ExecStatus,
    Format,
    PipelineStatus,
    TransactionStatus,
)

from milepost._db.operations import Raw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg.pq.abc import PGconn, PGresult

    from milepost._db.calls import Calls

Rows: TypeAlias = list[tuple[Any, ...]]
BoundStatement: TypeAlias = "tuple[str, Sequence[Any]]"
"""A statement with `%s` in it, and its parameters."""
PrepareKey: TypeAlias = "tuple[str, tuple[int, ...]]"
"""A statement and the types of its parameters: what is prepared on the server."""
EncodedStatement: TypeAlias = "tuple[PrepareKey, list[bytes | None], list[int]]"
"""What is prepared, the parameters' values, and their formats."""
_Prepared: TypeAlias = dict[PrepareKey, bytes]
"""What is prepared on one connection, and its names there."""
_Preparing: TypeAlias = dict[int, tuple[PrepareKey, bytes]]
"""Place among the results → what is prepared there, and its name."""
SocketWait: TypeAlias = Callable[[int, bool], Any]
"""Waits until a socket can be read from or, if the second argument is true, written to; for
`WAIT_INTERVAL` seconds at most. Awaited on an event loop."""

_MAX_PREPARED: Final = 128
"""Statements that are prepared on one connection; others are parsed each time."""
WAIT_INTERVAL: Final = 0.1
"""Seconds after which a wait sees that its connection was closed by another thread or task."""
_CANCEL_TIMEOUT: Final = 5.0
"""Seconds for the server to end what is cancelled, before its connection is given up."""
_CLOSED_SOCKET: Final = (errno.EBADF, errno.ENOTSOCK)
"""What waiting for a socket fails with that another thread or task has closed."""
_BYTES, _INT8, _INT4 = 17, 20, 23
_UNKNOWN: Final = 0
"""The type of text and NULL: the server takes the one that the statement has in their place."""
_INTERRUPTED: Final = (KeyboardInterrupt, SystemExit, asyncio.CancelledError)

# An attribute of an enum takes three times as long.
_OFF, _BINARY = PipelineStatus.OFF, Format.BINARY
_UNFINISHED: Final = (TransactionStatus.ACTIVE, TransactionStatus.UNKNOWN)

_prepared: WeakKeyDictionary[Any, _Prepared] = WeakKeyDictionary()
_numbers = itertools.count()


def exchange(
    connection: Any, statements: Sequence[BoundStatement], *, prepare: bool, wait: SocketWait
) -> Calls[list[PGresult]]:
    """Send all, then wait for all. The first that failed is raised, and none has had an effect.

    A pipeline without BEGIN is a transaction by itself, up to where it is synchronised.
    """
    pgconn: PGconn = connection.pgconn
    known: _Prepared | None = None
    if prepare and connection.prepare_threshold is not None:
        known = _prepared.setdefault(connection, {})
    encoding: str = connection.info.encoding
    # Before anything is sent: what cannot be encoded must not leave half a pipeline behind.
    to_send: list[EncodedStatement] = []
    for statement in statements:  # `map` would end at a StopIteration of a parameter
        to_send.append(encoded(connection, encoding, statement))
    in_pipeline = pgconn.pipeline_status != _OFF
    if not in_pipeline:
        pgconn.enter_pipeline_mode()
    new = _send(pgconn, to_send, known)
    pgconn.pipeline_sync()
    try:
        results = yield from _results(pgconn, wait)
    except OSError as error:
        if error.errno not in _CLOSED_SOCKET:
            raise  # by a signal handler of the program, such as a TimeoutError
        raise psycopg.OperationalError("connection socket closed") from error
    except _INTERRUPTED:
        yield from _cancel(connection, wait)
        raise
    finally:
        if not in_pipeline and pgconn.transaction_status not in _UNFINISHED:
            pgconn.exit_pipeline_mode()
    found, failed = _sorted_out(results, new, known)
    if failed is not None:
        # Not documented, so the version of psycopg is bounded in pyproject.toml.
        raise psycopg.errors.error_from_result(failed, encoding)
    return found


def _send(
    pgconn: PGconn, statements: Sequence[EncodedStatement], known: _Prepared | None
) -> _Preparing:
    """Send statements, each prepared first if it is new and `known` has room; None prepares none.

    Returns which results will be those of preparations.
    """
    new: _Preparing = {}
    place = 0
    for key, values, formats in statements:
        name = None if known is None else known.get(key)
        if name is None and known is not None and len(known) + len(new) < _MAX_PREPARED:
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
    return new


def _sorted_out(
    results: Sequence[PGresult], new: _Preparing, known: _Prepared | None
) -> tuple[list[PGresult], PGresult | None]:
    """The results of statements, and the first failure; adds what was prepared to `known`."""
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
    return found, failed


def _results(pgconn: PGconn, wait: SocketWait, until: float = math.inf) -> Calls[list[PGresult]]:
    """Send what is still to be sent, and read everything up to the synchronisation."""
    found: list[PGresult] = []
    while True:
        # Both in one loop: the server may read no more until its results are read.
        while (writing := bool(pgconn.flush())) or pgconn.is_busy():
            if time.monotonic() > until:
                raise TimeoutError
            yield partial(wait, pgconn.socket, writing)
            try:
                pgconn.consume_input()
            except psycopg.OperationalError:
                if _has_failed(found):  # the server has said why it ends the connection
                    return found
                raise
        result = pgconn.get_result()
        if result is None:  # ends the results of one statement
            if pgconn.status == ConnStatus.BAD:
                if _has_failed(found):
                    return found
                raise psycopg.OperationalError("the server closed the connection")
        elif result.status == ExecStatus.PIPELINE_SYNC:
            while notify := pgconn.notifies():
                if pgconn.notify_handler:  # that of the program
                    pgconn.notify_handler(notify)
            return found
        else:
            found.append(result)


def _has_failed(results: Sequence[PGresult]) -> bool:
    return any(one.status == ExecStatus.FATAL_ERROR for one in results)


def _cancel(connection: Any, wait: SocketWait) -> Calls[None]:
    """Cancel on the server what was sent, and read its results, unless all have come."""
    if connection.pgconn.transaction_status != TransactionStatus.ACTIVE:
        return
    with suppress(Exception):  # a connection with results that were not read is closed
        yield partial(connection.cancel_safe, timeout=_CANCEL_TIMEOUT)
        yield from _results(connection.pgconn, wait, time.monotonic() + _CANCEL_TIMEOUT)


def rows_of(connection: Any, result: PGresult) -> Rows:
    """The rows of a result, in Python's types."""
    if not result.ntuples:
        return []
    # These methods are not documented, so the version of psycopg is bounded in pyproject.toml. With
    # the documented ones, which give one value at a time, a listing takes a fifth more.
    reader = Transformer(connection)
    reader.set_pgresult(result)
    return reader.load_rows(0, result.ntuples, tuple)


def forget_prepared(connection: Any) -> bool:
    """Forget the prepared statements of this connection. False if there were none."""
    return _prepared.pop(connection, None) is not None


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


# -- parameters, encoded by what is known of their Python types


def encoded(
    connection: Any, encoding: str, statement: tuple[str, Sequence[Any]]
) -> EncodedStatement:
    """A statement and its parameters in the form in which they are sent."""
    sql, parameters = statement
    texts, numbers, others, formats, types = _shape(tuple(map(type, parameters)))
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


def array(values: Sequence[Any]) -> str:
    """Numbers, texts and NULLs as one parameter. The statement says of which type they are."""
    return f"{{{','.join(map(_element, values))}}}"


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


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
        [_BYTES if kind is bytes else _INT4 if kind is int else _UNKNOWN for kind in kinds],
    )


def _dumped(connection: Any, value: Any) -> tuple[bytes | None, int, int]:
    """A parameter as it is sent, its format and its type."""
    kind = type(value)
    dumper = connection.adapters.get_dumper(kind, PyFormat.AUTO)(kind, connection)
    if dumper.get_key(value, PyFormat.AUTO) is not kind:  # as a list, by its elements
        dumper = dumper.upgrade(value, PyFormat.AUTO)
    dumped = dumper.dump(value)
    return None if dumped is None else bytes(dumped), dumper.format, dumper.oid
