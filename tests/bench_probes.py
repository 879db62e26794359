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
