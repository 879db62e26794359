"""Reads and writes the keys of a thread, and the index of threads.

A thread is read and written by the two scripts of `scripts.py`; where scripts are barred, by
`without_scripts.py`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from milepost._db.redis.commands import (
    Argument,
    Command,
    Confirmed,
    Pipeline,
    Plan,
    RedisEffects,
    RunScript,
    Waited,
    command,
)
from milepost.checkpoint._redis import scripts, without_scripts
from milepost.checkpoint._redis.rows import ThreadKeys
from milepost.errors import OutcomeUnknownError

if TYPE_CHECKING:
    from milepost.checkpoint._redis.server import Settings

WAIT_MS: Final = 10_000
"""How long a commit waits for the disk, and for replicas."""
_RELIST_SECONDS: Final = 60.0
"""A thread that is written is added to the index of threads again after so long."""
_MAX_LISTED: Final = 10_000
"""Threads of which a saver knows when it last added them to the index."""
_MARK_MS: Final = 60_000
"""How long a key lives that is written only to have a write to wait for."""


class Changed(Exception):
    """Another transaction has changed the thread: this one has to start again."""


# -- the index of threads


def unlist(settings: Settings, thread_id: str) -> RedisEffects[None]:
    """Remove a thread from the index, unless it exists again by now."""
    yield command("ZREM", settings.keys.threads, thread_id)
    [(cells, _)] = yield from read_entries(settings, [thread_id])
    if cells:
        yield command("ZADD", settings.keys.threads, 0, thread_id)


def _is_to_be_listed(settings: Settings, thread_id: str) -> bool:
    """Whether this saver has not added a thread to the index for some time."""
    listed, now = settings.listed, time.monotonic()
    if now - listed.get(thread_id, -_RELIST_SECONDS) < _RELIST_SECONDS:
        return False
    if len(listed) > _MAX_LISTED:
        listed.clear()
    listed[thread_id] = now
    return True


# -- reading


def read_entries(
    settings: Settings, thread_ids: Sequence[str]
) -> RedisEffects[list[tuple[Any, Any]]]:
    """The entry and the latest root checkpoint of each thread, as for `Request.ENTRY`."""
    commands: list[Command] = []
    for thread_id in thread_ids:
        commands += without_scripts.entry_commands(settings.keys.of(thread_id))
    replies = [without_scripts.flat(reply) for reply in (yield Pipeline(commands))]
    return list(zip(replies[::2], replies[1::2], strict=True))


def read(
    settings: Settings, thread_id: str, requests: Sequence[Argument]
) -> RedisEffects[list[Any]]:
    """The thread's rev, and one reply for each request, all as of one moment."""
    keys = settings.keys.of(thread_id)
    if not settings.scripts:
        return (yield from without_scripts.read(settings, keys, requests))
    args = (int(settings.refresh_on_read), settings.ttl_text, *requests)
    barred = partial(_barred, settings)
    found: list[Any] = yield RunScript(
        scripts.READ, keys, args, barred, watch=False, thread_id=thread_id
    )
    return found


def _barred(settings: Settings) -> Plan:
    """The server turns out to bar scripts. The transaction starts again, and then makes only those
    requests that need no script."""
    settings.scripts = False
    yield from ()
    raise Changed


# -- writing


def store(
    settings: Settings,
    thread_id: str,
    changes: Sequence[Argument],
    *,
    is_new: bool,
    owner: str | None,
) -> RedisEffects[bool]:
    """Change a thread, for the run with the token `owner`.

    A new thread is added to the index before the write, since this process may be killed after it;
    and again after the write, since another client may just remove the id of an older thread.
    """
    if is_new or _is_to_be_listed(settings, thread_id):
        yield command("ZADD", settings.keys.threads, 0, thread_id)
    done = yield from write(settings, thread_id, changes)
    if done and owner is not None:
        settings.acknowledged.wrote(owner, done)
    if done and is_new:
        yield command("ZADD", settings.keys.threads, 0, thread_id)
    return bool(done)


def write(settings: Settings, thread_id: str, changes: Sequence[Argument]) -> RedisEffects[int]:
    """Carry out all changes if all conditions hold. Returns how many writes the thread has had, and
    0 if a condition does not hold."""
    keys = settings.keys.of(thread_id)
    rev = uuid.uuid4().hex[:20]
    run = RunScript(
        scripts.WRITE,
        keys,
        (rev, settings.ttl_text, *changes),
        partial(_plan_write, settings, keys, rev, changes),
        writes=True,
        thread_id=thread_id,
    )
    local, replicas = int(bool(settings.fsyncs)), settings.wait_replicas
    if not local and not replicas:
        return int((yield run))
    found: Confirmed = yield Waited(run, local, replicas, WAIT_MS)
    done = int(found.reply)
    if done and not found.is_known:
        # The write was a transaction, or a script on a node that the key has moved to. WAITAOF
        # waits only for writes of its own connection, so a key is written on the same server.
        mark = command("SET", keys.thread.rpartition(b":")[0] + b":wait", 1, "PX", _MARK_MS)
        found = yield Waited(mark, local, replicas, WAIT_MS)
    if done and (found.local < local or found.replicas < replicas):
        raise OutcomeUnknownError(
            f"A step is in the memory of the Redis server, but after {WAIT_MS / 1000:g} s it was "
            f"not on its disk, or on {replicas} replicas ({found.replicas} have it). Load the "
            "thread again to see what is stored."
            if found.is_known
            else "A step was sent to the Redis server, which cannot say whether it is on the disk. "
            "Load the thread again to see what is stored."
        )
    return done


def _plan_write(
    settings: Settings, keys: ThreadKeys, rev: str, changes: Sequence[Argument]
) -> Plan:
    """`write`, where scripts are barred."""
    if settings.scripts:
        yield from _barred(settings)
    return (yield from without_scripts.plan_write(settings, keys, rev, changes))
