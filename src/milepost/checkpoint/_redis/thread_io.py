"""Reads and writes the keys of a thread, and the index of threads.

A thread is read and written by commands that are guarded by its `rev` (`_db/redis/guarded.py`), and
by the scripts of `scripts.py` where these save round trips.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from milepost._db.redis.commands import (
    WAIT_MS,
    WAITS,
    Argument,
    Command,
    Confirmed,
    Pipeline,
    RedisEffects,
    RunScript,
    Script,
    ScriptsBarred,
    Waited,
    chunks,
    command,
    unconfirmed,
    until_safe,
)
from milepost._db.redis.guarded import MAX_ARGUMENTS, Guard, guarded, is_done, reading
from milepost.checkpoint._redis import scripts
from milepost.checkpoint._redis.rows import (
    AFTER_ALL,
    BLOB,
    CHECKPOINT,
    FOR_EVER,
    REV,
    SEQ,
    WRITE,
    ThreadKeys,
    field_of,
    pack,
)
from milepost.checkpoint._sql.statements import just_after
from milepost.errors import OutcomeUnknownError

if TYPE_CHECKING:
    from milepost.checkpoint._redis.rows import Row
    from milepost.checkpoint._redis.server import Settings

_RELIST_SECONDS: Final = 60.0
"""A thread that is written is added to the index of threads again after so long."""
_MAX_LISTED: Final = 10_000
"""Threads of which a saver knows when it last added them to the index."""
_ROWS_PER_COMMAND: Final = MAX_ARGUMENTS // 2 - 1


class Changed(Exception):
    """Another transaction has changed the thread: this one has to start again."""


# -- ranges of a thread's index, which has the fields of checkpoints and writes in their order


class Range(NamedTuple):
    """Fields of the index that begin with a kind and names. The next name is at least `first`, and
    less than `before`, if these are given."""

    kind: bytes
    names: tuple[str, ...] = ()
    first: str | None = None
    before: str | None = None
    limit: int | None = None
    backwards: bool = False

    def ends(self) -> tuple[bytes, bytes]:
        """The least field that the range may have, and a field that sorts after all of them."""
        start = field_of(self.kind, *self.names) + b"\0"
        end = AFTER_ALL if self.before is None else self.before.encode()
        return start + (self.first or "").encode(), start + end

    def bounds(self) -> tuple[bytes, bytes]:
        """The ends as commands have them: the first is part of the range, the last is not."""
        low, high = self.ends()
        return b"[" + low, b"(" + high

    def command(self, index: bytes, more: int = 0) -> Command:
        """The command that reads the range. `more` fields above the limit make up for those that
        the transaction has removed."""
        limit = -1 if self.limit is None else self.limit + more
        low, high = self.bounds()
        if self.backwards:
            return command("ZREVRANGEBYLEX", index, high, low, "LIMIT", 0, limit)
        return command("ZRANGEBYLEX", index, low, high, "LIMIT", 0, limit)

    def among(self, fields: Iterable[bytes]) -> list[bytes]:
        """Those of some fields that are in the range, in its order."""
        low, high = self.ends()
        return sorted((one for one in fields if low <= one < high), reverse=self.backwards)

    def merged(self, found: list[bytes], changed: Mapping[bytes, Row | None]) -> list[bytes]:
        """Fields that were read, with those that the transaction has added, less the removed."""
        if changed:
            gone = {field for field, row in changed.items() if row is None}
            added = [field for field, row in changed.items() if row is not None]
            found = self.among(({*found} - gone).union(added))
        return found[: self.limit]


def writes_at(ns: str, id: str) -> Range:
    """The rows of writes at a checkpoint."""
    return Range(WRITE, (ns, id))


def after_one(ns: str, id: str) -> Range:
    """The checkpoint after another one in the same graph."""
    return Range(CHECKPOINT, (ns,), first=just_after(id), limit=1)


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

_NEWEST_ROOT: Final = Range(CHECKPOINT, ("",), limit=1, backwards=True)


def entry_commands(keys: ThreadKeys) -> list[Command]:
    """The commands that read the entry of a thread, and its latest root checkpoint by the index."""
    return [command("HGETALL", keys.thread), _NEWEST_ROOT.command(keys.order)]


def read_entries(
    settings: Settings, thread_ids: Sequence[str]
) -> RedisEffects[list[tuple[Any, Any]]]:
    """The replies to `entry_commands` for each thread."""
    commands: list[Command] = []
    for thread_id in thread_ids:
        commands += entry_commands(settings.keys.of(thread_id))
    replies = [_flat(reply) for reply in (yield Pipeline(commands))]
    return list(zip(replies[::2], replies[1::2], strict=True))


def read(
    settings: Settings, thread_id: str, commands: Sequence[Command]
) -> RedisEffects[tuple[bytes | None, list[Any]]]:
    """The thread's rev, and the replies of commands that read it, all as of one moment."""
    keys = settings.keys.of(thread_id)
    asked = reading(keys, [command("HMGET", keys.thread, REV, "ttl"), *commands])
    _, (rev, stored), *replies = yield asked._replace(thread_id=thread_id)
    if settings.refresh_on_read and rev is not None:
        commands = expiry(settings, keys, None if stored is None else stored.decode())
        if commands:
            # Guarded, since the thread may have got another time to live meanwhile.
            yield guarded(keys, [Guard(("HGET", keys.thread, REV), rev)], commands)
    return rev, [*map(_flat, replies)]


