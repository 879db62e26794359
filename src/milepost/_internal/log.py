"""Lines for those who operate a program: see docs/logging.md.

A line says what happened to which thread, node or channel. It never holds a value, a key, a
connection string or the text of an exception, which may quote any of them: an exception is named
by its class. `logging` is imported with the first line, since most runs log nothing.
"""

from __future__ import annotations

from typing import Final

RUN: Final = "milepost.run"
"""Nodes, and the end of runs."""
THREADS: Final = "milepost.threads"
"""Which run has a thread."""
STORAGE: Final = "milepost.storage"
"""Databases, and what is stored in them."""
STORE: Final = "milepost.store"
"""Items and their vectors."""
SERVER: Final = "milepost.server"
"""Requests that failed."""

_DEBUG, _INFO, _WARNING = 10, 20, 30


def debug(logger: str, message: str, *args: object) -> None:
    """Log what explains the other lines."""
    _log(logger, _DEBUG, message, args)


def info(logger: str, message: str, *args: object) -> None:
    """Log what the library has dealt with."""
    _log(logger, _INFO, message, args)


def warning(logger: str, message: str, *args: object) -> None:
    """Log what an operator may have to look at."""
    _log(logger, _WARNING, message, args)


def _log(logger: str, level: int, message: str, args: tuple[object, ...]) -> None:
    import logging

    shown = [type(arg).__name__ if isinstance(arg, BaseException) else arg for arg in args]
    # The line belongs to the place that called `debug`, `info` or `warning`.
    logging.getLogger(logger).log(level, message, *shown, stacklevel=3)
