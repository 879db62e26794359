"""Operations that damage rows behind a saver's back, and demand that it is noticed.

A vandal has a plain connection to a database of its own (see `aside.py`). It deletes rows, empties
cells, puts older copies back, or writes values of another type. Then reads and `verify()` have to
notice: with an error of milepost's that says so, never with another state, nor with a traceback.
"""

from __future__ import annotations

import operator
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

from typing_extensions import TypedDict

from attack.aside import Aside, own_database
from attack.graph import joined
from attack.mishaps import at, private, wrong
from attack.operation import Context, Operation, Steps, ask, listing
from milepost.channels import DeltaChannel
from milepost.errors import BrokenChainError, DamagedRowError, MilepostError
from milepost.graph import START, StateGraph
from milepost.types import interrupt

NOTICED = "what is gone or put back is noticed by reads and by verify()"
DAMAGE = "a damaged cell is a typed error, and verify() names it"

DATABASES = ("sqlite", "sqlite-encrypted", "postgres", "postgres-pool")
SQLITE = ("sqlite", "sqlite-encrypted")


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    delta: Annotated[list[str], DeltaChannel(joined)]
    text: str


def asking(saver: Any) -> Any:
    """A graph of two tasks at once: one is done, the other one asks."""

    def works(_: State) -> dict[str, Any]:
        return {"log": ["done"], "delta": ["done"], "text": "x" * 3_000}

    builder = StateGraph(State).add_node("works", works)
    builder.add_node("asks", lambda _: {"log": [interrupt("go on?")]})
    return builder.add_edge(START, "works").add_edge(START, "asks").compile(checkpointer=saver)


def in_line(saver: Any) -> Any:
    """A graph of small steps, whose writes are in the rows of the checkpoints after them."""
    steps = [(name, lambda _, name=name: {"log": [name], "delta": [name]}) for name in "abc"]
    builder = StateGraph(State).add_sequence(steps)  # type: ignore[arg-type]
    return builder.add_edge(START, "a").compile(checkpointer=saver)


# -- rows that are gone

PARTS = ("", " AND channel = '__interrupt__'", " AND channel <> '__interrupt__'")


def pending_writes(context: Context, aside: Aside, name: str, saver: Any) -> Steps:
    """Rows of what tasks wrote at the latest checkpoint are deleted."""
    durability = context.random.choice(("sync", "async", "exit"))
    yield ask(asking(saver), "invoke", {"log": ["in"]}, at(name), durability=durability)
    [(head,)] = aside.rows("SELECT head FROM threads WHERE thread_id = ?", name)
    where = "WHERE thread_id = ? AND checkpoint_id = ?" + context.random.choice(PARTS)
    aside.damage(f"DELETE FROM checkpoint_writes {where}", name, head)


def inline_writes(context: Context, aside: Aside, name: str, saver: Any) -> Steps:
    """The writes in the row of a checkpoint are emptied."""
    yield ask(in_line(saver), "invoke", {"log": ["in"]}, at(name), durability="sync")
    where = "WHERE thread_id = ? AND led IS NOT NULL"
    found = aside.rows(f"SELECT checkpoint_id FROM checkpoints {where}", name)
    [id] = context.random.choice(found)
    aside.damage("UPDATE checkpoints SET led = NULL WHERE checkpoint_id = ?", id)


def old_entry(context: Context, aside: Aside, name: str, saver: Any) -> Steps:
    """The thread's entry in the registry is put back to an older copy."""
    columns = ("head", "token", "epoch", "status", "updated_at")
    yield ask(in_line(saver), "invoke", {"log": ["in"]}, at(name), durability="sync")
    asked = f"SELECT {', '.join(columns)} FROM threads WHERE thread_id = ?"
    [old] = aside.rows(asked, name)
    yield ask(in_line(saver), "invoke", {"log": ["again"]}, at(name), durability="sync")
    changes = ", ".join(f"{column} = ?" for column in columns)
    aside.damage(f"UPDATE threads SET {changes} WHERE thread_id = ?", *old, name)


def whole_history(graph: Any, name: str) -> Steps:
    states = yield listing(graph, "get_state_history", at(name))
    return [(state.values, state.tasks, state.metadata) for state in states]


def latest(graph: Any, name: str) -> Steps:
    state = yield ask(graph, "get_state", at(name))
    return state.values, state.tasks


HARMS: dict[Callable[..., Steps], tuple[type[MilepostError], Callable[..., Steps]]] = {
    pending_writes: (BrokenChainError, latest),
    inline_writes: (BrokenChainError, whole_history),
    old_entry: (DamagedRowError, latest),
}
"""What is done → the error that a read must end with, and a read."""


