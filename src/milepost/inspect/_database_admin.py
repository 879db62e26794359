"""Whole databases: dumped, loaded, verified, salvaged, encrypted again, checked against code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from milepost.checkpoint._contract.records import place_of
from milepost.errors import CheckpointError
from milepost.inspect._data import as_data
from milepost.inspect._errors import InspectError, told_plainly
from milepost.inspect._reading import is_internal
from milepost.inspect._thread_admin import check_threads_exist, matching, method_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from milepost.checkpoint._contract.threads import Problem
    from milepost.checkpoint.serde._rotation import Reencrypted
    from milepost.inspect._database import Database


def dump(db: Database, thread_ids: Sequence[str] | None = None) -> Iterator[str]:
    """Threads, or all, as lines of text that `load_dump` takes, on any database.

    Args:
        db: The database.
        thread_ids: The threads.

    Examples:
        >>> with inspect.open_database("agent.db", write=True, create=True) as file:
        ...     _ = list(inspect.run(file, graph, "trip", {"n": 0}))
        ...     lines = list(inspect.dump(file, ["trip"]))
        >>> len(lines) > 1
        True
    """
    with told_plainly(db.url):
        if thread_ids is not None:
            check_threads_exist(db, thread_ids)
        yield from method_of(db, db.saver, "dump")(thread_ids)


def load_dump(
    db: Database, lines: Iterable[str], *, rename: Mapping[str, str] | None = None
) -> list[str]:
    """Store the threads of a dump; their ids.

    Args:
        db: The database.
        lines: What `dump` gave.
        rename: Thread → the id that it gets.

    Examples:
        >>> with inspect.open_database("agent.db", write=True, create=True) as file:
        ...     _ = list(inspect.run(file, graph, "trip", {"n": 0}))
        ...     lines = list(inspect.dump(file, ["trip"]))
        ...     inspect.load_dump(file, lines, rename={"trip": "copy"})
        ['copy']
    """
    db.check_writable("load")
    loaded: list[str] = method_of(db, db.saver, "load")(lines, rename=rename)
    return loaded


def verify(
    db: Database,
    thread_ids: Sequence[str] | None = None,
    progress: Callable[..., object] | None = None,
) -> Iterator[Problem]:
    """What is wrong with threads, or with all: every row that cannot be read.

    Values are read as data, so a class that is not known here is no problem.

    Args:
        db: The database.
        thread_ids: The threads; all by default.
        progress: Called with how many threads are done, and how many there are.

    Examples:
        >>> with inspect.open_database("agent.db", write=True, create=True) as file:
        ...     _ = list(inspect.run(file, graph, "trip", {"n": 0}))
        ...     list(inspect.verify(file))
        []
    """
    with told_plainly(db.url):
        method = method_of(db, db.reader, "verify")
        if thread_ids is not None:
            check_threads_exist(db, thread_ids)
        yield from method(thread_ids, progress=progress)


class SalvagedState(NamedTuple):
    """A checkpoint of a damaged thread, as far as it can be read.

    Examples:
        >>> with inspect.open_database("agent.db", write=True, create=True) as file:
        ...     _ = list(inspect.run(file, graph, "trip", {"n": 0}))
        ...     newest, *_ = inspect.salvage(file, "trip")
        >>> newest.values["city"], newest.lost
        ('Paris', {})
    """

    checkpoint_id: str
    """The checkpoint."""
    namespace: str
    """The graph: "" for the outermost."""
    step: int | None
    """The number of the step."""
    values: Mapping[str, Any]
    """As data, without the channels that are lost."""
    lost: Mapping[str, str]
    """Channel → why its value is lost."""


def salvage(db: Database, thread_id: str) -> list[SalvagedState]:
    """What can still be read of a damaged thread, newest first.

    Args:
        db: The database.
        thread_id: The thread.

    Examples:
        >>> with inspect.open_database("agent.db", write=True, create=True) as file:
        ...     _ = list(inspect.run(file, graph, "trip", {"n": 0}))
        ...     len(inspect.salvage(file, "trip"))
        4
    """
    with told_plainly(db.url):
        found = method_of(db, db.reader, "salvage")(thread_id)
        if not found:
            check_threads_exist(db, [thread_id])
    return [
        SalvagedState(
            one.saved.checkpoint["id"],
            place_of(one.saved.config).checkpoint_ns,
            one.saved.metadata.get("step"),
            {
                key: as_data(value)
                for key, value in one.saved.checkpoint["channel_values"].items()
                if not is_internal(key)
            },
            one.lost,
        )
        for one in found
    ]


def reencrypt(
    db: Database,
    thread_ids: Sequence[str] | None = None,
    progress: Callable[..., object] | None = None,
) -> Reencrypted[Problem]:
    """Seal everything with the newest key of the serializer that the database was opened with.

    Args:
        db: The database.
        thread_ids: The threads; all by default.
        progress: Called with how many threads are done, and how many there are.

    Examples:
        >>> from milepost.checkpoint.serde.encrypted import AesKeyRing, EncryptedSerializer
        >>> serde = EncryptedSerializer(AesKeyRing([b"0" * 32]), allow_plaintext=True)
        >>> sealed = inspect.Database.of(saver.with_serde(serde))
        >>> inspect.reencrypt(sealed).refused
        []
    """
    db.check_writable("reencrypt")
    try:
        done: Reencrypted[Problem] = method_of(db, db.saver, "reencrypt")(
            thread_ids, progress=progress
        )
    except CheckpointError as error:
        raise InspectError(str(error)) from error
    return done


class Checked(NamedTuple):
    """Whether the code of today can go on with a thread.

    Examples:
        >>> [checked] = inspect.check_threads(db, graph)
        >>> checked.thread_id, checked.problem
        ('trip', None)
    """

    thread_id: str
    """The thread."""
    problem: str | None
    """Why the thread cannot go on; None if it can."""


def check_threads(
    db: Database, graph: Any, thread_ids: Sequence[str] | None = None
) -> Iterator[Checked]:
    """Each thread against a graph: can the code of today go on with it?

    All of its values are decoded and migrated as a run would do it, and the nodes that it waits for
    are looked for. Compile the graph with its types first.

    Args:
        db: The database.
        graph: The compiled graph.
        thread_ids: The threads; all by default.

    Examples:
        >>> [checked.problem for checked in inspect.check_threads(db, graph)]
        [None]
    """
    from milepost.checkpoint.serde.evolution import dry_run

    for thread_id in matching(db) if thread_ids is None else thread_ids:
        found = dry_run(db.saver, threads=[thread_id], graph=graph)
        reasons = dict.fromkeys(
            str(one.error) if one.channel is None else f"key '{one.channel}': {one.error}"
            for one in found.failures
        )
        if not found.complete and not reasons:
            reasons["it cannot be read to its end"] = None
        yield Checked(thread_id, "; ".join(reasons) or None)
