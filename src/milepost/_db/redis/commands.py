"""The effects of Redis: what a generator yields, and what it is sent back.

The generator never waits and knows no client. `RedisEngine` carries out its effects with a sync or
an async client.

    yielded      sent back
    Command      its reply
    Pipeline     a list of replies; the commands went out in one round trip
    RunScript    the script's reply, which a transaction gives too where scripts are barred
    Waited       a `Confirmed`: the reply, and how many disks and replicas have confirmed it
    Everywhere   for each primary a list of replies, in which errors are values
    Scan         the names of all keys that match, unsorted; of every primary of a cluster
    Pause        None, after a number of seconds

An error is thrown into the generator as one of ours (`errors.py`). When a connection is lost, the
effect is repeated on a new one, except for a script with `once`: it may have run already, so
OutcomeUnknownError is thrown in, and the generator decides whether to yield the effect again. A
script with `writes` is repeated; if the server does not come back, the error is OutcomeUnknownError
too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from milepost._db.calls import Pause

if TYPE_CHECKING:
    from milepost._db.redis.guarded import Guarded

R = TypeVar("R")
Argument: TypeAlias = bytes | str | int | float


class Command(NamedTuple):
    """One command, as its name and arguments."""

    args: tuple[Argument, ...]


def command(*args: Argument) -> Command:
    """A command with these arguments."""
    return Command(args)


class Pipeline(NamedTuple):
    """Commands that do not depend on each other. The first error is thrown in, in place of all
    replies."""

    commands: Sequence[Command]


class Script:
    """A script. Servers know it by the SHA-1 of its source."""

    __slots__ = ("sha", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        self.sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()


class ScriptsBarred(Exception):
    """The server bars scripts, and a script has no `guarded`."""


class RunScript(NamedTuple):
    """Run a script, which is atomic. In a cluster all its keys must be in one slot."""

    script: Script
    keys: Sequence[bytes]
    args: Sequence[Argument]
    guarded: Guarded | None = None
    """What the script does, for a transaction where scripts are barred."""
    once: bool = False
    """Whether the script must not run twice."""
    writes: bool = False
    """Whether the script changes something, and may run twice."""
    thread_id: str | None = None
    """Whose keys they are, for the log."""


class Waited(NamedTuple):
    """Run a script or a command, then wait on the same connection until its write is safe: with
    `WAITAOF local replicas`, or with `WAIT replicas` if the disk does not matter."""

    run: RunScript | Command
    local: int
    """1 to wait for the primary's own disk, else 0."""
    replicas: int
    timeout_ms: int
    """0 waits for ever."""


UNCONFIRMED: Final = -1
"""A number of disks or replicas that is not known."""


class Confirmed(NamedTuple):
    """The answer to `Waited`."""

    reply: Any
    local: int
    """1 if the primary's own disk has the write, else 0; `UNCONFIRMED` if the server cannot tell.
    """
    replicas: int
    """How many replicas have it, or `UNCONFIRMED`."""

    @property
    def is_known(self) -> bool:
        """Whether the server has said which disks and replicas have the write."""
        return self.local != UNCONFIRMED


def unconfirmed(reply: Any) -> Confirmed:
    """A write of which it is not known whether it is safe."""
    return Confirmed(reply, UNCONFIRMED, UNCONFIRMED)


WAIT_MS: Final = 1_000
"""How long the server waits for the disk and for replicas before it replies. A client gives a reply
up after some seconds: 5, unless it was made otherwise."""
WAITS: Final = 10
"""So many waits in a row, then it is not known whether a write is safe."""
_MARK_MS: Final = 60_000
"""How long a key lives that is written only to have a write to wait for."""


def until_safe(found: Confirmed, mark: bytes, local: int, replicas: int) -> RedisEffects[Confirmed]:
    """Wait on until so many disks and replicas have a write, as far as the server can tell.

    `found` is the answer to the write, which may have been a transaction, a script on a node that
    the key has moved to, or one whose reply was lost. The server waits only for writes of the same
    connection, so `mark` is written, a key in the same slot. The reply of the answer is that to the
    last write.
    """
    waits = int(found.is_known)
    while (found.local < local or found.replicas < replicas) and waits < WAITS:
        run = command("SET", mark, 1, "PX", _MARK_MS)
        found = yield Waited(run, local, replicas, WAIT_MS)
        if not found.is_known:
            break
        waits += 1
    return found


class Everywhere(NamedTuple):
    """Send commands to each primary of a cluster, or to the only server."""

    commands: Sequence[Command]


class Scan(NamedTuple):
    """Find keys by a pattern. Only for upkeep: the server goes through all its keys."""

    match: bytes


def chunks(items: Sequence[R], size: int) -> Iterator[Sequence[R]]:
    """Parts of at most `size` items, since a command or a round trip has a bound."""
    for at in range(0, len(items), size):
        yield items[at : at + size]


def literally(text: str) -> str:
    """A pattern of keys that matches this text only."""
    return "".join(f"\\{c}" if c in "*?[]\\^" else c for c in text)


Effect: TypeAlias = Command | Pipeline | RunScript | Waited | Everywhere | Scan | Pause
RedisEffects: TypeAlias = Generator[Effect, Any, R]
"""Yields effects, is sent their results, and returns an R."""