def rows_gone(context: Context) -> Steps:
    """Somebody takes rows away, or brings old ones back."""
    harm = context.random.choice([*HARMS])
    expected, read = HARMS[harm]
    name, told = private(context), harm.__name__.replace("_", " ")
    with context.recorder.call("look", thread=name, how="rows gone", harm=told):
        aside = yield from own_database(context)
        with aside.place.saver() as saver:
            yield from harm(context, aside, name, saver)
        with aside.place.saver() as saver:  # one that remembers nothing
            graph = asking(saver) if harm is pending_writes else in_line(saver)
            try:
                found = yield from read(graph, name)
            except expected:
                pass
            else:
                wrong(context, NOTICED, f"{told}: {read.__name__} gave {found!r}"[:500])
            if not (yield ask(saver, "verify", [name])):
                wrong(context, NOTICED, f"{told}: verify() found nothing")


# -- cells that are damaged

NO_METADATA = {True: ("{not json", "[1]", "3", ""), False: ("[1]", "3", '"text"')}
"""By whether it is SQLite, which takes anything."""


def damaged_entry(context: Context) -> Steps:
    """The metadata of a thread is no JSON any more, or no object."""
    name = private(context)
    with context.recorder.call("look", thread=name, how="damaged entry"):
        aside = yield from own_database(context)
        damage = context.random.choice(NO_METADATA[aside.is_sqlite])
        with aside.place.saver() as saver:
            yield ask(in_line(saver), "invoke", {"log": ["in"]}, at(name), durability="sync")
            aside.damage("UPDATE threads SET metadata = ? WHERE thread_id = ?", damage, name)
            for asked in (ask(saver, "get_thread", name), ask(saver, "list_threads")):
                try:
                    found = yield asked
                except DamagedRowError as error:
                    if name not in str(error):
                        wrong(context, DAMAGE, f"{asked.name} does not name {name}: {error}")
                except Exception as error:
                    if isinstance(error, MilepostError):
                        raise
                    wrong(context, DAMAGE, f"{asked.name} of {damage!r}: {error!r}")
                else:
                    wrong(context, DAMAGE, f"{asked.name} of {damage!r} gave {found!r}")
            try:
                tables = [problem.table for problem in (yield ask(saver, "verify"))]
            except Exception as error:
                if isinstance(error, MilepostError):
                    raise
                wrong(context, DAMAGE, f"verify() of {damage!r}: {error!r}")
                return
            if tables != ["threads"]:
                wrong(context, DAMAGE, f"verify() of {damage!r} named {tables}")


CELLS = {
    "checkpoints": ("checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "complete",
        "metadata_type", "metadata", "frame", "led"),
    "checkpoint_blobs": ("checkpoint_ns", "channel", "version", "base_channel", "base", "level",
        "type", "blob"),
    "checkpoint_writes": ("checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel",
        "task_path", "base", "type", "blob"),
    "threads": ("head", "status", "created_at", "updated_at", "metadata"),
}  # fmt: skip
OTHERS = (7, 1.5, "text", b"\xff\0bytes")


def readings(saver: Any, name: str) -> list[Callable[[], Steps]]:
    """All that looks at the rows of a thread."""

    def tuple_of() -> Steps:
        found = yield ask(saver, "get_tuple", at(name))
        return found and (found.checkpoint["channel_values"], found.pending_writes)

    def all_of() -> Steps:
        found = yield listing(saver, "list", at(name))
        return [(one.metadata, one.pending_writes, one.checkpoint) for one in found]

    def calling(asked: Any) -> Callable[[], Steps]:
        def one() -> Steps:
            return (yield asked)

        return one

    asks = (
        ask(saver, "verify"),
        ask(saver, "get_thread", name),
        ask(saver, "list_threads", metadata={"owner": "ann"}),
        ask(saver, "salvage", name),
        ask(saver, "copy_thread", name, f"{name} copied"),
        listing(saver, "dump"),
        ask(saver, "prune", [name]),
    )
    return [tuple_of, all_of, *map(calling, asks)]


def odd_cell(context: Context) -> Steps:
    """A cell gets a value of another type, as SQLite allows."""
    rng, name = context.random, private(context)
    table = rng.choice([*CELLS])
    column, other = rng.choice(CELLS[table]), rng.choice(OTHERS)
    told = f"{table}.{column} = {other!r}"
    with context.recorder.call("look", thread=name, how="odd cell", cell=told):
        aside = yield from own_database(context)
        with aside.place.saver() as saver:
            yield ask(asking(saver), "invoke", {"log": ["in"]}, at(name), durability="sync")
            yield ask(saver, "set_thread_metadata", name, {"owner": "ann"})
        with aside.connection() as connection, suppress(sqlite3.IntegrityError):
            connection.execute(f"UPDATE OR IGNORE {table} SET {column} = ?", (other,))
        with aside.place.saver() as saver:
            for reading in readings(saver, name):
                try:
                    yield from reading()
                except MilepostError:
                    pass
                except Exception as error:
                    wrong(context, DAMAGE, f"{told}: {reading.__name__} raised {error!r}")


OPERATIONS = [
    Operation("rows gone", rows_gone, ("saver.verify",), 1.2, DATABASES),
    Operation("damaged entry", damaged_entry, ("saver.list_threads",), 0.3, DATABASES),
    Operation("odd cell", odd_cell, ("saver.verify",), 0.5, SQLITE),
]