def read_with(
    settings: Settings, thread_id: str, script: Script, *asked: Argument
) -> RedisEffects[tuple[bytes | None, Any]]:
    """The thread's rev, and the reply of a script that reads."""
    keys = settings.keys.of(thread_id)
    given = (int(settings.refresh_on_read), settings.ttl_text, *asked)
    with _needing_scripts(settings):
        rev, found = yield RunScript(script, keys, given, thread_id=thread_id)
    return rev, found


@contextmanager
def _needing_scripts(settings: Settings) -> Iterator[None]:
    """If the server turns out to bar scripts, the transaction starts again, and does without."""
    try:
        yield
    except ScriptsBarred:
        settings.scripts = False
        raise Changed from None


def _flat(reply: Any) -> Any:
    """A reply in the form of RESP2, where a mapping is a flat list."""
    if isinstance(reply, dict):
        return [part for item in reply.items() for part in item]
    return reply


# -- writing


def life_commands(keys: ThreadKeys) -> list[Command]:
    """The commands that read in how many milliseconds a thread expires, and the server's time."""
    return [command("PTTL", keys.thread), command("TIME")]


def expiry(
    settings: Settings, keys: ThreadKeys, ttl: str | None, left: int = -1, now: Sequence[Any] = ()
) -> list[Command]:
    """The commands after which all keys of a thread expire at one moment, or never.

    `ttl` is the thread's own time to live. Without one, and without a default, the default of
    another saver may count for the thread, which expires in `left` milliseconds from `now` on: keys
    that a write creates must not outlive it.
    """
    seconds = settings.ttl_text if ttl is None else ttl
    if seconds == FOR_EVER:
        return [command("PERSIST", key) for key in keys]
    if seconds:
        # From the write on, however late that is: a time that has passed would remove the keys.
        return [command("PEXPIRE", key, int(float(seconds) * 1000)) for key in keys]
    if left < 0:
        return []
    at = int(now[0]) * 1000 + int(now[1]) // 1000 + left
    return [command("PEXPIREAT", key, at) for key in keys]


