"""Ids of checkpoints, tasks and interrupts.

A checkpoint id is a UUID of version 6: sorted as text, ids are in order of creation. The clock
alone does not guarantee that, so the caller names the ids that a new id must come after.
"""

from __future__ import annotations

import os
import sys
import time
from _random import Random  # without the module around it, of which nothing is needed

try:  # without hashlib, which loads OpenSSL
    from _blake2 import blake2b as blake2b
except ImportError:
    from hashlib import blake2b as blake2b

# Not the module's shared generator: a program that seeds that one would repeat our ids.
_random = Random()
getrandbits = _random.getrandbits
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.seed)

_GREGORIAN_TO_UNIX = 0x01B21DD213814000  # 100 ns intervals between 1582-10-15 and 1970-01-01
_last_ticks = 0


def checkpoint_id(*after: str | None) -> str:
    """A new id, larger than each of `after` even if the clock has gone back since."""
    global _last_ticks
    ticks = time.time_ns() // 100 + _GREGORIAN_TO_UNIX
    if ticks == _last_ticks:
        # Two ids within one tick of the clock. Threads may race here, and need not agree: what
        # must be in order is told by `after`, and the random digits keep ids apart.
        ticks += 1
    _last_ticks = ticks
    digits = getrandbits(62) | 0x8000_0000_0000_0000
    while True:
        text = "%015x%016x" % (ticks, digits)  # noqa: UP031 - faster
        text = f"{text[:8]}-{text[8:12]}-6{text[12:15]}-{text[15:19]}-{text[19:]}"
        for earlier in after:
            if earlier and earlier >= text and (floor := _ticks_of(earlier)) >= ticks:
                ticks = floor + 1
                break
        else:
            return text


class LateId:
    """A checkpoint id that is made when it is first read."""

    _made: str | None = None

    def __init__(self, *after: str | None) -> None:
        self._after = after

    def __str__(self) -> str:
        if self._made is None:
            # `setdefault` is atomic: every thread reads the same id, without a lock.
            self.__dict__.setdefault("_made", checkpoint_id(*self._after))
        assert self._made is not None
        return self._made

    def successor(self) -> LateId:
        """An id that comes after this one. An id that was not read yet is not made for that."""
        return LateId(*self._after) if self._made is None else LateId(self._made)


def _ticks_of(identifier: str) -> int:
    """The 60-bit time inside a version 6 id; 0 for an id of another version."""
    if len(identifier) == 36 and identifier[14] == "6":
        try:
            return int(identifier[:8] + identifier[9:13] + identifier[15:18], 16)
        except ValueError:
            return 0
    return 0


def time_of(checkpoint_id: str) -> float:
    """When a checkpoint id was made, in seconds since 1970; infinity if the id is no UUID 6."""
    ticks = _ticks_of(checkpoint_id)
    return (ticks - _GREGORIAN_TO_UNIX) / 10_000_000 if ticks else float("inf")


def digest_id(*parts: str) -> str:
    """An id in the form of a UUID that depends on nothing but `parts`."""
    text = blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def interrupt_id(task_ns: str, at: int) -> str:
    """The id of the interrupt that a task raises as its `at`-th: the same on every re-run."""
    return digest_id("interrupt", task_ns, str(at)).replace("-", "")


def interrupt_id_of_ns(ns: str) -> str:
    """The id that LangGraph gives an interrupt of a task.

    Answers to threads that LangGraph has stored use it. Its digest needs a package that LangGraph
    installs; without the package the id is one of ours.
    """
    try:
        from xxhash import xxh3_128_hexdigest
    except ImportError:
        return interrupt_id(ns, 0)
    return xxh3_128_hexdigest(ns.encode())


def random_uuid() -> str:
    """A UUID of version 4.

    Taken from `uuid.uuid4` if the program has loaded `uuid`, since its tests may patch that.
    """
    if (uuid := sys.modules.get("uuid")) is not None:
        return str(uuid.uuid4())
    text = f"{getrandbits(128) & ~(0xF << 76) & ~(3 << 62) | 4 << 76 | 2 << 62:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def random_token() -> str:
    """128 random bits as text: the identity of a run, or of a line of history."""
    return f"{getrandbits(128):032x}"


def new_epoch() -> int:
    """The epoch of a thread. Random, so that it differs from earlier threads of the same id."""
    return getrandbits(53)


def foreign_epoch() -> int:
    """The epoch that begins when a foreign runtime writes where a run of ours goes on.

    It is below 0 until a run of ours writes there again. So further writes of the foreign runtime
    need no new epoch, in which they could not build on rows of the one before.
    """
    return -1 - new_epoch()


def is_foreign(epoch: int | None) -> bool:
    """Whether a foreign runtime has begun an epoch."""
    return epoch is not None and epoch < 0
