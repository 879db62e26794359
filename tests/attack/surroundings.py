"""Operations in surroundings that do not let a saver do its work, and the errors that must say so.

A server that refuses, a statement that may take a moment only, a file that can only be read, a
saver that is to be sent to another process.
"""

from __future__ import annotations

import contextlib
import copy
import pickle
import socket
from typing import Any

from attack.aside import own_database
from attack.mishaps import BUSY, at, private, wrong
from attack.operation import Context, Operation, Steps, ask, plain
from attack.vandal import SQLITE, in_line
from milepost.errors import (
    ConnectionUnusableError,
    DatabaseBusyError,
    ProcessBoundError,
    ReadOnlyError,
)

POSTGRES = ("postgres", "postgres-pool")


def refused(context: Context) -> Steps:
    """No server listens where one should be."""
    from milepost.checkpoint.postgres import PostgresSaver
    from milepost.checkpoint.postgres.aio import AsyncPostgresSaver
    from milepost.store.postgres import PostgresStore
    from milepost.store.postgres.aio import AsyncPostgresStore

    kinds: Any = (PostgresSaver, PostgresStore)
    if context.is_async:
        kinds = (AsyncPostgresSaver, AsyncPostgresStore)
    kind = context.random.choice(kinds)
    with contextlib.closing(socket.socket()) as held:
        held.bind(("127.0.0.1", 0))  # and does not listen
        opened = kind.from_conn_string(f"postgresql://u:p@127.0.0.1:{held.getsockname()[1]}/db")
        with context.recorder.call("look", how="refused", kind=kind.__name__):
            try:
                yield plain(opened, "__aenter__" if context.is_async else "__enter__")
            except ConnectionUnusableError as error:
                if "server runs" not in str(error):
                    wrong(context, BUSY, f"a refused server: {error}")
            except Exception as error:
                wrong(context, BUSY, f"a refused server: {error!r}")
            else:
                wrong(context, BUSY, "a server that is not there let somebody in")


def slow_statement(context: Context) -> Steps:
    """A table is locked for longer than a statement may take."""
    import psycopg

    from milepost.checkpoint.postgres import PostgresSaver

    name = private(context)
    with context.recorder.call("look", how="slow statement"), contextlib.ExitStack() as stack:
        aside = yield from own_database(context)
        with aside.connection() as holder:
            holder.execute("BEGIN")
            holder.execute("LOCK TABLE checkpoints IN ACCESS EXCLUSIVE MODE")
            address = aside.address_with("statement_timeout=200")
            own: Any = psycopg.connect(address, autocommit=True)
            saver = PostgresSaver(stack.enter_context(own))
            try:
                yield ask(saver, "get_tuple", at(name))
            except DatabaseBusyError as error:
                if "statement_timeout" not in str(error):
                    wrong(context, BUSY, f"a statement timed out: {error}")
            else:
                holder.execute("SELECT 1")  # or a fault has ended it, and with it the lock
                wrong(context, BUSY, "a saver read a table that another transaction held")


def read_only(context: Context) -> Steps:
    """A file is opened for reading: reads give what is there, and writes say why they cannot."""
    name = private(context)
    with context.recorder.call("look", thread=name, how="read only"):
        aside = yield from own_database(context)
        with aside.place.saver() as saver:
            found = yield ask(in_line(saver), "invoke", {"log": ["in"]}, at(name))
        if context.random.random() < 0.5:
            aside.rows("PRAGMA journal_mode=DELETE")
        ways = ("mode=ro", "immutable=1")
        address = f"file:{aside.address}?{context.random.choice(ways)}"
        with type(context.place)(address).saver() as saver:
            graph = in_line(saver)
            try:
                state = yield ask(graph, "get_state", at(name))
            except ReadOnlyError as error:
                wrong(context, BUSY, f"a read was refused as a write: {error}")
                return
            if state.values != found:
                wrong(context, BUSY, f"a file that can only be read has {state.values}")
            try:
                yield ask(graph, "invoke", {"log": ["more"]}, at(name), durability="sync")
            except ReadOnlyError:
                pass
            else:
                wrong(context, BUSY, "a run was stored in a file that can only be read")


def sent_away(context: Context) -> Steps:
    """A saver or a store is pickled or copied deeply, which no connection survives.

    One in memory has none, and can be copied.
    """
    ways: Any = (pickle.dumps, copy.deepcopy) if context.place.is_shared else (pickle.dumps,)
    send = context.random.choice(ways)
    thing = context.random.choice((context.saver, context.store))
    told = f"{send.__name__} of a {type(thing).__name__}"
    with context.recorder.call("look", how="sent away", what=told):
        try:
            send(thing)
        except ProcessBoundError:
            pass
        except Exception as error:
            wrong(context, BUSY, f"{told}: {error!r}"[:500])
        else:
            wrong(context, BUSY, f"nobody refused {told}")
    yield from ()


OPERATIONS = [
    Operation("refused", refused, ("saver.from_conn_string",), 0.3, POSTGRES),
    Operation("slow statement", slow_statement, ("saver.get_tuple",), 0.2, POSTGRES),
    Operation("read only", read_only, ("saver.get_tuple",), 0.3, SQLITE),
    Operation("sent away", sent_away, ("saver.get_tuple",), 0.2),
]
