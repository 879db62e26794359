"""Refuse or warn: what becomes of something that is most likely a mistake.

A `Strictness` belongs to a graph. A strict one raises the error that it is given. Any other warns
of it, once for each place, and the caller goes on. A warning points to the program's own code: to
the function that is to blame, or to the nearest caller outside milepost.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Hashable
from threading import Lock
from types import CodeType
from typing import Any, Final

from milepost._internal import fork_guard
from milepost.warnings import MilepostWarning

VARIABLE: Final = "MILEPOST_STRICT"
"""The environment variable that makes graphs strict whose `strict` is not set."""
REMEMBERED: Final = 1000
"""How many places a graph remembers that it has warned of; of more, the oldest is forgotten."""

_HERE: Final = os.path.dirname(os.path.dirname(__file__)) + os.sep
_lock = fork_guard.fresh_in_child(Lock())


def strict_by_default() -> bool:
    """Whether the environment asks for strict graphs."""
    return os.environ.get(VARIABLE, "").strip().lower() not in ("", "0", "false", "no")


class Strictness:
    """Whether a graph refuses what is most likely a mistake, and what it has warned of."""

    __slots__ = ("_reported", "strict")

    def __init__(self, strict: bool | None = None) -> None:
        self.strict = strict_by_default() if strict is None else strict
        self._reported: dict[Hashable, None] = {}

    def check(
        self,
        place: Hashable,
        error: Exception | Callable[[], Exception],
        instead: str,
        culprit: object = None,
    ) -> None:
        """Raise the error, or warn of it and say what is done `instead`.

        `place` is what is reported once, `culprit` the function that the warning points to. What
        may be checked in every step gives a function that makes the error.
        """
        if not self.strict and place in self._reported:
            return
        found = error if isinstance(error, Exception) else error()
        if self.strict:
            raise found
        # A filter may make an error of it, which is then raised each time.
        warn_of(f"{found} {instead}", culprit)
        with _lock:
            if len(self._reported) >= REMEMBERED:
                del self._reported[next(iter(self._reported))]
            self._reported[place] = None


def warn_of(
    message: str, culprit: object = None, *, category: type[Warning] = MilepostWarning
) -> None:
    """Warn, and point to a function, or to the nearest caller outside milepost."""
    filename, line, names = _place_of(culprit) or _nearest_caller()
    registry = names.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, filename, line, names.get("__name__"), registry)


def _place_of(culprit: object) -> tuple[str, int, dict[str, Any]] | None:
    code = getattr(culprit, "__code__", None)
    if not isinstance(code, CodeType) or code.co_filename.startswith(_HERE):
        return None
    return code.co_filename, code.co_firstlineno, getattr(culprit, "__globals__", {})


def _nearest_caller() -> tuple[str, int, dict[str, Any]]:
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno, frame.f_globals


def mistake(error: Exception, instead: str) -> None:
    """Raise the error if the process is strict; otherwise warn of it, and say what is done."""
    if strict_by_default():
        raise error
    warn_of(f"{error} {instead}")
