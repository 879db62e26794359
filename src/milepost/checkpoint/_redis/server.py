"""What a call comes to on the server: commands, and what their replies mean. It never waits.

A method here is a generator of `Commands` and `Watched`; the engines carry those out on a client,
sync or async (`engine.py`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from milepost._internal import log
from milepost.checkpoint._redis import scripts
from milepost.checkpoint._redis.calls import Entries, Listed, Read, Scan, Write
from milepost.checkpoint._redis.rows import BLOB
from milepost.checkpoint._redis.settings import UNSURE, Settings
from milepost.checkpoint._redis.view import Changed
from milepost.errors import (
    ConnectionUnusableError,
    DatabaseBusyError,
    NotErasedError,
    OutcomeUnknownError,
    ReadOnlyError,
    SaverError,
    StorageFullError,
)

if TYPE_CHECKING:
    from milepost.checkpoint._redis.calls import Argument, Call

R = TypeVar("R")
Command: TypeAlias = tuple[Any, ...]

WAIT_MS: Final = 10_000
"""How long a commit waits for the disk, and for replicas."""


class Commands(NamedTuple):
    """Commands for the server that has a key, sent together; answered with their replies, in which
    errors are values."""

    key: bytes | None
    commands: Sequence[Command]
    atomic: bool = False


class Watched(NamedTuple):
    """A transaction of MULTI and EXEC: what `look` reads from a key decides about the commands.

    Answered with the replies; None if `choose` has refused, or the key has changed meanwhile.
    """

    key: bytes
    look: Command
    choose: Callable[[Any], Sequence[Command] | None]


class Everywhere(NamedTuple):
    """A command for each primary of a cluster, or for the one server; or a scan for a pattern."""

    command: Command
    scan: str | None = None


class Pause(NamedTuple):
    """Wait."""

    seconds: float


Effect: TypeAlias = Commands | Watched | Everywhere | Pause
Effects: TypeAlias = Generator[Effect, Any, R]


# -- the server itself


def look_at(settings: Settings) -> Effects[None]:
    """Refuse a server that drops what it was given; find out what it promises."""
    memory, persistence, wait = yield Commands(
        settings.keys.threads,
        [("INFO", "memory"), ("INFO", "persistence"), ("WAITAOF", 0, 0, 0)],
    )
    policy = _info(memory, "maxmemory_policy")
    if policy.startswith("allkeys") and not settings.allow_eviction:
        raise SaverError(
            f"The server's maxmemory-policy is {policy}: when its memory is full, it drops threads "
            "that were acknowledged. Set it to noeviction, use another server, or pass "
            "allow_eviction=True if threads may be lost."
        )
    if policy.startswith("volatile") and settings.ttl and not settings.allow_eviction:
        log.warning(
            log.STORAGE, "Redis may evict threads with a TTL before their time (%s).", policy
        )
    _raise_connection(memory)
    can_wait = not isinstance(wait, Exception)
    settings.fsyncs = settings.wait_aof and can_wait and _info(persistence, "aof_enabled") != "0"
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


def _info(reply: Any, key: str) -> str:
    if isinstance(reply, dict):
        return str(reply.get(key, ""))
    if isinstance(reply, bytes):
        for line in reply.decode().splitlines():
            if line.startswith(f"{key}:"):
                return line.partition(":")[2]
    return ""


def rewrite() -> Effects[None]:
    """Have the append-only files written again, without what was removed."""
    for reply in (yield Everywhere(("BGREWRITEAOF",))):
        if isinstance(reply, Exception) and "in progress" not in str(reply):
            raise NotErasedError(
                "What was removed cannot be read any more, but may still be in the server's "
                f"append-only file: BGREWRITEAOF was refused ({reply}). Have it done on the server."
            )
    for _ in range(6000):
        replies = yield Everywhere(("INFO", "persistence"))
        keys = ("aof_rewrite_in_progress", "aof_rewrite_scheduled")
        if not any(_info(reply, key) == "1" for reply in replies for key in keys):
            return
        yield Pause(0.01)
    raise NotErasedError(
        "What was removed cannot be read any more, but the server is still writing its append-only "
        "file again. Wait until `INFO persistence` says that it has ended."
    )


# -- calls


def carry_out(settings: Settings, call: Call) -> Effects[Any]:
    """What a call is answered with."""
    if not settings.is_ready:
        yield from look_at(settings)
    if isinstance(call, Read):
        return (yield from _read(settings, call))
    if isinstance(call, Write):
        return (yield from _write(settings, call))
    if isinstance(call, Listed):
        key = settings.keys.threads
        [reply] = yield Commands(key, [(call.command, key, *call.arguments)])
        return _sound(reply)
    if isinstance(call, Entries):
        return (yield from _entries(settings, call))
    if isinstance(call, Scan):
        found = yield Everywhere((), scan=settings.keys.pattern)
        return list(dict.fromkeys(found))
    yield Pause(call.seconds)
    return None


def _entries(settings: Settings, call: Entries) -> Effects[list[tuple[Any, Any]]]:
    commands: list[Command] = []
    for thread_id in call.thread_ids:
        thread, _, index = settings.keys.of(thread_id)
        commands += [("HGETALL", thread), _newest(index)]
    replies = yield Commands(None, commands)
    replies = [_flat(_sound(reply)) for reply in replies]
    return list(zip(replies[::2], replies[1::2], strict=True))


def _newest(index: bytes) -> Command:
    return ("ZREVRANGEBYLEX", index, b"(c\0\0\xff", b"[c\0\0", "LIMIT", 0, 1)


def _read(settings: Settings, call: Read) -> Effects[list[Any]]:
    keys = settings.keys.of(call.thread_id)
    used = int(settings.refresh_on_read)
    if settings.scripts:
        given = (used, _ttl(settings), *call.requests)
        reply = yield from _eval(settings, scripts.READ, keys, given)
        found: list[Any] = _sound(reply)
        return found
    commands: list[Command] = [("HGET", keys[0], "rev")]
    shapes = []
    requests = iter(call.requests)
    for what in requests:
        made = _request(str(what), keys, requests)
        shapes.append((str(what), len(made)))
        commands += made
    replies = yield Commands(keys[0], commands, atomic=True)
    rev, *rest = [_flat(_sound(reply)) for reply in replies]
    found = [rev]
    for what, size in shapes:
        some, rest = rest[:size], rest[size:]
        found.append(some if what in "EC" else some[0])
    if used and rev is not None:
        yield from _refresh(settings, keys)
    return found


def _request(what: str, keys: tuple[bytes, bytes, bytes], given: Iterator[Any]) -> list[Command]:
    """The commands of a request, where scripts are barred."""
    thread, rows, index = keys
    if what == "E":
        return [("HGETALL", thread), _newest(index)]
    if what == "G":
        return [("HMGET", rows, *(next(given) for _ in range(next(given))))]
    if what == "A":
        return [("HGETALL", rows)]
    if what == "C":
        counts = [("ZLEXCOUNT", index, "[c", "(d"), ("ZLEXCOUNT", index, "[w", "(x")]
        return [("HLEN", rows), *counts]
    low, high, limit = next(given), next(given), next(given)
    if what == "R":
        return [("ZRANGEBYLEX", index, low, high, "LIMIT", 0, limit)]
    return [("ZREVRANGEBYLEX", index, high, low, "LIMIT", 0, limit)]


def _write(settings: Settings, call: Write) -> Effects[int]:
    keys = settings.keys.of(call.thread_id)
    wait = _waiting(settings)
    if settings.scripts:
        given = (call.rev, _ttl(settings), *call.changes)
        reply = yield from _eval(settings, scripts.WRITE, keys, given, wait)
        return int(_sound(reply))
    assert not call.guarded
    look = ("HMGET", keys[0], "rev", "ttl")
    replies = yield Watched(keys[0], look, partial(_chosen, settings, keys, call))
    if replies is None:
        return 0
    done = int(replies[0])
    if wait:
        # On a connection that has written nothing there would be nothing to wait for.
        tag = keys[0].rpartition(b":")[0]
        replies = yield Commands(keys[0], [("SET", tag + b":wait", 1, "PX", 60_000), *wait])
        _check_waited(settings, replies[1:])
    return done


def _chosen(
    settings: Settings, keys: tuple[bytes, bytes, bytes], call: Write, seen: Sequence[Any]
) -> list[Command] | None:
    """The commands of a write, if its condition holds."""
    thread, rows, index = keys
    rev, ttl = seen
    if rev == call.rev.encode():
        return [("HINCRBY", thread, "seq", 0)]  # it was done before, when the reply was lost
    given = iter(call.changes)
    commands: list[Command] = [("HINCRBY", thread, "seq", 1)]
    for what in given:
        if what == "!":
            if rev is not None:
                return None
        elif what == "=":
            next(given)
            if rev != next(given):
                return None
        elif what == "E":
            key, value = next(given), next(given)
            commands.append(("HSET", thread, key, value))
            ttl = str(value).encode() if key == "ttl" else ttl
        elif what == "X":
            commands.append(("HDEL", thread, next(given)))
        elif what == "K":
            return [("UNLINK", *keys)]
        else:
            name = next(given)
            assert isinstance(name, bytes)
            if what == "S":
                commands.append(("HSET", rows, name, next(given)))
                if name[:1] != BLOB:
                    commands.append(("ZADD", index, 0, name))
            else:
                commands += [("HDEL", rows, name), ("ZREM", index, name)]
    commands.append(("HSET", thread, "rev", call.rev))
    return commands + _expiry(settings, keys, ttl)


def _expiry(
    settings: Settings, keys: tuple[bytes, bytes, bytes], ttl: bytes | None
) -> list[Command]:
    seconds = _ttl(settings) if ttl is None else ttl.decode()
    if seconds == "-1":
        return [("PERSIST", key) for key in keys]
    return [("PEXPIRE", key, int(float(seconds) * 1000)) for key in keys] if seconds else []


def _refresh(settings: Settings, keys: tuple[bytes, bytes, bytes]) -> Effects[None]:
    [ttl] = yield Commands(keys[0], [("HGET", keys[0], "ttl")])
    if commands := _expiry(settings, keys, _sound(ttl)):
        yield Commands(keys[0], commands, atomic=True)


def _ttl(settings: Settings) -> str:
    return "" if settings.ttl is None else str(settings.ttl)


def _waiting(settings: Settings) -> list[Command]:
    """What a commit waits for."""
    if settings.fsyncs:
        return [("WAITAOF", 1, settings.wait_replicas, WAIT_MS)]
    return [("WAIT", settings.wait_replicas, WAIT_MS)] if settings.wait_replicas else []


def _check_waited(settings: Settings, replies: Sequence[Any]) -> None:
    for reply in replies:
        if isinstance(reply, Exception):
            raise OutcomeUnknownError(
                "A step was sent to the Redis server, which cannot say whether it is on the disk "
                f"({reply}). Load the thread again to see what is stored."
            ) from reply
        local, copies = (1, reply) if isinstance(reply, int) else reply
        if local < 1 or copies < settings.wait_replicas:
            raise OutcomeUnknownError(
                f"A step is in the memory of the Redis server, but after {WAIT_MS / 1000:g} s it "
                f"was not on its disk, or on {settings.wait_replicas} replicas ({copies} have it). "
                "Load the thread again to see what is stored."
            )


def _eval(
    settings: Settings,
    script: scripts.Script,
    keys: tuple[bytes, bytes, bytes],
    given: Sequence[Argument],
    wait: Sequence[Command] = (),
) -> Effects[Any]:
    """The reply of a script, which is sent in full if the server does not know it."""
    for name, text in (("EVALSHA", script.sha), ("EVAL", script.text)):
        replies = yield Commands(keys[0], [(name, text, 3, *keys, *given), *wait])
        reply = replies[0]
        if isinstance(reply, Exception):
            if str(reply).startswith("NOSCRIPT") or type(reply).__name__ == "NoScriptError":
                continue
            if _are_barred(reply):
                told = "Redis: scripts are barred (%s); steps are stored with WATCH and MULTI."
                log.warning(log.STORAGE, told, type(reply).__name__)
                settings.scripts = False
                raise Changed
            return reply
        if wait and reply:
            _check_waited(settings, replies[1:])
        return reply
    return reply


def _are_barred(error: Exception) -> bool:
    text = str(error).lower()
    barred = "no permissions" in text or "unknown command" in text or "disabled" in text
    return barred and "eval" in text


def _flat(reply: Any) -> Any:
    """A mapping as RESP2 has it."""
    if isinstance(reply, dict):
        return [part for item in reply.items() for part in item]
    return reply


def _sound(reply: Any) -> Any:
    if isinstance(reply, Exception):
        raise explained(reply, write=False) from reply
    return reply


def _raise_connection(reply: Any) -> None:
    if isinstance(reply, Exception) and "permission" not in str(reply).lower():
        raise explained(reply, write=False) from reply


def explained(error: Exception, *, write: bool) -> Exception:
    """An error of a client in our words; clients of both names have the same classes."""
    names = {kind.__name__ for kind in type(error).__mro__}
    text = str(error)
    if "OutOfMemoryError" in names or "used memory >" in text:
        return StorageFullError(
            f"The memory of the Redis server is used up ({text}). Nothing was stored. Delete "
            "threads, give them a TTL, or raise maxmemory."
        )
    if "ReadOnlyError" in names or text.startswith("READONLY"):
        return ReadOnlyError(
            f"The Redis server is a replica, which can only be read ({text}). Nothing was stored. "
            "Connect to the primary."
        )
    if "BusyLoadingError" in names or text.startswith(
        ("LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN")
    ):
        return DatabaseBusyError(f"The Redis server is not ready ({text}). Repeat the call.")
    if names & {"ConnectionError", "TimeoutError"}:
        if write and "AuthenticationError" not in names:
            return OutcomeUnknownError(
                f"The connection to the Redis server was lost while a step was on its way ({text})."
                " Load the thread again to see whether the step is stored."
            )
        return ConnectionUnusableError(f"The Redis server cannot be reached ({text}).")
    return SaverError(f"The Redis server refused a command: {text}")
