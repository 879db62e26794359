"""What ends a walk through a value, and where inside the value that was: `a.b[3].c`.

These exceptions never leave this package: the exact path turns them into typed errors.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Path: TypeAlias = list[Any]
"""The keys and indexes from a value's root to where a walk is now.

A walk pushes and pops them itself, and leaves them as they are when it fails: an error ends the
walk, and the path then says where.
"""
_LONGEST = 24


class NotExact(Exception):
    """The fast path would lose something; the exact path must write this value."""


class TooDeep(Exception):
    """Nested deeper than the stack is sure to bear."""


class Refused(Exception):
    """A writer cannot write this object so that it could be read back; says why, and what to do."""


def path_text(path: Path) -> str:
    """How a path is written; of a long one, the beginning and the end."""
    steps = list(map(_step_text, path))
    if len(steps) > _LONGEST:
        half = _LONGEST // 2
        steps = [*steps[:half], "…", *steps[-half:]]
    return "".join(steps).removeprefix(".")


def _step_text(key: Any) -> str:
    if type(key) is str and key.isidentifier():
        return f".{key}"
    try:
        text = repr(key)
    except Exception:
        text = f"<{type(key).__name__}>"
    return f"[{text}]" if len(text) <= 80 else f"[{text[:77]}...]"
