"""A process of its own for each library, so that each is measured as its users run it.

In one process the two would pay for each other: a collection of garbage goes through the modules of
both, and leaves the processor's caches full of them.
"""

from __future__ import annotations

import os
import pickle
import signal
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from importlib import import_module
from multiprocessing import get_context
from typing import Any, TypeVar, TypeVarTuple

from bench.libraries import Library
from bench.measure import UNTRACED, Reading, Watch, mean

Args = TypeVarTuple("Args")
T = TypeVar("T")


class Seat:
    """Where one library is measured. What is done there, and what comes of it, is pickled."""

    def __init__(self, name: str, root: str | None) -> None:
        self.name = name
        self.root = root or ""
        self._pool = ProcessPoolExecutor(
            1, mp_context=get_context("spawn"), initializer=_sit_down, initargs=(name, root)
        )

    def do(self, work: Callable[[Library, *Args], T], *args: *Args) -> T:
        """Call a function with the library, in its process."""
        return self._pool.submit(_do, work, *args).result()

    def readings(
        self, work: Callable[[Library, Watch, *Args], None], *args: *Args
    ) -> list[Reading]:
        """What a function measures in there, with the watch that it is given."""
        return self._pool.submit(_measure, work, *args).result()

    def measure(self, work: Callable[[Library, Watch, *Args], None], *args: *Args) -> Reading:
        """The average of that."""
        return mean(self.readings(work, *args))

    def load(self, modules: tuple[str, ...]) -> None:
        """Import what the cases need: an ImportError comes now or never."""
        self._pool.submit(_load, modules).result()

    def close(self) -> None:
        """End the process."""
        self._pool.shutdown(cancel_futures=True)


_whose: tuple[str, str | None]


@cache
def _library() -> Any:
    name, root = _whose
    return None if root is None else Library(name, root)


def _sit_down(name: str, root: str | None) -> None:
    global _whose
    _whose = name, root
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(UNTRACED)
    warnings.simplefilter("ignore")


def _do(work: Callable[..., T], *args: Any) -> T:
    # Ctrl-C ends what is going on; one who is waiting for work is told by being closed.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return work(_library(), *args)
    except Exception as error:
        if _travels(error):
            raise
        raise RuntimeError("".join(traceback.format_exception(error))) from None
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _travels(error: Exception) -> bool:
    """Whether it can be pickled, and read again: what cannot would be told as something else."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return False
    return True


def _measure(work: Callable[..., None], *args: Any) -> list[Reading]:
    watch = Watch()
    _do(work, watch, *args)
    return watch.readings


def _load(modules: tuple[str, ...]) -> None:
    for name in modules:
        import_module(name)
