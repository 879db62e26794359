"""What a program on Redis yields, and what it is sent back.

A program is a generator. It never waits and knows no client: `RedisEngine` runs it with a sync or
an async one.

    yielded      sent back
    Command      its reply
    Pipeline     a list of replies; the commands went out in one round trip
    RunScript    the script's reply, or what its `plan` answered where scripts are barred
    Waited       a `Confirmed`: the reply, and how many disks and replicas have confirmed it
    Everywhere   for each primary a list of replies, in which errors are values
    Scan         the names of all keys that match, in no order; of every primary of a cluster
    Pause        None, after so many seconds

An error is thrown in as one of ours (`errors.py`). A connection that was lost is replaced and the
effect is repeated, unless it says `once`: then OutcomeUnknownError is thrown in, and the program
decides whether to yield the effect again. What `writes` may be repeated; OutcomeUnknownError is
thrown in if the server does not come back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from milepost._db.calls import Pause

Argument: TypeAlias = bytes | str | int | float


class Command(NamedTuple):
    """One command, as its name and arguments."""

    args: tuple[Argument, ...]


def command(*args: Argument) -> Command:
    """A command with these arguments."""
    return Command(args)


class Pipeline(NamedTuple):
    """Commands that do not depend on each other. The first that fails makes all of it fail."""

    commands: Sequence[Command]
    atomic: bool = False
    """Whether no other client's command comes between: then all keys are in one slot."""


class Script:
    """A script, known to servers by the digest of its text."""

    __slots__ = ("name", "sha", "source")

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        self.source = source
        self.sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()


class Decision(NamedTuple):
    """How a plan ends: with commands that are done as a whole, and with what is answered."""

    commands: Sequence[Command]
    answer: Any = None
    with_replies: bool = False
    """Whether the replies of the commands follow what is answered, in one list."""


Plan: TypeAlias = Generator[Command, Any, Decision]
"""The same as a script, where scripts are barred: it reads with commands, one at a time, and then
decides what to write. It runs again from its start if a key of the script has changed meanwhile."""


class RunScript(NamedTuple):
    """Carry out a script, which is atomic. In a cluster all its keys are in one slot."""

    script: Script
    keys: Sequence[bytes]
    args: Sequence[Argument] = ()
    plan: Callable[[], Plan] | None = None
    """None for a script without which nothing works."""
    once: bool = False
    """Whether the script must not run twice."""
    watch: bool = True
    """Whether the plan depends on its keys: one that only reads all at once does not."""
    writes: bool = False
    thread_id: str | None = None
    """Whose keys they are, for the log."""


class Waited(NamedTuple):
    """Carry out a script or a command, then wait until what it wrote is safe, on the same
    connection: with `WAITAOF local replicas`, or `WAIT replicas` where no disk is asked for."""

    run: RunScript | Command
    local: int
    """1 to wait for the primary's own disk, else 0."""
    replicas: int
    timeout: int
    """Milliseconds; 0 waits for ever."""


class Confirmed(NamedTuple):
    """The answer to `Waited`."""

    reply: Any
    local: int
    """-1 if the server cannot tell."""
    replicas: int

    @property
    def is_known(self) -> bool:
        """Whether the server was asked, and could tell."""
        return self.local >= 0


class Everywhere(NamedTuple):
    """Commands for each primary of a cluster, or for the one server."""

    commands: Sequence[Command]


class Scan(NamedTuple):
    """Look for keys. Only for upkeep: it walks through the whole database."""

    match: bytes


def literally(text: str) -> str:
    """A text that a pattern of keys matches as it is."""
    return "".join(f"\\{c}" if c in "*?[]\\^" else c for c in text)


Effect: TypeAlias = Command | Pipeline | RunScript | Waited | Everywhere | Scan | Pause
R = TypeVar("R")
Program: TypeAlias = Generator[Effect, Any, R]
