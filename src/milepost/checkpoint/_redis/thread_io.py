"""The keys of a thread, and the index of threads: how they are read and changed.

A thread is read and changed by the two scripts of `scripts.py`. Where scripts are barred, MULTI and
WATCH do the same, for the requests and changes that `view.py` makes.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from milepost._db.redis.commands import (
    Argument,
    Command,
    Confirmed,
    Decision,
    Pipeline,
    Plan,
    Program,
    RunScript,
    Waited,
    command,
)
from milepost.checkpoint._redis import scripts
from milepost.checkpoint._redis.rows import BLOB
from milepost.errors import OutcomeUnknownError

if TYPE_CHECKING:
    from milepost.checkpoint._redis.settings import Settings

_Keys: TypeAlias = tuple[bytes, bytes, bytes]

WAIT_MS: Final = 10_000
"""How long a commit waits for the disk, and for replicas."""
_RELISTED: Final = 60.0
"""Seconds after which a thread that is written to is put into the index of threads again."""


class Changed(Exception):
    """Another transaction was quicker: this one has to start again."""


# -- the index of threads


def unlist(settings: Settings, thread_id: str) -> Program[None]:
    """Take a thread off the list that is gone, unless it is back."""
    yield command("ZREM", settings.keys.threads, thread_id)
    [(cells, _)] = yield from read_entries(settings, [thread_id])
    if cells:
        yield command("ZADD", settings.keys.threads, 0, thread_id)


def _is_to_be_listed(settings: Settings, thread_id: str) -> bool:
    """Whether it is long ago that this saver has put a thread into the index."""
    listed, now = settings.listed, time.monotonic()
    if now - listed.get(thread_id, -_RELISTED) < _RELISTED:
        return False
    if len(listed) > 10_000:
        listed.clear()
    listed[thread_id] = now
    return True


# -- reading


def read_entries(settings: Settings, thread_ids: Sequence[str]) -> Program[list[tuple[Any, Any]]]:
    """Of each thread its entry and its latest root checkpoint, as for the request `E`."""
    commands: list[Command] = []
    for thread_id in thread_ids:
        thread, _, index = settings.keys.of(thread_id)
        commands += [command("HGETALL", thread), _newest(index)]
    replies = [_flat(reply) for reply in (yield Pipeline(commands))]
    return list(zip(replies[::2], replies[1::2], strict=True))


def _newest(index: bytes) -> Command:
    return command("ZREVRANGEBYLEX", index, b"(c\0\0\xff", b"[c\0\0", "LIMIT", 0, 1)


def read(settings: Settings, thread_id: str, requests: Sequence[Argument]) -> Program[list[Any]]:
    """The thread's rev, and one reply for each request, all as of one moment."""
    keys = settings.keys.of(thread_id)
    used = int(settings.refresh_on_read)
    found: list[Any]
    if settings.scripts:
        args = (used, _ttl(settings), *requests)
        plan = partial(_barred, settings)
        found = yield RunScript(scripts.READ, keys, args, plan, watch=False, thread_id=thread_id)
        return found
    commands = [command("HGET", keys[0], "rev")]
    shapes = []
    given = iter(requests)
    for what in given:
        made = _request(str(what), keys, given)
        shapes.append((str(what), len(made)))
        commands += made
    replies = yield Pipeline(commands, atomic=True)
    rev, *rest = map(_flat, replies)
    found = [rev]
    for what, size in shapes:
        some, rest = rest[:size], rest[size:]
        found.append(some if what in "EC" else some[0])
    if used and rev is not None:
        ttl = yield command("HGET", keys[0], "ttl")
        if commands := _expiry(settings, keys, ttl):
            yield Pipeline(commands, atomic=True)
    return found


def _barred(settings: Settings) -> Plan:
    """Scripts turn out to be barred: the transaction starts again, and asks for less at once."""
    settings.scripts = False
    yield from ()
    raise Changed


def _request(what: str, keys: _Keys, given: Iterator[Any]) -> list[Command]:
    """The commands of a request, where scripts are barred."""
    thread, rows, index = keys
    if what == "E":
        return [command("HGETALL", thread), _newest(index)]
    if what == "G":
        return [command("HMGET", rows, *(next(given) for _ in range(next(given))))]
    if what == "A":
        return [command("HGETALL", rows)]
    if what == "C":
        counts = [command("ZLEXCOUNT", index, *ends) for ends in (("[c", "(d"), ("[w", "(x"))]
        return [command("HLEN", rows), *counts]
    low, high, limit = next(given), next(given), next(given)
    if what == "R":
        return [command("ZRANGEBYLEX", index, low, high, "LIMIT", 0, limit)]
    return [command("ZREVRANGEBYLEX", index, high, low, "LIMIT", 0, limit)]


