"""What ends a walk through a value, and where inside the value that was: `a.b[3].c`.

These exceptions never leave this package: the exact path turns them into typed errors.
"""

from __future__ import annotations

from typing import Any

_LONGEST = 24


class NotExact(Exception):
    """The fast path would lose something; the exact path must write this value."""


class TooDeep(Exception):
    """Nested deeper than the stack is sure to bear."""


class Refused(Exception):
    """A writer cannot write this object so that it could be read back; says why, and what to do."""


class Trail:
    """The steps from a value's root to where a walk is now.

    A walk pushes and pops `steps` itself, and leaves them as they are when it fails: an error
    ends the walk, and the trail then says where.
    """

    __slots__ = ("steps",)

    def __init__(self, *keys: Any) -> None:
        self.steps: list[Any] = list(keys)

    def __str__(self) -> str:
        steps = [step_of(key) for key in self.steps]
        if len(steps) > _LONGEST:
            half = _LONGEST // 2
            steps = [*steps[:half], "…", *steps[-half:]]
        return "".join(steps).removeprefix(".")


def step_of(key: Any) -> str:
    """How a step to this key, or to this index of a list, is written."""
    if type(key) is str and key.isidentifier():
        return f".{key}"
    try:
        text = repr(key)
    except Exception:
        text = f"<{type(key).__name__}>"
    return f"[{text}]" if len(text) <= 80 else f"[{text[:77]}...]"