def row_commands(keys: ThreadKeys, rows: Mapping[bytes, Row | None]) -> list[Command]:
    """The commands that add or replace rows, and remove those that are None."""
    gone = [field for field, row in rows.items() if row is None]
    put = [(field, pack(row)) for field, row in rows.items() if row is not None]
    listed = [field for field, _ in put if field[:1] != BLOB]
    found: list[Command] = []
    # Rows are removed first: after that, a server whose memory is full takes the rest too.
    for fields in chunks(gone, _ROWS_PER_COMMAND):
        found += [command("HDEL", keys.rows, *fields), command("ZREM", keys.order, *fields)]
    for some in chunks(put, _ROWS_PER_COMMAND):
        found.append(command("HSET", keys.rows, *chain.from_iterable(some)))
    for fields in chunks(listed, _ROWS_PER_COMMAND):
        scores: list[Argument] = [part for field in fields for part in (0, field)]
        found.append(command("ZADD", keys.order, *scores))
    return found


def store(
    settings: Settings,
    thread_id: str,
    writing: RedisEffects[int],
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
    done = yield from writing
    if done and owner is not None:
        settings.acknowledged.wrote(owner, done)
    if done and is_new:
        yield command("ZADD", settings.keys.threads, 0, thread_id)
    return bool(done)


def write_step(
    settings: Settings, thread_id: str, changes: Sequence[Argument]
) -> RedisEffects[int]:
    """Carry out the conditions and changes of `scripts.WRITE`, without reading anything. Returns
    how many writes the thread has had, and 0 if a condition does not hold."""
    keys = settings.keys.of(thread_id)
    given = (_new_rev(), settings.ttl_text, *changes)
    run = RunScript(scripts.WRITE, keys, given, writes=True, thread_id=thread_id)
    with _needing_scripts(settings):
        found = yield from _sent(settings, run)
    done = int(found.reply)
    if done:
        yield from _settled(settings, keys, found)
    return done


def write(
    settings: Settings,
    thread_id: str,
    rev: bytes | None,
    commands: Sequence[Command],
    *,
    removes: bool = False,
) -> RedisEffects[int]:
    """Carry out commands if the thread still has this `rev`. Returns how many writes the thread has
    had, and 0 if it has another `rev`. `removes`: the commands remove the thread."""
    keys, new = settings.keys.of(thread_id), _new_rev()
    if not removes:
        noted = command("HSET", keys.thread, REV, new), command("HINCRBY", keys.thread, SEQ, 1)
        commands = [*commands, *noted]
    run = guarded(keys, [Guard(("HGET", keys.thread, REV), rev)], commands)
    found = yield from _sent(settings, run._replace(writes=True, thread_id=thread_id))
    done = (1 if removes else int(found.reply[-1])) if is_done(found.reply) else 0
    if not done:
        there, count = yield command("HMGET", keys.thread, REV, SEQ)
        if there == new.encode():  # the write was sent again, since the first reply was lost
            done, found = int(count), unconfirmed(count)
    if done:
        yield from _settled(settings, keys, found)
    return done


def _new_rev() -> str:
    return uuid.uuid4().hex[:20]


def _sent(settings: Settings, run: RunScript) -> RedisEffects[Confirmed]:
    local, replicas = _wanted(settings)
    if local or replicas:
        found: Confirmed = yield Waited(run, local, replicas, WAIT_MS)
        return found
    return Confirmed((yield run), 0, 0)


def _wanted(settings: Settings) -> tuple[int, int]:
    """How many disks, 0 or 1, and replicas a write waits for."""
    return int(bool(settings.fsyncs)), settings.wait_replicas


def _settled(settings: Settings, keys: ThreadKeys, found: Confirmed) -> RedisEffects[None]:
    """Make sure that a write is where it must be before it is acknowledged."""
    local, replicas = _wanted(settings)
    if not local and not replicas:
        return
    found = yield from until_safe(
        found, keys.thread.rpartition(b":")[0] + b":wait", local, replicas
    )
    if found.local < local or found.replicas < replicas:
        raise OutcomeUnknownError(
            f"A step is in the memory of the Redis server, but after {WAITS * WAIT_MS / 1000:g} s "
            f"it was not on its disk, or on {replicas} replicas ({found.replicas} have it). Load "
            "the thread again to see what is stored."
            if found.is_known
            else "A step was sent to the Redis server, which cannot say whether it is on the disk. "
            "Load the thread again to see what is stored."
        )
