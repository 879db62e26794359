"""Whole threads and whole databases: copied, removed, moved, checked, sealed again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from milepost.checkpoint._contract.records import place_of
from milepost.checkpoint._contract.threads import Problem, Removed, Wanted
from milepost.checkpoint._sql.threads.registry import Search
from milepost.errors import CheckpointError
from milepost.inspect._data import as_data
from milepost.inspect._errors import InspectError
from milepost.inspect._failures import told_plainly
from milepost.inspect._reading import is_internal, no_such_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from milepost.checkpoint.serde._rotation import Reencrypted
    from milepost.inspect._database import Database


def _saver(db: Database, what: str, method: str, *, reader: bool = False) -> Any:
    """The saver, or the one that reads values as data, if it can do this."""
    db.check_ours(what)
    saver = db.reader if reader else db.saver
    if not hasattr(saver, method):
        raise InspectError(f"{what} is not possible on {db.url} ({db.kind}).")
    return saver


def check_threads_exist(db: Database, thread_ids: Iterable[str]) -> None:
    """Make sure that threads are there.

    Args:
        db: The database.
        thread_ids: The threads.

    Raises:
        ThreadNotFoundError: For the first that is not there.

    Examples:
        >>> from milepost.inspect.parts import check_threads_exist
        >>> check_threads_exist(db, ["trip"])
    """
    for thread_id in thread_ids:
        if db.source.thread_entry(thread_id) is None:
            raise no_such_thread(db, thread_id)


def matching(
    db: Database,
    *,
    metadata: Mapping[str, Any] | None = None,
    prefix: str | None = None,
    older_than: float | None = None,
    status: str | None = None,
) -> list[str]:
    """The ids of all threads that fit.

    Args:
        db: The database.
        metadata: Must be equal to what is stored about a thread.
        prefix: What their ids begin with.
        older_than: Seconds since their last use.
        status: idle, interrupted, error, running or stale.

    Examples:
        >>> inspect.matching(db, prefix="tr")
        ['trip']
    """
    before = None if older_than is None else time.time() - older_than
    found: list[str] = []
    wanted = Wanted(metadata or {}, status, prefix, updated_before=before, limit=1_000)
    with told_plainly(db.url):
        while True:
            search = Search(sort="thread_id", descending=False, offset=len(found))
            page = db.source.threads(wanted, search).items
            found += [row.thread_id for row in page]
            if len(page) < wanted.limit:
                return found


def copy_thread(db: Database, source: str, target: str) -> None:
    """Copy a thread with its whole history to a new id.

    Args:
        db: The database.
        source: The thread.
        target: The id of the copy.

    Examples:
        >>> inspect.copy_thread(db, "trip", "copy")
        >>> inspect.show(db, Ref.parse("copy")).values
        {'n': 2, 'city': 'Paris'}
    """
    db.check_writable("copy")
    with told_plainly(db.url):
        check_threads_exist(db, [source])
        _saver(db, "copy", "copy_thread").copy_thread(source, target)


def delete_threads(
    db: Database, thread_ids: Sequence[str], progress: Callable[[str], object] | None = None
) -> None:
    """Remove threads. Their bytes may stay in the files until they are overwritten: `erase`.

    Args:
        db: The database.
        thread_ids: The threads.
        progress: Called with each id when it is done.

    Examples:
        >>> inspect.delete_threads(db, ["trip"])
        >>> inspect.threads(db).total
        0
    """
    db.check_writable("delete")
    with told_plainly(db.url):
        check_threads_exist(db, thread_ids)
        for thread_id in thread_ids:
            db.saver.delete_thread(thread_id)
            if progress is not None:
                progress(thread_id)


def erase_threads(
    db: Database, thread_ids: Sequence[str], progress: Callable[..., object] | None = None
) -> Removed:
    """Remove threads for good, so that the files hold none of their bytes any more.

    Args:
        db: The database.
        thread_ids: The threads.
        progress: Called after each thread.

    Examples:
        >>> inspect.erase_threads(db, ["trip"]).threads
        ['trip']
    """
    db.check_writable("erase")
    with told_plainly(db.url):
        check_threads_exist(db, thread_ids)
        removed: Removed = _saver(db, "erase", "erase").erase(thread_ids, progress=progress)
        return removed


def prune_preview(
    db: Database, thread_ids: Sequence[str], *, keep: int = 1, older_than: float | None = None
) -> Removed:
    """What `prune` would remove.

    Args:
        db: The database.
        thread_ids: The threads.
        keep: How many checkpoints of each graph stay.
        older_than: Seconds; younger checkpoints stay too.

    Examples:
        >>> inspect.prune_preview(db, ["trip"], keep=1).checkpoints
        3
    """
    with told_plainly(db.url):
        check_threads_exist(db, thread_ids)
        removed: Removed = _saver(db, "prune", "prune").prune(
            thread_ids, keep=keep, older_than=older_than, dry_run=True
        )
        return removed


def prune(
    db: Database,
    thread_ids: Sequence[str],
    *,
    keep: int = 1,
    older_than: float | None = None,
    progress: Callable[[str], object] | None = None,
) -> Removed:
    """Remove all but the last checkpoints of threads, and what those need.

    Args:
        db: The database.
        thread_ids: The threads.
        keep: How many checkpoints of each graph stay.
        older_than: Seconds; younger checkpoints stay too.
        progress: Called with each id when it is done.

    Examples:
        >>> inspect.prune(db, ["trip"], keep=1).checkpoints
        3
    """
    db.check_writable("prune")
    removed = Removed()
    with told_plainly(db.url):
        check_threads_exist(db, thread_ids)
        saver = _saver(db, "prune", "prune")
        for thread_id in thread_ids:
            removed.add(saver.prune([thread_id], keep=keep, older_than=older_than))
            if progress is not None:
                progress(thread_id)
    return removed


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
        yield from _saver(db, "dump", "dump").dump(thread_ids)


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
    loaded: list[str] = _saver(db, "load", "load").load(lines, rename=rename)
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
        progress: Called with each id when it is done.

    Examples:
        >>> with inspect.open_database("agent.db", write=True, create=True) as file:
        ...     _ = list(inspect.run(file, graph, "trip", {"n": 0}))
        ...     list(inspect.verify(file))
        []
    """
    with told_plainly(db.url):
        reader = _saver(db, "verify", "verify", reader=True)
        if thread_ids is not None:
            check_threads_exist(db, thread_ids)
        yield from reader.verify(thread_ids, progress=progress)


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
    """What is missing → why."""


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
        found = _saver(db, "salvage", "salvage", reader=True).salvage(thread_id)
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
        done: Reencrypted[Problem] = _saver(db, "reencrypt", "reencrypt").reencrypt(
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
    """What stops the thread; None if it can go on."""


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
        said = dict.fromkeys(
            str(one.error) if one.channel is None else f"key '{one.channel}': {one.error}"
            for one in found.failures
        )
        if not found.complete and not said:
            said["it cannot be read to its end"] = None
        yield Checked(thread_id, "; ".join(said) or None)
