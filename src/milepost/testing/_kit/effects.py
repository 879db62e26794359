"""What a clause asks of the driver that runs it.

A clause is a generator, written once. It yields these and is sent the results; an error is thrown
in. The drivers (`runner.py`) carry them out in sync code or on an event loop.

    yielded     sent back
    CallMethod  what `method` or `amethod` returned; a list if that was an iterator
    Together    the results of programs that ran at the same time
    Misplaced   what a method returned that was called where it might have to block a loop
    Reopen      the saver, after it was closed and made again
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar


@dataclass(slots=True)
class CallMethod:
    """Call a method of a saver or graph: `method` in sync code, `amethod` on a loop."""

    target: Any
    method: str
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]


@dataclass(slots=True)
class Together:
    """Run programs at the same time."""

    programs: Sequence[KitEffects[Any]]


@dataclass(slots=True)
class Misplaced:
    """Call a method in an awkward place: a sync one on the loop, an async one on another loop."""

    call: CallMethod


class Reopen:
    """Close the saver and open it again, as a restarted program would."""

    __slots__ = ()


Effect: TypeAlias = CallMethod | Together | Misplaced | Reopen
R = TypeVar("R")
KitEffects: TypeAlias = Generator[Effect, Any, R]


def call(target: object, method: str, *arguments: Any, **keywords: Any) -> CallMethod:
    """A method of a saver or graph, in the form of the run."""
    return CallMethod(target, method, arguments, keywords)


def caught(effect: Effect) -> KitEffects[Exception | None]:
    """What carrying out an effect raises; None if it succeeds."""
    try:
        yield effect
    except Exception as error:
        return error
    return None
