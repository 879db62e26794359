"""What a call comes to on the server: effects of the engine, and what their replies mean."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from milepost._db.calls import Pause
from milepost._db.redis.commands import (
    Command,
    Confirmed,
    Decision,
    Everywhere,
    Pipeline,
    Plan,
    Program,
    RunScript,
    Scan,
    Waited,
    command,
)
from milepost._db.redis.errors import is_barred, translated
from milepost._db.redis.server import refuse_eviction, told
from milepost._internal import log
from milepost._internal.generators import GeneratorDriver
from milepost.checkpoint._redis import scripts
from milepost.checkpoint._redis.calls import Entries, Everything, Listed, Read, Write
from milepost.checkpoint._redis.rows import BLOB
from milepost.checkpoint._redis.settings import UNSURE, Settings
from milepost.checkpoint._redis.view import Changed
from milepost.errors import NotErasedError, OutcomeUnknownError

if TYPE_CHECKING:
    from milepost.checkpoint._redis.calls import Call, Calls

R = TypeVar("R")
_Keys: TypeAlias = tuple[bytes, bytes, bytes]

WAIT_MS: Final = 10_000
"""How long a commit waits for the disk, and for replicas."""


# -- the server itself


def look_at(settings: Settings) -> Program[None]:
    """Refuse a server that drops what it was given; find out what it promises."""
    asked = [command("INFO", "memory"), command("INFO", "persistence"), command("WAITAOF", 0, 0, 0)]
    can_wait = has_file = True
    for memory, persistence, wait in (yield Everywhere(asked)):
        if isinstance(memory, Exception) and not is_barred(memory):
            raise translated(memory, settings.owner) from memory
        policy = told(memory, "maxmemory_policy")
        if not settings.allow_eviction:
            refuse_eviction(policy, settings.owner)
            if policy.startswith("volatile") and settings.ttl:
                log.warning(
                    log.STORAGE,
                    "Redis may evict threads with a TTL before their time (%s).",
                    policy,
                )
        can_wait = can_wait and not isinstance(wait, Exception)
        has_file = has_file and told(persistence, "aof_enabled") != "0"
    settings.fsyncs = settings.wait_aof and can_wait and has_file
    if settings.wait_aof and not settings.fsyncs:
        why = "has no append-only file" if can_wait else "cannot wait for its disk (no WAITAOF)"
        warnings.warn(
            f"The Redis server {why}: an acknowledged step is in its memory, and "
            f"{UNSURE}. Switch appendonly on, use Redis 7.2 or Valkey, or pass wait_aof=False to "
            "accept that.",
            RuntimeWarning,
            stacklevel=6,
        )
    settings.is_ready = True


def rewrite() -> Program[None]:
    """Have the append-only files written again, without what was removed."""
    for (reply,) in (yield Everywhere([command("BGREWRITEAOF")])):
        if isinstance(reply, Exception) and "in progress" not in str(reply):
            raise NotErasedError(
                "What was removed cannot be read any more, but may still be in the server's "
                f"append-only file: BGREWRITEAOF was refused ({reply}). Have it done on the server."
            )
    for _ in range(6000):
        replies = yield Everywhere([command("INFO", "persistence")])
        names = ("aof_rewrite_in_progress", "aof_rewrite_scheduled")
        if not any(told(reply, name) == "1" for (reply,) in replies for name in names):
            return
        yield Pause(0.01)
    raise NotErasedError(
        "What was removed cannot be read any more, but the server is still writing its append-only "
        "file again. Wait until `INFO persistence` says that it has ended."
    )


# -- calls


def carry_out(settings: Settings, calls: Calls[R]) -> Program[R]:
    """Calls as effects of the engine."""
    steps = GeneratorDriver(calls)
    for call in steps:
        try:
            if not settings.is_ready:
                yield from look_at(settings)
            steps.answer = yield from _answered(settings, call)
        except Exception as error:
            steps.error = error
    return steps.result


def _answered(settings: Settings, call: Call) -> Program[Any]:
    if isinstance(call, Read):
        return (yield from _read(settings, call))
    if isinstance(call, Write):
        return (yield from _write(settings, call))
    if isinstance(call, Listed):
        return (yield command(call.command, settings.keys.threads, *call.arguments))
    if isinstance(call, Entries):
        return (yield from _entries(settings, call))
    if isinstance(call, Everything):
        return list(dict.fromkeys((yield Scan(settings.keys.pattern.encode()))))
    yield call
    return None


def _entries(settings: Settings, call: Entries) -> Program[list[tuple[Any, Any]]]:
    commands: list[Command] = []
    for thread_id in call.thread_ids:
        thread, _, index = settings.keys.of(thread_id)
        commands += [command("HGETALL", thread), _newest(index)]
    replies = [_flat(reply) for reply in (yield Pipeline(commands))]
    return list(zip(replies[::2], replies[1::2], strict=True))


def _newest(index: bytes) -> Command:
    return command("ZREVRANGEBYLEX", index, b"(c\0\0\xff", b"[c\0\0", "LIMIT", 0, 1)


def _read(settings: Settings, call: Read) -> Program[list[Any]]:
    keys = settings.keys.of(call.thread_id)
    used = int(settings.refresh_on_read)
    found: list[Any]
    if settings.scripts:
        given = (used, _ttl(settings), *call.requests)
        found = yield RunScript(scripts.READ, keys, given, partial(_barred, settings), watch=False)
        return found
    commands = [command("HGET", keys[0], "rev")]
    shapes = []
    requests = iter(call.requests)
    for what in requests:
        made = _request(str(what), keys, requests)
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


def _write(settings: Settings, call: Write) -> Program[int]:
    keys = settings.keys.of(call.thread_id)
    run = RunScript(
        scripts.WRITE,
        keys,
        (call.rev, _ttl(settings), *call.changes),
        partial(_chosen, settings, keys, call),
        writes=True,
    )
    local, replicas = int(bool(settings.fsyncs)), settings.wait_replicas
    if not local and not replicas:
        return int((yield run))
    found: Confirmed = yield Waited(run, local, replicas, WAIT_MS)
    done = int(found.reply)
    if done and not found.is_told:
        # A transaction, or a script that a cluster took elsewhere. On a connection that has
        # written nothing there would be nothing to wait for.
        mark = command("SET", keys[0].rpartition(b":")[0] + b":wait", 1, "PX", 60_000)
        found = yield Waited(mark, local, replicas, WAIT_MS)
    if done and (found.local < local or found.replicas < replicas):
        raise OutcomeUnknownError(
            f"A step is in the memory of the Redis server, but after {WAIT_MS / 1000:g} s it was "
            f"not on its disk, or on {replicas} replicas ({found.replicas} have it). Load the "
            "thread again to see what is stored."
            if found.is_told
            else "A step was sent to the Redis server, which cannot say whether it is on the disk. "
            "Load the thread again to see what is stored."
        )
    return done


def _chosen(settings: Settings, keys: _Keys, call: Write) -> Plan:
    """The commands of a write, if its condition holds."""
    if settings.scripts:
        yield from _barred(settings)
    thread, rows, index = keys
    rev, ttl, seq = yield command("HMGET", thread, "rev", "ttl", "seq")
    done = int(seq or 0)
    if rev == call.rev.encode():
        return Decision((), done)  # it was done before, when the reply was lost
    given = iter(call.changes)
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
    commands.append(command("HSET", thread, "rev", call.rev))
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


def _flat(reply: Any) -> Any:
    """A mapping as RESP2 has it."""
    if isinstance(reply, dict):
        return [part for item in reply.items() for part in item]
    return reply
