"""Reads and writes a thread where scripts are barred: with MULTI and WATCH.

Only the opcodes that `view.py` makes are known here. The usual step of a run, which reads nothing,
needs a script (`guarded.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from milepost._db.redis.commands import Argument, Command, Decision, Pipeline, Plan, command
from milepost.checkpoint._redis.rows import (
    AFTER_ALL,
    BLOB,
    CHECKPOINT,
    FOR_EVER,
    REV,
    ROOT_CHECKPOINTS,
    SEQ,
    WRITE,
    ThreadKeys,
)
from milepost.checkpoint._redis.scripts import Change, Condition, Request

if TYPE_CHECKING:
    from milepost._db.redis.commands import RedisEffects
    from milepost.checkpoint._redis.server import Settings

_NEWEST_ROOT: Final = (
    b"(" + ROOT_CHECKPOINTS + AFTER_ALL,
    b"[" + ROOT_CHECKPOINTS,
    *("LIMIT", 0, 1),
)
"""Arguments of ZREVRANGEBYLEX for the latest checkpoint of the root graph."""

# -- reading


def read(
    settings: Settings, keys: ThreadKeys, requests: Sequence[Argument]
) -> RedisEffects[list[Any]]:
    """The thread's rev, and one reply for each request, as of one moment."""
    commands = [command("HGET", keys.thread, REV)]
    sizes = []
    given = iter(requests)
    for opcode in given:
        made = _REQUESTS[opcode](keys, given)
        sizes.append(len(made))
        commands += made
    replies = yield Pipeline(commands, atomic=True)
    rev, *rest = map(flat, replies)
    found: list[Any] = [rev]
    for size in sizes:
        some, rest = rest[:size], rest[size:]
        found.append(some if size > 1 else some[0])
    if settings.refresh_on_read and rev is not None:
        ttl = yield command("HGET", keys.thread, "ttl")
        if commands := _expiry(settings, keys, ttl):
            yield Pipeline(commands, atomic=True)
    return found


# -- requests as commands


def entry_commands(keys: ThreadKeys, *_: Iterator[Any]) -> list[Command]:
    """The commands of `Request.ENTRY`."""
    newest = command("ZREVRANGEBYLEX", keys.order, *_NEWEST_ROOT)
    return [command("HGETALL", keys.thread), newest]


def _rows(keys: ThreadKeys, given: Iterator[Any]) -> list[Command]:
    return [command("HMGET", keys.rows, *(next(given) for _ in range(next(given))))]


def _all_rows(keys: ThreadKeys, _: Iterator[Any]) -> list[Command]:
    return [command("HGETALL", keys.rows)]


def _counts(keys: ThreadKeys, _: Iterator[Any]) -> list[Command]:
    counts = [command("ZLEXCOUNT", keys.order, *_bounds(kind)) for kind in (CHECKPOINT, WRITE)]
    return [command("HLEN", keys.rows), *counts]


def _range(keys: ThreadKeys, given: Iterator[Any]) -> list[Command]:
    low, high, limit = next(given), next(given), next(given)
    return [command("ZRANGEBYLEX", keys.order, low, high, "LIMIT", 0, limit)]


def _range_backwards(keys: ThreadKeys, given: Iterator[Any]) -> list[Command]:
    low, high, limit = next(given), next(given), next(given)
    return [command("ZREVRANGEBYLEX", keys.order, high, low, "LIMIT", 0, limit)]


def _bounds(kind: bytes) -> tuple[bytes, bytes]:
    """The part of the index that has all rows of one kind."""
    return b"[" + kind, b"(" + bytes((kind[0] + 1,))


_REQUESTS: Final[dict[Argument, Callable[[ThreadKeys, Iterator[Any]], list[Command]]]] = {
    Request.ENTRY: entry_commands,
    Request.ROWS: _rows,
    Request.ALL_ROWS: _all_rows,
    Request.COUNTS: _counts,
    Request.RANGE: _range,
    Request.RANGE_BACKWARDS: _range_backwards,
}
"""Request → what makes its commands from the keys of the thread and the arguments that follow. The
reply to a request with several commands is the list of their replies."""


