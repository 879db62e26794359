"""What the tests of the benchmark do in a library's own process, which loads no more than this."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.libraries import Library


def loaded(library: Library) -> set[str]:
    """Which of the two libraries are there."""
    return {name.partition(".")[0] for name in sys.modules} & {"milepost", "langgraph"}


def process(library: Library) -> int:
    return os.getpid()


def fails(library: Library) -> None:
    raise LookupError(library.name)


class Unreadable(Exception):
    """Is pickled, and cannot be read again: that calls it with one argument."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what} {why}")


class Unpicklable(Exception):
    def __reduce__(self) -> str:
        raise TypeError("cannot be pickled")


def fails_oddly(library: Library, *, picklable: bool) -> None:
    raise Unreadable("oh", "no") if picklable else Unpicklable("oh no")


def ends(library: Library) -> None:
    os._exit(1)