# -- writing


def store(
    settings: Settings,
    thread_id: str,
    changes: Sequence[Argument],
    *,
    is_new: bool,
    owner: str | None,
) -> Program[bool]:
    """Change a thread, for the run with the token `owner`. A new thread is listed before and
    after: before, since a client may be killed; after, since one who has just removed such a
    thread may take it off the list."""
    if is_new or _is_to_be_listed(settings, thread_id):
        yield command("ZADD", settings.keys.threads, 0, thread_id)
    done = yield from write(settings, thread_id, changes)
    if done and owner is not None:
        settings.acknowledged.wrote(owner, done)
    if done and is_new:
        yield command("ZADD", settings.keys.threads, 0, thread_id)
    return bool(done)


def write(settings: Settings, thread_id: str, changes: Sequence[Argument]) -> Program[int]:
    """Conditions and changes: all of it, or nothing. Answers 0, or how many writes the thread has
    had."""
    keys = settings.keys.of(thread_id)
    rev = uuid.uuid4().hex[:20]
    run = RunScript(
        scripts.WRITE,
        keys,
        (rev, _ttl(settings), *changes),
        partial(_chosen, settings, keys, rev, changes),
        writes=True,
        thread_id=thread_id,
    )
    local, replicas = int(bool(settings.fsyncs)), settings.wait_replicas
    if not local and not replicas:
        return int((yield run))
    found: Confirmed = yield Waited(run, local, replicas, WAIT_MS)
    done = int(found.reply)
    if done and not found.is_known:
        # A transaction, or a script that a cluster took elsewhere. On a connection that has
        # written nothing there would be nothing to wait for.
        mark = command("SET", keys[0].rpartition(b":")[0] + b":wait", 1, "PX", 60_000)
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


def _chosen(settings: Settings, keys: _Keys, new_rev: str, changes: Sequence[Argument]) -> Plan:
    """The commands of a write, if its condition holds, where scripts are barred."""
    if settings.scripts:
        yield from _barred(settings)
    thread, rows, index = keys
    rev, ttl, seq = yield command("HMGET", thread, "rev", "ttl", "seq")
    done = int(seq or 0)
    if rev == new_rev.encode():
        return Decision((), done)  # it was done before, when the reply was lost
    given = iter(changes)
    commands = [command("HINCRBY", thread, "seq", 1)]
    for what in given:
        if what == "!":
            if rev is not None:
                return Decision((), 0)
        elif what == "=":
            next(given)
            if rev != next(given):
                return Decision((), 0)
        elif what == "E":
            key, value = next(given), next(given)
            commands.append(command("HSET", thread, key, value))
            ttl = str(value).encode() if key == "ttl" else ttl
        elif what == "X":
            commands.append(command("HDEL", thread, next(given)))
        elif what == "K":
            return Decision([command("UNLINK", *keys)], 1)
        else:
            name = next(given)
            assert isinstance(name, bytes)
            if what == "S":
                commands.append(command("HSET", rows, name, next(given)))
                if name[:1] != BLOB:
                    commands.append(command("ZADD", index, 0, name))
            else:
                commands += [command("HDEL", rows, name), command("ZREM", index, name)]
    commands.append(command("HSET", thread, "rev", new_rev))
    return Decision([*commands, *_expiry(settings, keys, ttl)], done + 1)


def _expiry(settings: Settings, keys: _Keys, ttl: bytes | None) -> list[Command]:
    seconds = _ttl(settings) if ttl is None else ttl.decode()
    if seconds == "-1":
        return [command("PERSIST", key) for key in keys]
    if not seconds:
        return []
    return [command("PEXPIRE", key, int(float(seconds) * 1000)) for key in keys]


def _ttl(settings: Settings) -> str:
    return "" if settings.ttl is None else str(settings.ttl)


def pairs(flat: Sequence[bytes]) -> Iterable[tuple[bytes, bytes]]:
    """The keys and values of a mapping as RESP2 has it."""
    return zip(flat[::2], flat[1::2], strict=True)


def _flat(reply: Any) -> Any:
    """A mapping as RESP2 has it."""
    if isinstance(reply, dict):
        return [part for item in reply.items() for part in item]
    return reply