# -- writing


def plan_write(
    settings: Settings, keys: ThreadKeys, new_rev: str, changes: Sequence[Argument]
) -> Plan:
    """The commands of a write, if its conditions hold."""
    rev, ttl, seq = yield command("HMGET", keys.thread, REV, "ttl", SEQ)
    done = int(seq or 0)
    if rev == new_rev.encode():
        return Decision((), done)  # the write was sent again, since the first reply was lost
    collected = _Collected(keys, rev, ttl)
    given = iter(changes)
    for opcode in given:
        _CHANGES[opcode](collected, given)
    if not collected.holds:
        return Decision((), 0)
    if collected.is_deleted:
        return Decision([command("UNLINK", *keys)], 1)
    expiry = _expiry(settings, keys, collected.ttl)
    if not expiry and (left := (yield command("PTTL", keys.thread))) > 0:
        # Another saver's default: keys that this write creates must not outlive the thread.
        expiry = [command("PEXPIRE", key, left) for key in keys]
    commands = [
        command("HINCRBY", keys.thread, SEQ, 1),
        *collected.commands,
        command("HSET", keys.thread, REV, new_rev),
        *expiry,
    ]
    return Decision(commands, done + 1)


class _Collected:
    """The conditions and changes of a write, as its opcodes are read one after the other."""

    def __init__(self, keys: ThreadKeys, rev: bytes | None, ttl: bytes | None) -> None:
        self._keys = keys
        self._rev = rev
        self.ttl = ttl
        self.holds = True
        """Whether all conditions hold."""
        self.is_deleted = False
        """Whether the thread is to be removed."""
        self.commands: list[Command] = []

    def equals(self, given: Iterator[Any]) -> None:
        key, value = next(given), next(given)
        assert key == REV
        self.holds = self.holds and self._rev == value

    def is_new(self, _: Iterator[Any]) -> None:
        self.holds = self.holds and self._rev is None

    def set_value(self, given: Iterator[Any]) -> None:
        key, value = next(given), next(given)
        self.commands.append(command("HSET", self._keys.thread, key, value))
        if key == "ttl":
            self.ttl = str(value).encode()

    def remove_value(self, given: Iterator[Any]) -> None:
        self.commands.append(command("HDEL", self._keys.thread, next(given)))

    def put_row(self, given: Iterator[Any]) -> None:
        field, row = next(given), next(given)
        self.commands.append(command("HSET", self._keys.rows, field, row))
        if field[:1] != BLOB:
            self.commands.append(command("ZADD", self._keys.order, 0, field))

    def delete_row(self, given: Iterator[Any]) -> None:
        field = next(given)
        self.commands += [
            command("HDEL", self._keys.rows, field),
            command("ZREM", self._keys.order, field),
        ]

    def delete_thread(self, _: Iterator[Any]) -> None:
        self.is_deleted = True


_CHANGES: Final[dict[Argument, Callable[[_Collected, Iterator[Any]], None]]] = {
    Condition.EQUALS: _Collected.equals,
    Condition.IS_NEW: _Collected.is_new,
    Change.SET_VALUE: _Collected.set_value,
    Change.REMOVE_VALUE: _Collected.remove_value,
    Change.PUT_ROW: _Collected.put_row,
    Change.DELETE_ROW: _Collected.delete_row,
    Change.DELETE_THREAD: _Collected.delete_thread,
}
"""Opcode → method, for the conditions and changes that `view.py` makes."""


def _expiry(settings: Settings, keys: ThreadKeys, ttl: bytes | None) -> list[Command]:
    seconds = settings.ttl_text if ttl is None else ttl.decode()
    if seconds == FOR_EVER:
        return [command("PERSIST", key) for key in keys]
    if not seconds:
        return []
    return [command("PEXPIRE", key, int(float(seconds) * 1000)) for key in keys]


def flat(reply: Any) -> Any:
    """A reply in the form of RESP2, where a mapping is a flat list."""
    if isinstance(reply, dict):
        return [part for item in reply.items() for part in item]
    return reply
